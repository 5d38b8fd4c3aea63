"""How soon the command line answers: the best of several starts, beside that of a bare interpreter."""

import subprocess
import sys
from time import perf_counter

from benchmarks.support.console import step
from benchmarks.support.machine import SERVER_CORE, pinned
from benchmarks.support.results import Row, within
from benchmarks.support.yard import Yard

LIMIT = 200.0
CALLS = ("--version", "--help", "vm list --help")


def measure(yard: Yard) -> list[Row]:
    """Each call as often, in turns with the interpreter alone."""
    bare = _best(["-c", "pass"], yard.rounds)
    rows = [
        within(f"duenotice {call}", _best(["-m", "duenotice", *call.split()], yard.rounds), LIMIT, "ms")
        for call in CALLS
    ]
    return [*rows, Row("python -c pass, for comparison", f"{bare:.0f} ms")]


def _best(arguments: list[str], rounds: int) -> float:
    found = min(_milliseconds(arguments) for _ in range(rounds))
    step(f"{' '.join(arguments)}: {found:.0f} ms")
    return found


def _milliseconds(arguments: list[str]) -> float:
    began = perf_counter()
    subprocess.run(pinned(SERVER_CORE, [sys.executable, *arguments]), check=True, capture_output=True, timeout=60)
    return (perf_counter() - began) * 1e3
