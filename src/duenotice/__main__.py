"""`python -m duenotice` is the `duenotice` command."""

from duenotice.cli import main

main()
