"""The promise and its rules: values and functions; no clock, no I/O, no randomness, no logging."""
