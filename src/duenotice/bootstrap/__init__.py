"""The only room that sees all others: from settings to wired objects."""
