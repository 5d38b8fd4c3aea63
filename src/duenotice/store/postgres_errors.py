"""What PostgreSQL says, in our words: its errors, and answers as values.

An error is a server that fails for now, a mistake in the set-up, or data not to be trusted. An answer that cannot be
read is a database that cannot be used now (N22): a head that is empty, a dump that was restored in part, a column that
somebody has changed. Somebody works at it, so the node waits for the end of that, as it waits for a database that is
away.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import msgspec
import psycopg
from psycopg import errors

from duenotice.errors import Damaged, DuenoticeError, Misconfigured, Unavailable

T = TypeVar("T")


class _Meaning(NamedTuple):
    kind: type[DuenoticeError]
    what: str
    hint: str


_LOST_NOTHING = "Nothing was lost; it goes on by itself."
_THEN_START = "Then start again."
"""Instead, for somebody who has just started it."""
_BY_CODE: tuple[tuple[type[psycopg.Error], _Meaning], ...] = (
    (
        errors.DiskFull,
        _Meaning(Unavailable, "its disk is full", f"Free some space on the disk of the database. {_LOST_NOTHING}"),
    ),
    (
        errors.ReadOnlySqlTransaction,
        _Meaning(
            Unavailable,
            "it is a standby or is set to read only",
            f"Name all hosts of the database, so that the primary is found. {_LOST_NOTHING}",
        ),
    ),
    (
        errors.InsufficientPrivilege,
        _Meaning(
            Misconfigured,
            "this role may not use it",
            "Grant the role what docs/clustering.md says, or run `duenotice db migrate` as the owner.",
        ),
    ),
    (
        errors.LockNotAvailable,
        _Meaning(Unavailable, "somebody holds a lock on its tables", f"End that transaction. {_LOST_NOTHING}"),
    ),
    *(
        (kind, _Meaning(Damaged, "its tables are not the ones that duenotice made", ""))
        for kind in (
            errors.UndefinedTable,
            errors.UndefinedFunction,
            errors.UndefinedColumn,
            errors.InvalidSchemaName,
            errors.DatatypeMismatch,
            errors.IntegrityError,
        )
    ),
    *((kind, _Meaning(Damaged, "its data is corrupted", "")) for kind in (errors.DataCorrupted, errors.IndexCorrupted)),
)

# A connection that is refused has no code, only words; these are the same since many versions.
_BY_WORDS: tuple[tuple[str, _Meaning], ...] = (
    ("pg_hba", _Meaning(Misconfigured, "the server refuses connections from here", "Add a line to its pg_hba.conf.")),
    (
        "read-only",
        _Meaning(
            Unavailable, "there is only a standby", "Name all hosts of the database, so that the primary is found."
        ),
    ),
    (
        "password",
        _Meaning(
            Misconfigured,
            "the password is wrong or missing",
            "Fix it in the URL, in ~/.pgpass or in PGPASSWORD. If it is right, it may have expired (VALID UNTIL).",
        ),
    ),
    (
        "resolve host",
        _Meaning(
            Unavailable, "nobody knows the name of its host", f"Fix the URL, or the name service. {_LOST_NOTHING}"
        ),
    ),
    ("role ", _Meaning(Misconfigured, "the role cannot log in", "Create the role, or name another user in the URL.")),
    (
        "database ",
        _Meaning(Misconfigured, "that database cannot be used", "Create the database, or name another in the URL."),
    ),
    ("service", _Meaning(Misconfigured, "the service file is wrong", "Fix pg_service.conf, or the name in the URL.")),
    (
        "certificate",
        _Meaning(Misconfigured, "its certificate is not trusted", "Fix sslrootcert or sslmode in the URL."),
    ),
    (
        "SSL",
        _Meaning(Misconfigured, "TLS does not work with it", "Fix sslmode, sslcert and sslkey in the URL."),
    ),
)
_PLACE = re.compile(
    r"^(connection failed: )?(connection to server (at|on) [^;]*? failed: )?(FATAL:  )?|; Is the server running.*$"
)
_UNREADABLE_HINT = "Is it being restored, or was it changed by hand? Restore all of it; this node goes on by itself."
_PASSING = ("starting up", "shutting down", "recovery mode", "too many", "remaining connection", "timeout", "refused")


@contextmanager
def translated_errors(name: str, *, at_start: bool = False) -> Iterator[None]:
    """Turns every error of psycopg into one of ours that names the database and what to do.

    A mistake in the set-up ends a start. In a service that runs, it is `Unavailable`: a password may have expired, and
    somebody renews it.
    """
    try:
        yield
    except Damaged as error:
        raise _damaged(name, error.message, error.hint, type(error)) from error
    except psycopg.Error as error:
        raise _ours(name, error, at_start) from error


def _ours(name: str, error: psycopg.Error, at_start: bool) -> DuenoticeError:
    words = _words(error)
    meaning = _meaning(error, words)
    if meaning.kind is Damaged:
        return _damaged(name, f"{meaning.what}: {words}")
    kind = Unavailable if meaning.kind is Misconfigured and not at_start else meaning.kind
    now, hint = ("", meaning.hint.replace(_LOST_NOTHING, _THEN_START)) if at_start else (" right now", meaning.hint)
    return kind(f"{name} cannot be used{now}: {meaning.what} ({_without_place(words)}).", hint=hint)


def _meaning(error: psycopg.Error, words: str) -> _Meaning:
    passing = _Meaning(Unavailable, "it does not answer", f"Look at the database and the network. {_LOST_NOTHING}")
    for kind, meaning in _BY_CODE:
        if isinstance(error, kind):
            return meaning
    if error.sqlstate is not None or any(word in words for word in _PASSING):
        return passing
    return next((meaning for word, meaning in _BY_WORDS if word in words), passing)


def _damaged(name: str, what: str, hint: str = "", kind: type[Damaged] = Damaged) -> Damaged:
    what = what.removeprefix(f"{name} is not to be trusted: ")  # it was told inside already
    rescue = "Name another database, or keep a copy of this one (pg_dump) and restore a backup."
    return kind(f"{name} is not to be trusted: {what}", hint=hint or rescue)


def _without_place(words: str) -> str:
    """Without where it is, which was said already, unless there are several places."""
    return words if words.count("connection to server") > 1 else _PLACE.sub("", words)


def _words(error: psycopg.Error) -> str:
    """What the server says, in one line and without our own SQL; of several hosts each once."""
    if error.diag.message_primary:
        return error.diag.message_primary
    lines = [line.strip() for line in str(error).splitlines()]
    return "; ".join(dict.fromkeys(line for line in lines if line)) or type(error).__name__


def rows_of(name: str, kind: type[T], rows: Sequence[Any]) -> list[T]:
    """Each row as a value of this kind, a named tuple or a tuple."""
    try:
        return msgspec.convert(rows, list[kind])  # type: ignore[valid-type]
    except msgspec.ValidationError as error:
        raise _unreadable(name, f"{error}") from None


def row_of(name: str, kind: type[T], rows: Sequence[Any], table: str) -> T:
    """The one row of a table that always has one."""
    if len(rows) != 1:
        raise _unreadable(name, f"the table {table} has {len(rows)} rows instead of one")
    return rows_of(name, kind, rows)[0]


def read_with(name: str, read: Callable[[str], T], answer: Any) -> T:
    """What one of our functions has answered, as JSON in a text; all of them look at the head."""
    try:
        return read(answer)
    except (msgspec.MsgspecError, TypeError) as error:
        is_empty = answer is None or answer.startswith("[null")
        raise _unreadable(name, "the table head has no row" if is_empty else f"{error}") from None


def _unreadable(name: str, what: str) -> Unavailable:
    return Unavailable(f"{name} answers what cannot be read: {what.rstrip('.')}.", hint=_UNREADABLE_HINT)
