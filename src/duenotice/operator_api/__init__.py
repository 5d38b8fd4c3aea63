"""The operator's door: a small REST API. It asks the engine and has no rules of its own."""
