"""Connections to PostgreSQL: one to ask on, made again when it was lost, and one that hears notifications (N08).

They know no tables.
"""

import re
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Lock
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from duenotice.engine.members import Appended, Applied, Changed, Hid, Hold, MemberBeat, News, Shown
from duenotice.errors import DuenoticeError, Misconfigured, Unavailable
from duenotice.store.postgres_errors import translated_errors

T = TypeVar("T")

Hear = Callable[[News], None]

PATIENCE = 10.0
"""Real seconds to wait for an answer. A server that stands still does not hold a node for ever."""

# What the URL does not say. Dead peers are noticed in seconds, on both ends; the operating system takes hours.
_DEFAULTS: dict[str, str | int] = {
    "application_name": "duenotice",
    "connect_timeout": 5,
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
# Not even the URL changes these: only the primary knows the truth, and its bytes come as they are stored.
_ALWAYS: dict[str, str | int] = {"target_session_attrs": "read-write", "client_encoding": "UTF8"}
# An append that was answered survives (S5), also where the server would answer earlier.
_SET_UP = """SELECT set_config('lock_timeout', '5s', false), set_config('tcp_keepalives_idle', '5', false),
    set_config('tcp_keepalives_interval', '2', false), set_config('tcp_keepalives_count', '3', false),
    CASE WHEN current_setting('synchronous_commit') = 'off' THEN set_config('synchronous_commit', 'on', false) END"""

_LISTEN = "LISTEN duenotice"
_LOOK_UP_EVERY = 0.5
"""Seconds between looks whether somebody has closed us, and before a lost connection is made again."""


class _PatientConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that does not wait for ever."""

    patience = PATIENCE

    def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        return super().wait(gen, interval, self.patience if timeout is None else timeout)


def conninfo_of(url: str) -> str:
    """What libpq is given; the URL may leave things to PG* variables and service files."""
    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        raise Misconfigured(
            f"The URL of the database is not valid: {_without_values(error)}.",
            hint="Write it like postgresql://user@host/database; a % in a password is written %25, an @ %40.",
        ) from None
    return make_conninfo("", **{**_DEFAULTS, **given, **_ALWAYS})


def _without_values(error: psycopg.ProgrammingError) -> str:
    """What libpq says, without what it quotes: that may be the password, or what is behind it."""
    return re.sub(r'"[^\n]*"', '"…"', str(error).strip())


def name_of(url: str) -> str:
    """How messages call the database: never with its password."""
    given = conninfo_to_dict(conninfo_of(url))
    where = given.get("host") or given.get("service") or "the default host"
    port = f":{given['port']}" if "port" in given else ""
    return f"the database {given.get('dbname') or ''} at {where}{port}".replace("  ", " ")


class Connection:
    """One connection, used by one thread at a time. `connected` counts how often it was made."""

    def __init__(self, url: str) -> None:
        self.name = name_of(url)
        self.connected = 0
        self._conninfo = conninfo_of(url)
        self._lock = Lock()
        self._raw: _PatientConnection | None = None
        self._is_closed = False

    def ask(self, query: str, values: Sequence[Any] = (), *, again: bool = True, patience: float = PATIENCE) -> Any:
        """All rows of an answer. `again`: if the connection turns out to be lost, ask once more on a new one."""
        with self._lock:
            was_connected = self._raw is not None
            try:
                return self._ask(query, values, patience)
            except Unavailable:
                is_lost = was_connected and self._raw is None and not self._is_closed
                if not (again and is_lost):
                    raise
                return self._ask(query, values, patience)

    def run(self, work: Callable[[psycopg.Connection[tuple[Any, ...]]], T]) -> T:
        """Work with the connection, in one transaction."""
        with self._lock, translated_errors(self.name, at_start=True):
            connection = self._open()
            try:
                with connection.transaction():
                    return work(connection)
            except psycopg.Error:
                self._drop_if_broken()
                raise

    def raw(self) -> psycopg.Connection[tuple[Any, ...]]:
        """The connection itself, for a thread that has this one alone."""
        with self._lock, translated_errors(self.name):
            return self._open()

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection that was not lost, as far as one knows."""
        return self._raw is not None

    def close(self) -> None:
        """Close it for good."""
        with self._lock:
            self._is_closed = True
            self._drop()

    def _ask(self, query: str, values: Sequence[Any], patience: float) -> Any:
        with translated_errors(self.name, at_start=self.connected == 0):
            connection = self._open()
            connection.patience = patience
            try:
                return connection.execute(query, values, binary=True).fetchall()
            except psycopg.Error:
                self._drop_if_broken()
                raise

    def _open(self) -> _PatientConnection:
        if self._is_closed:
            raise Unavailable(f"{self.name} is closed.", hint="Open the journal again.")
        if self._raw is not None and self._raw.closed:
            self._drop()
        if self._raw is None:
            self._raw = _PatientConnection.connect(self._conninfo, autocommit=True)
            self.connected += 1
            self._raw.execute(_SET_UP)
        return self._raw

    def _drop_if_broken(self) -> None:
        """After an answer that did not come in time, the connection cannot be used either."""
        connection = self._raw
        if connection is not None and (connection.closed or _is_busy(connection)):
            self._drop()

    def _drop(self) -> None:
        connection, self._raw = self._raw, None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()


def _is_busy(connection: _PatientConnection) -> bool:
    return connection.pgconn.transaction_status == psycopg.pq.TransactionStatus.ACTIVE


def news_of(payload: str) -> News | None:
    """What a notification says; None when it is not one of ours: anybody may notify."""
    match payload.split(" ", 2):
        case ["changed"]:
            return Changed()
        case ["appended", position] if position.isdecimal():
            return Appended(int(position))
        case ["shown", position] if position.isdecimal():
            return Shown(int(position))
        case ["hid", position, life] if position.isdecimal():
            return Hid(life, int(position))
        case ["hold", position] if position.isdecimal():
            return Hold(int(position))
        case ["applied", position, life] if position.isdecimal():
            return Applied(life, int(position))
        case ["beat", beat, life] if beat.isdecimal():
            return MemberBeat(life, int(beat))
    return None


class Notifications:
    """Begins to listen when somebody wants to hear; whatever was lost with a connection is told as `Changed`."""

    def __init__(self, url: str) -> None:
        self._connection = Connection(url)
        self._hear: list[Hear] = []
        self._ended = threading.Event()
        self._listening = threading.Event()
        self._thread = threading.Thread(target=self._run, name="postgres-notifications", daemon=True)
        self._thread.start()
        self._listening.wait(_LOOK_UP_EVERY * 10)

    def add(self, hear: Hear) -> Callable[[], None]:
        """Tell this listener too; call what is returned to stop that."""
        self._hear.append(hear)

        def remove() -> None:
            with suppress(ValueError):
                self._hear.remove(hear)

        return remove

    def close(self) -> None:
        """Stop listening."""
        self._ended.set()
        self._thread.join()
        self._connection.close()

    def _run(self) -> None:
        while not self._ended.is_set():
            with suppress(DuenoticeError, psycopg.Error):
                self._listen()
            self._ended.wait(_LOOK_UP_EVERY)

    def _listen(self) -> None:
        connection = self._connection.raw()
        connection.execute(_LISTEN)
        if self._listening.is_set():
            self._tell(Changed())
        self._listening.set()
        while not self._ended.is_set():
            for notification in connection.notifies(timeout=_LOOK_UP_EVERY):
                if (news := news_of(notification.payload)) is not None:
                    self._tell(news)

    def _tell(self, news: News) -> None:
        for hear in list(self._hear):
            hear(news)
