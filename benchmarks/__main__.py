"""Runs the measurements, all in one go: `python -m benchmarks [--quick] [--only NAME] [--write]`."""

import os
import signal
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import click

from benchmarks import (
    agent,
    azure,
    cluster,
    durable,
    followers,
    idle,
    keepalive,
    listing,
    newconn,
    scale,
    stalls,
    startup,
    waiting,
)
from benchmarks import console as console_pages
from benchmarks.support import machine, report
from benchmarks.support.console import console, title
from benchmarks.support.results import Row
from benchmarks.support.yard import FLEET, Yard

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "benchmarks.md"
WORK = ROOT / ".run"
FILES = 16_000
NOT_MEASURED = "could not be measured"

_ALL = (
    keepalive,
    newconn,
    waiting,
    listing,
    idle,
    durable,
    scale,
    stalls,
    startup,
    agent,
    console_pages,
    followers,
    cluster,
    azure,
)
MODULES = {module.__name__.rpartition(".")[2]: module for module in _ALL}


@click.command()
@click.option("--quick", is_flag=True, help="short rounds and no million VMs: shows that all works, not how fast")
@click.option("--only", type=click.Choice(list(MODULES)), multiple=True, help="this measurement alone; may be repeated")
@click.option("--write", is_flag=True, help=f"keep the results of a whole run in {DOCUMENT.relative_to(ROOT)}")
def main(quick: bool, only: tuple[str, ...], write: bool) -> None:
    """Measure duenotice side by side with what it is compared to."""
    if write and (quick or only):
        raise click.UsageError("--write keeps whole runs only: leave out --quick and --only.")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that children and files are cleaned up
    try:
        here = _prepare(quick)
        results = _run({name: MODULES[name] for name in only or MODULES}, quick)
    except machine.CannotMeasure as problem:
        _complain(problem)
        sys.exit(1)
    _tell(results, here, quick, write)


class Here(NamedTuple):
    """The machine as it was before the run."""

    facts: dict[str, str]
    busy: bool


def _prepare(quick: bool) -> Here:
    here = Here(machine.describe(), machine.is_busy())
    machine.allow_many_files(FILES)
    os.sched_setaffinity(0, {machine.LOAD_CORE})
    for name, value in here.facts.items():
        console.print(f"[bold]{name}[/]  {value}")
    if here.busy:
        console.print("[yellow]Others are using this machine: figures will vary and may mislead either way.[/]")
    if quick:
        console.print("[yellow]A quick run: figures say little.[/]")
    return here


def _run(modules: dict[str, ModuleType], quick: bool) -> report.Results:
    WORK.mkdir(exist_ok=True)
    results: dict[str, list[Row]] = {}
    with tempfile.TemporaryDirectory(prefix="bench-", dir=WORK) as root:
        yard = Yard(Path(root), quick)
        for name, module in modules.items():
            title(name, (module.__doc__ or "").splitlines()[0])
            results[name] = _measure(module, yard)
    return results


def _measure(module: ModuleType, yard: Yard) -> list[Row]:
    """What fails must not take with it what others have measured."""
    try:
        rows: list[Row] = module.measure(yard)
    except machine.CannotMeasure as problem:
        _complain(problem)
        return [Row(NOT_MEASURED, "see above", ok=False)]
    return rows


def _complain(problem: machine.CannotMeasure) -> None:
    console.print(str(problem), style="bold red", markup=False, soft_wrap=True)


def _tell(results: report.Results, here: Here, quick: bool, write: bool) -> None:
    report.show(results)
    whole = all(row.what != NOT_MEASURED for rows in results.values() for row in rows)
    if write and not whole:
        console.print(f"[bold red]{DOCUMENT.relative_to(ROOT)} is left as it was:[/] not everything was measured")
    elif write:
        report.write(DOCUMENT, results, here.facts, here.busy, FLEET)
        console.print(f"written to {DOCUMENT.relative_to(ROOT)}")
    missed = report.missed(results)
    for target in missed:
        console.print(f"[bold red]missed[/]  {target}")
    if not missed:
        console.print("[green]every target is met[/]" + (" (in a quick run)" if quick else ""))
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
