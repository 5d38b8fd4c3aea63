"""The VM's side: finds and asks the metadata service; imports domain, wire and the ground only, to stay small."""
