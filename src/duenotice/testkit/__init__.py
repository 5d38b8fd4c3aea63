"""Fakes, checks and fixtures for people who test against duenotice; nothing here runs in a service."""
