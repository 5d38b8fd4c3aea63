"""Makes what people install: wheel, sdist, and the agent in one file."""
