"""Keeps the promise: batches commands, decides, commits, publishes, and sleeps until something is due."""
