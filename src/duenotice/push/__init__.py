"""Push: each change of an event goes to those who have subscribed, from the journal, at least once (M13)."""
