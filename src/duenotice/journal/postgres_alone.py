"""A node alone on its database: it leads, beats so that others can see it, and ends when another node leads.

A second node is refused as long as the first one beats. This is for one node; of several, `engine` says who leads.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from duenotice import __version__
from duenotice.clock import Alive, monotonic, wall
from duenotice.domain.transitions import Record
from duenotice.engine.lives import new_life
from duenotice.engine.members import Deposed, Member, NotMember, Replaced, Sight
from duenotice.errors import Conflict, Damaged, DuenoticeError
from duenotice.journal.postgres import PostgresJournal
from duenotice.journal.postgres_members import PostgresMembers
from duenotice.journal.postgres_notes import Notes
from duenotice.journal.postgres_schema import prepared

LEASE = 6.0
"""Real seconds without a beat after which a node is taken for gone."""
BEATS_IN_A_LEASE = 6

Lost = Callable[[DuenoticeError], None]


class LoneJournal(PostgresJournal):
    """The journal of the only node; once it does not lead any more, it neither writes nor reads."""

    def __init__(self, url: str, data_dir: Path | None, node: str, lease: float = LEASE) -> None:
        with ExitStack() as undo:
            notes = Notes(data_dir)
            undo.callback(notes.close)
            cluster = prepared(url, notes.refuse_unless_of).cluster
            members = PostgresMembers(url)
            undo.callback(members.close)
            known, life = notes.known, new_life(wall())
            others = _silent(members, known.life, lease)
            members.register(life, node, "", __version__)
            notes.note(cluster=cluster, life=life)
            undo.callback(lambda: members.leave(life))
            super().__init__(url, members, notes, known, life)
            self.epoch = _led(members, life, self.last_position(), others)
            undo.pop_all()
        self.on_lost: Lost = lambda _error: None
        self._lost: DuenoticeError | None = None
        self._beating = _Beats(PostgresMembers(url), self, lease / BEATS_IN_A_LEASE)

    def append(self, records: Sequence[Record]) -> None:
        self._refuse_if_lost()
        try:
            super().append(records)
        except Deposed as error:
            self.lose(error)
            self._refuse_if_lost()

    def read(self, after: int, limit: int | None = None) -> Iterator[Record]:
        self._refuse_if_lost()
        return super().read(after, limit)

    def close(self) -> None:
        """Say that we are gone, so that the next node need not wait, and close everything."""
        self._beating.stop()
        with suppress(DuenoticeError):
            self._members.leave(self.life)
        super().close()

    def lose(self, error: DuenoticeError) -> None:
        """Stop leading."""
        what = f"This node does not lead any more on {self._line.name}: {error.message}"
        hint = "Was a second node started, or a backup restored? Start one node again: it goes on from what is stored."
        self._lost = self._lost or Damaged(what, hint=hint)
        self.on_lost(self._lost)

    def _refuse_if_lost(self) -> None:
        if self._lost is not None:
            raise self._lost


class _Beats:
    """Says now and then that we are there, and what we know, in a thread with a connection of its own."""

    def __init__(self, members: PostgresMembers, journal: LoneJournal, every: float) -> None:
        self._members, self._journal, self._every = members, journal, every
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="beats", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop beating; the last notes are stored."""
        if not self._ended.is_set():
            self._ended.set()
            self._thread.join()
            with suppress(DuenoticeError):
                self._note()
            self._members.close()

    def _run(self) -> None:
        while not self._ended.wait(self._every):
            try:
                self._beat()
            except (Deposed, NotMember, Replaced) as error:
                self._journal.lose(error)
                return
            except DuenoticeError:
                pass  # the next beat may reach it; an append says why it cannot be reached

    def _beat(self) -> None:
        alive = self._journal.alive or Alive("", 0)
        sight = self._members.beat(self._journal.life, alive.steady, {})
        if sight.head.leader != self._journal.life:
            raise Deposed("Another node leads by now.")
        self._note()

    def _note(self) -> None:
        journal, alive = self._journal, self._journal.alive or Alive("", 0)
        if not journal.restored:
            self._members.note(journal.life, journal.epoch, journal.seen, alive)


def _silent(members: PostgresMembers, gone: str, lease: float) -> tuple[Member, ...]:
    """The members that are there and do not beat; raises when one does. `gone` surely ended: we hold its directory."""
    if gone:
        members.leave(gone)
    sight = first = members.look()
    until = monotonic() + lease
    while sight.members and monotonic() < until:
        _refuse_if_beaten(first, sight)
        threading.Event().wait(lease / BEATS_IN_A_LEASE / 2)
        sight = members.look()
    _refuse_if_beaten(first, sight)
    return sight.members


def _refuse_if_beaten(first: Sight, sight: Sight) -> None:
    for member in sight.members:
        before = first.member(member.life)
        if before is None or before.beat != member.beat:
            raise Conflict(
                f"The database is in use by the node {member.node!r} (duenotice {member.version}).",
                hint="Stop that node, or give this one a database of its own.",
            )


def _led(members: PostgresMembers, life: str, position: int, others: Sequence[Member]) -> int:
    """Lead in place of those who are silent; under which epoch."""
    members.join(life, position)
    sight = members.look()
    beat = next((other.beat for other in others if other.life == sight.head.leader), 0)
    head = members.take_over(life, sight.head.epoch, beat)
    if head is None:
        raise Conflict("Another node has just taken over.", hint="Run one node on this database.")
    for other in others:
        members.put_out(life, head.epoch, other.life, other.beat)
    return head.epoch
