"""The rules: what a command does, as records. Pure."""
