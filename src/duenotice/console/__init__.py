"""The web console: pages for people on call. It asks the operator's API like anybody else and holds no rules."""
