"""Shows the results: as a table on the terminal, and as docs/benchmarks.md."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from rich.table import Table

from benchmarks.support.console import console
from benchmarks.support.results import NOT_MEASURED, Row

Results = Mapping[str, Sequence[Row]]

QUICK = "quick:"
_HEADINGS = ("what", "ours", "reference", "ratio", "target", "ok?")
_INTRODUCTION = """\
# How fast it is

Written by `make bench` on a machine that was quiet before and during the run; not to be edited. `make bench-quick` is
for daily work: the same rows of the most important sections, in two minutes, and it keeps nothing.

Ours and the reference run in the same minutes on the same machine and take turns, so the ratio means more than either
figure. A ratio is the median over the rounds. The server is a real `duenotice serve` with all checks on (header,
version, caller, throttle, enablement) and {fleet:,} VMs registered, alone on one core; the load is on another.

- **keepalive, newconn**: wrk polls a quiet VM's document; nginx (one worker) returns as many bytes, the body and
  headers being the same but for `Server`. CPU is the process's own time divided by the requests answered; a ratio of
  1 is nginx's cost, more is cheaper than nginx. For new connections there is a second nginx, with `listen … deferred`.
  Polls from 1,000 addresses come from a client of ours, which waits for 64 answers at a time.
- **workers**: both are on the server's core, so this is what a poll costs, not how many there can be.
- **waiting**: each VM is a connection from an address of its own that asks with `wait=120s`; the median round counts.
  The process that plays the VMs looks once a millisecond who was told. Otherwise each answer would wake it, and the
  server would do work that VMs on other machines do not cause.
- **listing**: wrk polls while another client reads all pages of the list of VMs over and over; the reference is the
  same poll without it.
- **idle**: memory that belongs to the server alone, before and after 10,000 more connections came; 5,000 come first
  and are not counted, as they fill what loading the fleet left free.
- **durable**: schedule and cancel in turns on the SQLite journal, log lines included; the reference writes 4 KiB into
  a preallocated file and calls fdatasync, on the same core. Over HTTP it is a whole server, and one client that waits
  for each answer; the bare app there is uvicorn with one such write in a thread, and nothing else.
- **scale**: start is from exec to the first answered poll; its processor time tells whether it grows in a straight
  line, as that does not depend on who else is there. Polls come from VMs spread over the fleet.
- **stalls**: a VM that has no part in it polls every 20 ms, from a process of its own, while something big is asked
  for; each poll is timed from when it should have been sent. The median round counts. `make stalls` does it with
  everything that the operator's API can do.
- **startup**: the best of several starts of the command line, by the clock on the wall.
- **agent**: a real `duenotice agent run` with one hook, its ledger synced; from just before the operator's request, at
  any moment, to the record that the handler begins. The service is on one core, the agent on the other.
- **followers**: CPU as above, beside the node that is followed, in turns.
- **cluster**: three nodes at default settings (a lease of 4.5 s) on a PostgreSQL that syncs, all on this machine. When
  a change was committed is what the database says; it is visible when a VM that waits at each node has been told. While
  the leader goes, an operator and a VM ask the other nodes all the time; a pause is between two that were answered.
"""


def show(results: Results) -> None:
    """The table, in colours that mean something: green met, red missed, grey has no target."""
    table = Table(*_HEADINGS, title="duenotice", title_justify="left")
    for name, rows in results.items():
        table.add_section()
        table.add_row(f"[bold cyan]{name}[/]")
        for row in rows:
            colour = {True: "green", False: "bold red", None: "dim"}[row.ok]
            table.add_row(*_cells(row), style=colour)
    console.print()
    console.print(table)


def missed(results: Results) -> list[str]:
    """The targets that were not met, each with what it wanted and what it got."""
    return [
        f"{name}: {row.what}: {_got(row)}, target {row.target}" if row.target else f"{name}: {row.what}"
        for name, rows in results.items()
        for row in rows
        if row.ok is False
    ]


def summary(results: Results) -> str:
    """How many targets there were, and how many of them were met."""
    judged = [row.ok for rows in results.values() for row in rows if row.ok is not None]
    return f"{sum(judged)} of {len(judged)} targets are met"


def left_out(results: Results, wanted: Iterable[str]) -> list[str]:
    """The sections that a run does not tell of; marked rows tell little."""
    return [name for name in wanted if not _is_told(results.get(name, ()))]


def marked(rows: Sequence[Row], quick: bool) -> list[Row]:
    """The rows of a quick run say so."""
    return [row._replace(what=f"{QUICK} {row.what}") for row in rows] if quick else list(rows)


def _is_told(rows: Sequence[Row]) -> bool:
    return bool(rows) and not any(row.what == NOT_MEASURED or row.what.startswith(QUICK) for row in rows)


def _got(row: Row) -> str:
    return row.ours if row.ratio is None else f"{row.ratio:.2f}×"


def write(path: Path, results: Results, machine: Mapping[str, str], fleet: int) -> None:
    """The same for readers of the documentation."""
    parts = [_INTRODUCTION.format(fleet=fleet), *_machine(machine)]
    for name, rows in results.items():
        parts += ["", f"## {name}", "", *_table(rows)]
    path.write_text("\n".join(parts) + "\n")


def _machine(machine: Mapping[str, str]) -> Iterator[str]:
    yield "## The machine"
    yield ""
    for name, value in machine.items():
        yield f"- {name}: {value}"


def _table(rows: Sequence[Row]) -> Iterator[str]:
    yield f"| {' | '.join(_HEADINGS)} |"
    yield "|---|---|---|---|---|---|"
    for row in rows:
        yield f"| {' | '.join(_cells(row))} |"


def _cells(row: Row) -> tuple[str, ...]:
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}×"
    verdict = {True: "yes", False: "**no**", None: ""}[row.ok]
    return row.what, row.ours, row.reference, ratio, row.target, verdict
