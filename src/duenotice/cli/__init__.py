"""Where people enter: the `duenotice` command."""

from duenotice.cli.main import main

__all__ = ["main"]
