"""Push: each change of an event is sent to its subscriptions, from the journal, at least once (M13)."""
