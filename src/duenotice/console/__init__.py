"""The web console: pages for people on call. It asks the operator's API like any other client and has no rules."""
