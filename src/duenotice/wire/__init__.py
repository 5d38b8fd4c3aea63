"""JSON to domain and back, per api-version; the server writes and the client reads with the same code."""
