"""Which journal the settings ask for."""

import re
import socket
from pathlib import Path

from duenotice.engine.ports import Journal
from duenotice.errors import Misconfigured
from duenotice.store.memory import MemoryJournal
from duenotice.store.sqlite import SqliteJournal

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


def node_name(given: str) -> str:
    """The name of a node: what the setting says, or the name of the host as far as it is a valid one."""
    if given and not _NODE.fullmatch(given):
        raise Misconfigured(
            f"node = {given!r} is not a valid name.", hint="Use up to 50 letters, digits, dots, dashes."
        )
    return given or re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname())[:50].strip("-.") or "node"


def open_journal(data_dir: Path | None) -> Journal:
    """The journal of a node that shares it with no other: a file, or memory."""
    return MemoryJournal() if data_dir is None else SqliteJournal(data_dir)


def require_driver() -> None:
    """Raise with what to do when PostgreSQL's driver is not installed; nobody else needs it."""
    try:
        import psycopg  # noqa: F401
    except ImportError as error:
        raise Misconfigured(
            f"PostgreSQL needs a package that is not installed: {error}.", hint="pip install 'duenotice[postgres]'"
        ) from None
