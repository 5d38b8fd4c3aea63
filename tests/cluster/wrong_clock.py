"""Starts `duenotice` with a time of day that is wrong: `python -m tests.cluster.wrong_clock SECONDS serve …`.

Only `duenotice.clock.wall` reads the time of day (the linter refuses it elsewhere), so only that is moved.
"""

import sys
from datetime import datetime, timedelta

from duenotice import clock


def main() -> None:
    """Move the clock before anything else is imported, then be the command."""
    off, right = timedelta(seconds=float(sys.argv.pop(1))), clock.wall

    def wrong() -> datetime:
        return right() + off

    clock.wall = wrong
    from duenotice.cli import main as command

    command()


if __name__ == "__main__":
    main()
