"""The name of the event type that is not a deadline; agents and clients know it without the rules of the service."""

ADVICE = "SpotRebalanceRecommendation"
"""Only api-version 2024-07-09 shows it, and only services that have that. Nothing starts at its NotBefore."""
