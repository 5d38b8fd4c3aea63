"""Which journal a node has: in memory, in a file of its data directory, or in PostgreSQL; one place knows them all."""

import re
import socket
from collections.abc import Callable
from pathlib import Path

from duenotice.engine.ports import Journal
from duenotice.errors import Conflict, DuenoticeError, Misconfigured
from duenotice.journal.memory import MemoryJournal
from duenotice.journal.sqlite import SqliteJournal

_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,49}")
POSTGRES = ("postgresql://", "postgres://")


def is_postgres(url: str) -> bool:
    """Whether this names a database; refuses what names nothing."""
    if url and not url.startswith(POSTGRES):
        raise Misconfigured(
            # What it is instead is not shown: it may have a password in it.
            "journal is not the URL of a database.",
            hint="Write it like postgresql://user@host/database.",
        )
    return bool(url)


def is_shared(url: str, clock: str) -> bool:
    """Whether a node is one of several, or of one: on a database. A clock that somebody moves belongs to one node."""
    return is_postgres(url) and clock != "manual"


def node_name(given: str) -> str:
    """The name of a node: what the setting says, or the name of the host as far as it is a valid one."""
    if given and not _NODE.fullmatch(given):
        raise Misconfigured(
            f"node = {given!r} is not a valid name.", hint="Use up to 50 letters, digits, dots, dashes."
        )
    return given or re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname())[:50].strip("-.") or "node"


def open_journal(url: str, data_dir: Path | None, node: str) -> Journal:
    """The journal of a node, which from now on leads: nobody else writes to it (S21)."""
    if is_postgres(url):
        require_driver()
        from duenotice.journal.postgres_alone import LoneJournal

        return LoneJournal(url, data_dir, node)
    return MemoryJournal() if data_dir is None else SqliteJournal(data_dir)


def open_alone(url: str, data_dir: Path | None, node: str) -> Journal:
    """The same for a node that is not one of several; on a database that is one whose clock somebody moves."""
    try:
        return open_journal(url, data_dir, node)
    except Conflict as error:
        if not is_postgres(url):
            raise
        raise Conflict(f"{error.message} With clock = manual a node is alone.", hint=error.hint) from None


def end_when_lost(journal: Journal, end: Callable[[DuenoticeError], object]) -> None:
    """Call `end`, from any thread, when this node may not write to its journal any more."""
    if hasattr(journal, "on_lost"):
        journal.on_lost = end


def require_driver() -> None:
    """Raise with what to do when PostgreSQL's driver is not installed; nobody else needs it."""
    try:
        import psycopg  # noqa: F401
    except ImportError as error:
        raise Misconfigured(
            f"PostgreSQL needs a package that is not installed: {error}.", hint="pip install 'duenotice[postgres]'"
        ) from None
