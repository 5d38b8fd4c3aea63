"""What several nodes share in PostgreSQL: who is there, who leads, what may be shown, and the keys of access tokens.

Each method of the members calls one function of `postgres_tables.sql`. The keys are in a table of their own: no
journal, snapshot or backup has them (M02).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec
import psycopg

from duenotice.domain.records import IncarnationsLifted, Record
from duenotice.engine.members import Deposed, Head, Member, News, NotMember, Replaced, Sight
from duenotice.errors import DuenoticeError, Rewound, Unavailable
from duenotice.store.codec import RECORDS, Row, refuse_unless_next
from duenotice.store.postgres_connection import Connection, Notifications
from duenotice.store.postgres_errors import read_with, row_of, rows_of
from duenotice.wire.operator.from_domain import event_id_of

T = TypeVar("T")

STALE = "stale"
_REFUSALS: dict[str, tuple[type[DuenoticeError], str, str]] = {
    "deposed": (Deposed, "Another node leads by now.", "Ask again; it is passed on to the node that leads."),
    "not-member": (NotMember, "This node was silent for too long and was put out.", "It joins again by itself."),
    "replaced": (
        Replaced,
        "Another process has registered as this node, or the database was changed.",
        "Give each node a name of its own; end this process.",
    ),
    "rewound": (Rewound, "The database no longer has what was stored.", "The node begins again from what is there."),
}
_ORIGIN = "SELECT duenotice.origin()"
_IS_HERE = "SELECT position = 0 OR coalesce(origin = duenotice.origin(), false) FROM duenotice.head"
_ABSENT = """SELECT life, node, url, version, beat, hidden, replaced, applied FROM duenotice.nodes WHERE NOT joined
    ORDER BY number"""
_CHECKSUMS = "SELECT epoch, crc FROM duenotice.records WHERE position BETWEEN %s AND %s ORDER BY position"
_ADD_KEYS = "INSERT INTO duenotice.signing_keys (keys) VALUES ('') ON CONFLICT DO NOTHING"
_READ_KEYS = "SELECT keys FROM duenotice.signing_keys FOR UPDATE"
_WRITE_KEYS = "UPDATE duenotice.signing_keys SET keys = %s"
_APPEND_ENOUGH = 60.0
"""Seconds for an append: ten thousand records on a slow disk."""

_sight = msgspec.json.Decoder(Sight).decode
_maybe_sight = msgspec.json.Decoder(Sight | None).decode
_polls = msgspec.json.Decoder(dict[str, int]).decode
_lives = msgspec.json.Decoder(tuple[str, ...]).decode
_yes_or_no = msgspec.json.Decoder(bool).decode
_new_session = msgspec.json.Decoder(tuple[int, int]).decode
_stored = msgspec.json.Decoder(bool | int).decode
_word = msgspec.json.Decoder(str).decode


class AppendSession(NamedTuple):
    """Who may append on this connection."""

    life: str
    epoch: int
    connected: int
    number: int


class PostgresMembers:
    """The shared store of `engine.members`; any thread may use it. It has a connection for itself."""

    blocking = True

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection = Connection(url)
        self.is_copy = True
        """Whether the journal may be a copy put in place; the one who opens it finds out."""
        self.on_stored: Callable[[Row], None] = lambda _last: None
        self._session: AppendSession | None = None
        self._stored_on = 0  # the number of the connection that has stored something
        self._here_on = 0  # the number of the connection to the server where all records were stored
        self._notifications: Notifications | None = None

    def register(self, life: str, node: str, url: str, version: str) -> Sight:
        """A process of a node begins, and replaces the others of this node."""
        return self._call(_sight, "register", life, node, url, version)

    def join(self, life: str, position: int) -> Head:
        """Become a member that answers with nothing older than a position."""
        return self._call(_sight, "join", life, position).head

    def beat(self, life: str, steady: int, polls: Mapping[str, int]) -> Sight:
        """Say that a member is there."""
        sight = self._call(_sight, "beat", life, steady, list(polls), list(polls.values()))
        return sight if self._is_here() else sight._replace(head=sight.head._replace(is_copy=True))

    def _is_here(self) -> bool:
        """Whether this is the server where all records were stored. It can be another one after a new connection."""
        connected = self._connection.connected
        if connected != self._here_on:
            (is_here,) = row_of(self._connection.name, tuple[bool], self._connection.ask(_IS_HERE), "head")
            self._here_on = connected if is_here and connected == self._connection.connected else 0
        return self._here_on == connected

    def look(self) -> Sight:
        """What is there now."""
        return self._call(_sight, "sight")

    def absent(self) -> tuple[Member, ...]:
        """Who has registered and is not a member."""
        return tuple(rows_of(self._connection.name, Member, self._connection.ask(_ABSENT)))

    def polls(self, after: int) -> Mapping[str, int]:
        """The last polls that are later than that; older ones are forgotten."""
        return self._call(_polls, "polls", after)

    def take_over(self, life: str, epoch: int, beat: int) -> Head | None:
        """Lead from now on, if all is as the caller has seen it."""
        sight = self._call(_maybe_sight, "take_over", life, epoch, beat, again=False)
        return None if sight is None else sight.head

    def append(self, life: str, epoch: int, records: Sequence[Record], *, steady: int = 0) -> None:
        """Store all records or none, if this life leads."""
        if not records:
            return
        refuse_unless_next(records[0].position - 1, records)
        rows = [RECORDS.pack(record) for record in records]
        session = self._append_session(life, epoch)
        try:
            newest = self._append(session, records, rows, steady)
        except Unavailable:
            if self._connection.is_connected:
                raise  # the server has answered: it is not stored
            self._session = None
            try:
                session = self._append_session(life, epoch)  # from now on, what was sent before comes too late (N02)
            except Deposed:  # and now neither; but it may have got there before
                if not self._is_stored(epoch, rows):
                    raise
                self.on_stored(rows[-1])
                return
            if self._is_stored(epoch, rows):
                self._note_stored(session, records, rows)
                return
            newest = self._append(session, records, rows, steady)
        if newest is not None:
            refuse_unless_next(newest, records)

    def applied(self, life: str, position: int) -> None:
        """A member has read all up to a position, and still shows what was shown."""
        self._call(_yes_or_no, "apply", life, position)

    def hold(self, life: str, epoch: int, position: int) -> tuple[str, ...]:
        """Ask all to hide what is older, if every other member has applied it."""
        return self._call(_lives, "hold", life, epoch, position)

    def hidden(self, life: str, position: int) -> None:
        """A member answers with nothing older from now on."""
        self._call(_yes_or_no, "hide", life, position)

    def show(self, life: str, epoch: int, position: int) -> tuple[str, ...]:
        """Let all up to a position be shown, if every other member has hidden it."""
        return self._call(_lives, "show", life, epoch, position)

    def put_out(self, life: str, epoch: int, member: str, beat: int) -> bool:
        """Stop waiting for a member, if it has not beaten since."""
        return self._call(_yes_or_no, "put_out", life, epoch, member, beat)

    def resign(self, life: str) -> None:
        """Stop leading."""
        self._call(_yes_or_no, "resign", life)

    def leave(self, life: str) -> None:
        """Be forgotten."""
        self._call(_yes_or_no, "leave", life)

    def listen(self, hear: Callable[[News], None]) -> Callable[[], None]:
        """Tell all news from now on, in a thread with a connection of its own, until what is returned is called."""
        if self._notifications is None:
            self._notifications = Notifications(self._url)
        return self._notifications.add(hear)

    def close(self) -> None:
        """Stop listening, close everything."""
        if self._notifications is not None:
            self._notifications.close()
        self._connection.close()

    def _call(self, read: Callable[[str], T], function: str, *values: Any, again: bool = True) -> T:
        places = ", ".join(["%s"] * len(values))
        ((answer,),) = self._connection.ask(f"SELECT duenotice.{function}({places})::text", values, again=again)
        return self._unless_refused(read, answer)

    def _unless_refused(self, read: Callable[[str], T], answer: str | None) -> T:
        """What was answered, unless it is a refusal; null if there is no head."""
        word = read_with(self._connection.name, _word, answer) if answer is not None and answer.startswith('"') else ""
        if refusal := _REFUSALS.get(word):
            kind, what, hint = refusal
            raise kind(what, hint=hint)
        return read_with(self._connection.name, read, answer)

    def _append_session(self, life: str, epoch: int) -> AppendSession:
        """The right to append on this connection: what an older one has sent comes too late (N02)."""
        session = self._session
        if session is None or session[:3] != (life, epoch, self._connection.connected):
            number, _ = self._call(_new_session, "take_turn", life, epoch)
            session = self._session = AppendSession(life, epoch, self._connection.connected, number)
        return session

    def _append(
        self, session: AppendSession, records: Sequence[Record], rows: Sequence[Row], steady: int
    ) -> int | None:
        """None when all is stored; else nothing is, since the journal ends somewhere else."""
        origin = self._new_origin(session, records)
        columns = ([row.format for row in rows], [row.crc for row in rows], [row.payload.decode() for row in rows])
        events = [None if (about := event_id_of(record)) is None else about.encode() for record in records]
        values = (session.life, session.epoch, session.number, rows[0].position - 1, *columns, events, steady, origin)
        query = "SELECT duenotice.append(%s, %s, %s, %s, %s, %s, %s, %s::bytea[], %s, %s)::text"
        ((answer,),) = self._connection.ask(query, values, again=False, patience=_APPEND_ENOUGH)
        if answer == f'"{STALE}"':
            self._session = None
            raise Unavailable("Another connection of this node has appended meanwhile.", hint="Try again.")
        newest: bool | int = self._unless_refused(_stored, answer)
        if newest is not True:
            return newest
        self._note_stored(session, records, rows)
        return None

    def _note_stored(self, session: AppendSession, records: Sequence[Record], rows: Sequence[Row]) -> None:
        self._stored_on = session.connected
        self.is_copy = self.is_copy and not lifts(records)
        self.on_stored(rows[-1])

    def _new_origin(self, session: AppendSession, records: Sequence[Record]) -> str | None:
        """Where all records are from now on, if this append is stored: it proves that none is missing here.

        Of a copy that proves nothing: VMs may have seen more than it knows, until incarnations are lifted (S3).
        """
        is_elsewhere = session.connected != self._stored_on and not self.is_copy
        return str(self._connection.ask(_ORIGIN)[0][0]) if is_elsewhere or lifts(records) else None

    def _is_stored(self, epoch: int, rows: Sequence[Row]) -> bool:
        """Whether an append whose answer was lost is in the journal after all."""
        found = self._connection.ask(_CHECKSUMS, (rows[0].position, rows[-1].position))
        return bool(found == [(epoch, row.crc) for row in rows])


def lifts(records: Sequence[Record]) -> bool:
    """Whether what follows these records is ahead of all that VMs may have seen (S3)."""
    return any(isinstance(record.transition, IncarnationsLifted) for record in records)


class PostgresSecrets:
    """One text for all nodes; its connection is made when it is needed."""

    def __init__(self, url: str) -> None:
        self._connection = Connection(url)

    def change(self, work: Callable[[str], str]) -> str:
        """Store what this makes of what is there, which is "" at first; one node at a time."""

        def changed(db: "psycopg.Connection[tuple[Any, ...]]") -> str:
            db.execute(_ADD_KEYS)
            ((before,),) = db.execute(_READ_KEYS).fetchall()
            after = work(before)
            if after != before:
                db.execute(_WRITE_KEYS, (after,))
            return after

        return self._connection.run(changed)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
