"""What the agent does on this machine: each kind of handler is a file."""
