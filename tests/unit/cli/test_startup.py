"""How soon the command line is there: what it imports, and how long that takes."""

import resource
import subprocess
import sys
import time
from typing import NamedTuple

import pytest

from duenotice.cli.main import COMMANDS

LIMIT = 0.15
ROUNDS = 7

SLOW = ("rich", "starlette", "uvicorn", "uvloop", "apsw", "structlog", "prometheus_client", "http.client", "asyncio")
CALLS = [("--version",), ("--help",), ("vm", "list", "--help"), ("events", "watch", "--help")]


COUNTED = """
import pathlib, runpy, sys
sys.argv = ["duenotice", *sys.argv[1:]]
try:
    runpy.run_module("duenotice", run_name="__main__")
finally:
    found = pathlib.Path("/proc/self/schedstat")
    sys.stderr.write("\\n" + (found.read_text().split()[1] if found.exists() else "0"))
"""
"""As `-m duenotice`; then says for how many nanoseconds it waited for the processor, which Linux counts."""


class Took(NamedTuple):
    """Seconds by the clock on the wall without waiting for the processor, and of the processor."""

    wall: float
    cpu: float


def run(*command: str) -> Took:
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run([sys.executable, *command], check=True, capture_output=True, text=True, timeout=60)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    waited = int(done.stderr.rpartition("\n")[2] or 0) / 1e9
    return Took(wall - waited, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def best(runs: list[Took]) -> Took:
    """The least of several: what others do meanwhile only adds to it."""
    return Took(*(min(each) for each in zip(*runs, strict=True)))


@pytest.mark.serial
@pytest.mark.parametrize("call", CALLS, ids=" ".join)
def test_it_is_there_within_150_ms(call: tuple[str, ...]) -> None:
    """By the processor's time, and by the clock on the wall if a bare interpreter gets the processor when it wants."""
    turns = [(run("-c", "pass"), run("-c", COUNTED, *call)) for _ in range(ROUNDS)]
    bare, ours = (best(list(runs)) for runs in zip(*turns, strict=True))
    assert ours.cpu <= LIMIT
    assert ours.wall <= LIMIT * max(1.0, bare.wall / bare.cpu), (ours, bare)


@pytest.mark.parametrize("call", [*CALLS, *((name, "--help") for name in COMMANDS if name != "serve")], ids=" ".join)
def test_nothing_slow_is_imported_before_it_is_needed(call: tuple[str, ...]) -> None:
    """That is what keeps it quick, and it does not depend on the machine."""
    code = f"import sys; from duenotice.cli.main import main; main({list(call)}); sys.exit(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert set(SLOW).isdisjoint(done.stderr.split()), set(SLOW) & set(done.stderr.split())
    assert "click" in done.stderr.split()


def test_a_service_loads_nothing_that_only_draws() -> None:
    """structlog would load rich, which is five megabytes with what it brings; afterwards it can still be loaded."""
    code = (
        "import sys; from duenotice.cli.serve import spare_memory; spare_memory()\n"
        "import duenotice.bootstrap.start, duenotice.bootstrap.logs\n"
        "found = {'rich', 'pygments', 'greenlet'} & set(sys.modules); import rich.table; sys.exit(' '.join(found))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr.strip() == ""
