"""`duenotice journal`: move the journal of a stopped service to another place."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from duenotice.cli.arguments import NAME, Noun
from duenotice.cli.output import tell


@click.group(cls=Noun)
def journal() -> None:
    """Copy the journal of a stopped service."""


@journal.command(
    "copy", epilog="Example: duenotice journal copy /var/lib/duenotice postgresql://duenotice@db/duenotice"
)
@click.argument("source", type=NAME, metavar="FROM")
@click.argument("target", type=NAME, metavar="TO")
def copy(source: str, target: str) -> None:
    """Copy a journal to an empty place, and check the copy. FROM and TO are data directories or postgresql:// URLs.

    Stop the service first. At the first start with the copy every incarnation goes ahead, since VMs may have seen more
    than it knows.
    """
    from duenotice.bootstrap import journal_copy

    with _progress() as told:
        count = journal_copy.copy(source, target, told)
    tell(f"Copied {count} records. Both journals give the same state.")


@contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None]]:
    """A bar on a terminal; elsewhere nothing."""
    if not sys.stderr.isatty():
        yield lambda _what, _done, _all: None
        return
    from rich.console import Console
    from rich.progress import Progress, TaskID

    tasks: dict[str, TaskID] = {}
    with Progress(console=Console(stderr=True), transient=True) as bar:

        def told(what: str, done: int, newest: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what)
            bar.update(tasks[what], completed=done, total=newest)

        yield told
