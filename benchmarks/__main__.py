"""Runs the measurements, all in one go: `python -m benchmarks [--quick] [--only NAME] [--write]`."""

import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from types import ModuleType

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
    workers,
)
from benchmarks import console as console_pages
from benchmarks.support import machine, report
from benchmarks.support.console import console, step, title
from benchmarks.support.quotable import cores_of_others, objections, used
from benchmarks.support.results import NOT_MEASURED, Row
from benchmarks.support.yard import FLEET, Yard

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "benchmarks.md"
WORK = ROOT / ".run"
FILES = 16_000

_DAILY = (keepalive, newconn, workers, waiting, idle, durable, scale, stalls)
"""What a change of the way of a poll or of a command may spoil: all that a quick run does."""

_OTHERS = (listing, startup, agent, console_pages, followers, cluster, azure)
MODULES = {module.__name__.rpartition(".")[2]: module for module in (*_DAILY, *_OTHERS)}
DAILY = list(MODULES)[: len(_DAILY)]


@dataclass
class Run:
    """What was measured, and the machine meanwhile."""

    quick: bool
    facts: dict[str, str]
    load_before: float
    results: dict[str, list[Row]] = field(default_factory=dict)
    others: dict[str, float] = field(default_factory=dict)
    """Cores that others used in each section."""


@click.command()
@click.option("--quick", is_flag=True, help="the daily part, in short rounds; its rows are marked")
@click.option("--only", type=click.Choice(list(MODULES)), multiple=True, help="this measurement alone; may be repeated")
@click.option("--write", is_flag=True, help=f"keep the results in {DOCUMENT.relative_to(ROOT)} if they may be quoted")
def main(quick: bool, only: tuple[str, ...], write: bool) -> None:
    """Measure duenotice side by side with what it is compared to."""
    if write and (quick or only):
        raise click.UsageError("--write keeps whole runs only: leave out --quick and --only.")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that children and files are cleaned up
    try:
        run = _prepare(quick)
        _measure_all(run, only or (DAILY if quick else list(MODULES)))
    except machine.CannotMeasure as problem:
        _complain(str(problem))
        sys.exit(1)
    _tell(run, write)


def _prepare(quick: bool) -> Run:
    run = Run(quick, machine.describe(), os.getloadavg()[0])
    machine.allow_many_files(FILES)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else each start of a server would compile all of it
    os.sched_setaffinity(0, {machine.LOAD_CORE})
    run.facts["load before the run"] = f"{run.load_before:.1f}"
    for name, value in run.facts.items():
        console.print(f"[bold]{name}[/]  {value}")
    for problem in objections(run.load_before, {}, []):
        console.print(f"[yellow]This run will not be quotable: {problem}.[/]")
    return run


def _measure_all(run: Run, names: Sequence[str]) -> None:
    WORK.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=WORK) as root:
        yard = Yard(Path(root), run.quick)
        for name in names:
            title(name, (MODULES[name].__doc__ or "").splitlines()[0])
            before = used()
            run.results[name] = report.marked(_measure(MODULES[name], yard), run.quick)
            run.others[name] = cores_of_others(before, used())
            step(f"{monotonic() - before.at:.0f} s; others used {run.others[name]:.2f} cores")


def _measure(module: ModuleType, yard: Yard) -> list[Row]:
    """What fails must not take with it what others have measured."""
    try:
        rows: list[Row] = module.measure(yard)
    except machine.CannotMeasure as problem:
        _complain(str(problem))
    except Exception:
        _complain(traceback.format_exc())
    else:
        return rows
    return [Row(NOT_MEASURED, "see above", ok=False)]


def _complain(problem: str) -> None:
    console.print(problem, style="bold red", markup=False, soft_wrap=True)


def _tell(run: Run, write: bool) -> None:
    report.show(run.results)
    against = objections(run.load_before, run.others, report.left_out(run.results, MODULES))
    for problem in against:
        console.print(f"[yellow]not to be quoted[/]  {problem}", soft_wrap=True)
    if write:
        _keep(run, against)
    missed = report.missed(run.results)
    for target in missed:
        console.print(f"[bold red]missed[/]  {target}", soft_wrap=True)
    console.print(report.summary(run.results), soft_wrap=True)
    sys.exit(1 if missed else 0)


def _keep(run: Run, against: Sequence[str]) -> None:
    name = DOCUMENT.relative_to(ROOT)
    if against:
        console.print(f"[bold yellow]{name} is left as it was[/]; run it again when the machine is quiet")
        return
    most = max(run.others.values())
    facts = {**run.facts, "others during the run": f"{most:.2f} cores in the section where they did most"}
    report.write(DOCUMENT, run.results, facts, FLEET)
    console.print(f"written to {name}")


if __name__ == "__main__":
    main()
