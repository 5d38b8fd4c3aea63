"""Shows the results: as a table on the terminal, and as docs/benchmarks.md."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rich.table import Table

from benchmarks.support.console import console
from benchmarks.support.results import Row

Results = Mapping[str, Sequence[Row]]

_HEADINGS = ("what", "ours", "reference", "ratio", "target", "ok?")
_INTRODUCTION = """\
# How fast it is

Written by `.venv/bin/python -m benchmarks --write`, which is `make bench` that keeps what it saw; not to be edited.

Ours and the reference run in the same minutes on the same machine and take turns, so the ratio means more than either
figure. A ratio is the median over the rounds. The server is a real `duenotice serve` with all checks on (header,
version, caller, throttle, enablement) and {fleet:,} VMs registered, alone on one core; the load is on another.

- **keepalive, newconn**: wrk polls a quiet VM's document; nginx (one worker) returns as many bytes, the body and
  headers being the same but for `Server`. CPU is the process's own time divided by the requests answered; a ratio of
  1 is nginx's cost, more is cheaper than nginx.
- **waiting**: each VM is a connection from an address of its own that asks with `wait=120s`; the median round counts.
- **listing**: wrk polls while another client reads all pages of the list of VMs over and over; the reference is the
  same poll without it.
- **idle**: memory that belongs to the server alone, before and after 10,000 more connections came; 5,000 come first
  and are not counted, as they fill what loading the fleet left free.
- **durable**: schedule and cancel in turns on the SQLite journal, log lines included; the reference writes 4 KiB into
  a preallocated file and calls fdatasync.
- **scale**: start is from exec to the first answered poll; its processor time tells whether it grows in a straight
  line, as that does not depend on who else is there. Polls come from VMs spread over the fleet.
- **stalls**: a VM that has no part in it polls every 20 ms, from a process of its own, while something big is asked for
  or falls due; each poll is timed from when it should have been sent. What was too slow is done again, up to three
  times, and the best counts. `make stalls` does it with everything that the operator's API can do.
- **startup**: the best of several starts of the command line, by the clock on the wall.
- **agent**: a real `duenotice agent run` with one hook, its ledger synced; from just before the operator's request, at
  any moment, to the record that the handler begins. The service is on one core, the agent on the other.
- **followers**: CPU as above, beside the node that is followed, in turns. The two workers are on the server's core
  together, and polls come from many VMs; with a core each they would do twice what the ratio says.
- **cluster**: three nodes at default settings (a lease of 6 s) on a PostgreSQL that syncs, all on this machine. When a
  change was committed is what the database says; it is visible when a VM that waits at each node has been told. While
  the leader goes, an operator and a VM ask the other nodes all the time; a pause is between two that were answered.
"""

_BUSY = """\
> **Not to be quoted.** Others were using this machine during the run. That can make a ratio look better as well as
> worse, since the reference suffers too. Run it again when the machine is quiet.
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
    """The targets that were not met."""
    return [f"{name}: {row.what}" for name, rows in results.items() for row in rows if row.ok is False]


def write(path: Path, results: Results, machine: Mapping[str, str], busy: bool, fleet: int) -> None:
    """The same for readers of the documentation."""
    parts = [_INTRODUCTION.format(fleet=fleet), *([_BUSY] if busy else []), *_machine(machine)]
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
