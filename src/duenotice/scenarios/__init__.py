"""Scenarios are stories that are played against a running service, and are tests at the same time.

No HTTP and no terminal here.
"""
