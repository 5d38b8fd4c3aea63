"""Prints the seconds that a data directory's journal takes to open and become a state; run as a process of its own."""

import gc
import sys
from pathlib import Path
from time import perf_counter

from duenotice.engine.engine import load
from duenotice.store.sqlite import SqliteJournal


def main() -> None:
    """Open, load, tell."""
    gc.disable()  # as the service does
    began = perf_counter()
    journal = SqliteJournal(Path(sys.argv[1]))
    load(journal)
    print(perf_counter() - began)
    journal.close()


if __name__ == "__main__":
    main()
