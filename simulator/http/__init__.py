"""The VM's door against a second opinion: what we take for a request must be the same request to h11 and httptools."""
