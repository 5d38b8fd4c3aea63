"""Starts `duenotice` with a time of day that is wrong: `python -m tests.cluster.wrong_clock SECONDS serve …`.

In place of SECONDS it may be a file that holds them: then the clock can be set while the process runs. It is moved
where Python reads it. Beyond the year 2262 that fails, as Python itself does there.
"""

import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta, tzinfo
from pathlib import Path

_LAST = 2**63 / 1e9
"""Python counts nanoseconds in 63 bits."""


def main() -> None:
    """Move the clock before anything else is imported, then be the command."""
    off, right = _reader(sys.argv.pop(1)), time.time

    def moved() -> float:
        seconds = right() + off()
        if seconds >= _LAST:
            raise OverflowError("timestamp too large to convert to C _PyTime_t")
        return seconds

    class Moved(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            moved()
            return datetime.now(tz) + timedelta(seconds=off())

    time.time = moved
    from duenotice import clock
    from duenotice.cli import main as command

    vars(clock)["datetime"] = Moved
    command()


def _reader(said: str) -> Callable[[], float]:
    file = Path(said)
    return (lambda: float(file.read_text() or 0)) if file.is_file() else (lambda: float(said))


if __name__ == "__main__":
    main()
