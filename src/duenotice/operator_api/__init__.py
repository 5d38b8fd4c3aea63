"""The operator's door: a small REST API. It asks the engine and holds no rules of its own."""
