"""What every journal promises to the engine, as tests for people who write one; see `duenotice.engine.ports.Journal`.

Derive a class from `JournalContract` in your own tests, and say in the fixture `open_journal` how yours is opened. It
needs pytest and hypothesis.
"""

import types
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Union, get_args, get_origin

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Struct, structs

from duenotice.clock import Alive, Mark
from duenotice.domain.event import Cause, Event, EventType
from duenotice.domain.fleet import Vm
from duenotice.domain.records import (
    EventApproved,
    EventCancelled,
    EventRaised,
    EventStarted,
    ScopeEnabled,
    StepBegun,
    Transition,
    VmsPut,
)
from duenotice.domain.records import Record as Record
from duenotice.domain.snapshot import Snapshot
from duenotice.engine.ports import Journal
from duenotice.errors import Conflict, InvariantBroken

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
TRANSITIONS: tuple[type[Struct], ...] = get_args(Transition)

_PLAIN = {
    str: st.text(),
    bytes: st.binary(),
    bool: st.booleans(),
    int: st.integers(-(2**63), 2**63 - 1),
    float: st.floats(allow_nan=False, allow_infinity=False),
    datetime: st.datetimes(timezones=st.just(UTC)),
    type(None): st.none(),
}


def record(position: int, scope: str = "vm/db-0") -> Record:
    """A small record."""
    return Record(position, NOON, "operator", ScopeEnabled(f"{scope}/{position}"))


def records(first: int, last: int) -> list[Record]:
    """Small records from one position to another."""
    return [record(position) for position in range(first, last + 1)]


def snapshot(position: int, digest: str = "", vms: int = 0) -> Snapshot:
    """A snapshot, with as many VMs as wanted."""
    return Snapshot(position, NOON, digest, vms=tuple(Vm(f"vm-{n}", f"10.0.0.{n}") for n in range(vms)))


def big_record(position: int) -> Record:
    """A record that fills several pages of a database."""
    return Record(position, NOON, "operator", VmsPut(tuple(Vm(f"vm-{n}", f"10.0.0.{n}") for n in range(300))))


def any_of(kind: Any) -> st.SearchStrategy[Any]:
    """Any value that a type of the domain allows."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    if get_origin(kind) in (Union, types.UnionType):
        return st.one_of(*map(any_of, get_args(kind)))
    if get_origin(kind) is tuple:
        return _tuples(get_args(kind))
    if kind is Mark:
        return st.builds(Mark, *map(any_of, Mark.__annotations__.values()))
    if issubclass(kind, Struct):
        return st.builds(kind, **{field.name: any_of(field.type) for field in structs.fields(kind)})
    return st.sampled_from(kind)


def _tuples(kinds: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    if kinds[1:] == (...,):
        return st.lists(any_of(kinds[0]), max_size=3).map(tuple)
    return st.tuples(*map(any_of, kinds))


EVENT = Event("AA-1", EventType.REBOOT, Cause.MAINTENANCE, "vm/x", ("x",), NOON, 900_000_000)
FEW = settings(
    max_examples=25,
    deadline=None,
    # One journal is enough for all examples of a test, and many classes inherit these tests: both on purpose.
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors, HealthCheck.too_slow],
)


class JournalWorld:
    """A journal that can be closed and opened again, as a restart does."""

    def __init__(self, open_journal: Callable[[], Journal]) -> None:
        self._open = open_journal
        self.journal = open_journal()

    def restart(self) -> Journal:
        """The journal, closed and opened again."""
        self.journal.close()
        self.journal = self._open()
        return self.journal


def about(position: int, transition: Transition) -> Record:
    return Record(position, NOON, "operator", transition)


HISTORY = [
    about(1, EventRaised(EVENT)),
    record(2),
    about(3, EventRaised(structs.replace(EVENT, id="AB-2"))),
    about(4, EventApproved("AA-1", "vm/x", "vm/x")),
    about(5, StepBegun("plan", 0, "AA-1")),
    about(6, EventCancelled("AB-2", "vm/x")),
    about(7, EventStarted(EVENT)),
]


def found(journal: Journal, prefix: str, limit: int = 100) -> list[int]:
    while journal.index():
        pass
    return [record.position for record in journal.find(prefix, limit)]


class JournalContract:
    """The promises of a journal, one test each."""

    @pytest.fixture
    def open_journal(self) -> Callable[[], Journal]:
        """How to open your journal; the first call makes a new one, each later call opens the same one again."""
        raise NotImplementedError("Say in a fixture `open_journal` how your journal is opened.")

    @pytest.fixture
    def world(self, open_journal: Callable[[], Journal]) -> Iterator[JournalWorld]:
        """A new journal that can be opened again; closed when the test is over."""
        world = JournalWorld(open_journal)
        yield world
        world.journal.close()

    @pytest.fixture
    def journal(self, world: JournalWorld) -> Journal:
        """A new journal."""
        return world.journal

    def test_a_new_journal_is_empty(self, journal: Journal) -> None:
        """A new journal has no records and no snapshot."""
        assert (journal.last_position(), list(journal.read(0)), journal.snapshot()) == (0, [], None)

    def test_records_come_back_in_order(self, journal: Journal) -> None:
        """What was appended in several calls is read as one log, in order."""
        journal.append(records(1, 3))
        journal.append(records(4, 4))
        journal.append(records(5, 9))
        assert list(journal.read(0)) == records(1, 9)
        assert journal.last_position() == 9

    def test_how_far_readers_have_seen_it_is_remembered(self, world: JournalWorld) -> None:
        """What is appended is not seen yet; what was noted as seen is so after a restart too."""
        assert world.journal.seen == 0
        world.journal.append(records(1, 3))
        world.journal.note_seen(3)
        world.journal.append(records(4, 5))
        assert world.journal.seen == 3
        assert world.restart().seen == 3

    def test_until_when_somebody_could_be_answered_is_remembered(self, world: JournalWorld) -> None:
        """The last note counts, after a restart too; it is kept apart from the other notes."""
        assert (world.journal.alive, world.journal.seen) == (None, 0)
        world.journal.append(records(1, 3))
        world.journal.note_seen(2)
        world.journal.note_alive(Alive("boot-1", 12_345_678))
        world.journal.note_alive(Alive("boot-2", 7))
        assert world.journal.alive == Alive("boot-2", 7)
        world.restart()
        assert (world.journal.alive, world.journal.seen) == (Alive("boot-2", 7), 2)

    def test_what_is_stored_later_leaves_that_note_as_it_is(self, world: JournalWorld) -> None:
        world.journal.note_alive(Alive("3e0c8a5f-6d0c-4a8e-9a55-0f3f7c1f2a11", 10**15))
        world.journal.append(records(1, 3))
        world.journal.note_seen(3)
        assert world.restart().alive == Alive("3e0c8a5f-6d0c-4a8e-9a55-0f3f7c1f2a11", 10**15)

    def test_more_records_than_are_fetched_at_once(self, journal: Journal) -> None:
        """A long log is read without a gap, however it is fetched."""
        journal.append(records(1, 1000))
        assert [r.position for r in journal.read(0)] == list(range(1, 1001))

    def test_appending_nothing_changes_nothing(self, journal: Journal) -> None:
        """An empty append leaves the journal as it is."""
        journal.append([])
        assert journal.last_position() == 0

    @pytest.mark.parametrize(
        ("after", "limit", "first", "last"),
        [(0, None, 1, 10), (4, None, 5, 10), (0, 3, 1, 3), (4, 3, 5, 7), (8, 9, 9, 10), (10, None, 1, 0), (3, 0, 1, 0)],
    )
    def test_reading_a_part(self, journal: Journal, after: int, limit: int | None, first: int, last: int) -> None:
        """Reading begins behind `after` and ends after `limit` records or at the end."""
        journal.append(records(1, 10))
        assert list(journal.read(after, limit)) == records(first, last)

    def test_the_records_about_an_event_are_found(self, world: JournalWorld) -> None:
        """By its id or the beginning of it, in order, now and after a restart; other records are not."""
        world.journal.append(HISTORY)
        for is_restarted in (False, True):
            journal = world.restart() if is_restarted else world.journal
            assert found(journal, "AA-1") == [1, 4, 5, 7]
            assert found(journal, "A") == [1, 3, 4, 5, 6, 7]
            assert (found(journal, "A", limit=2), found(journal, "AA-12"), found(journal, "B")) == ([1, 3], [], [])
        assert world.journal.find("AA-1", 1) == HISTORY[:1]

    def test_what_is_appended_later_is_found_too(self, journal: Journal) -> None:
        """The index goes on where it was."""
        journal.append(HISTORY[:3])
        assert found(journal, "AA-1") == [1]
        journal.append(HISTORY[3:])
        assert found(journal, "AA-1") == [1, 4, 5, 7]

    def test_the_oldest_record_of_a_short_journal_is_its_first(self, journal: Journal) -> None:
        """Nothing is forgotten as long as there is little."""
        journal.append(HISTORY)
        journal.save_snapshot(snapshot(7))
        assert journal.first_position() == 1

    def test_a_reader_may_read_while_others_append(self, journal: Journal) -> None:
        """A reading that has begun ends where the journal ended then, and an append goes through meanwhile."""
        journal.append(records(1, 3))
        reading = journal.read(0)
        first = next(reading)
        journal.append(records(4, 5))
        assert [first, *reading] == records(1, 3)
        assert list(journal.read(3)) == records(4, 5)

    @pytest.mark.parametrize("taken", [1, 2, 3])
    def test_a_position_is_given_once(self, journal: Journal, taken: int) -> None:
        """The second writer at a position gets a conflict, and nothing of it is kept (S21)."""
        journal.append(records(1, 3))
        with pytest.raises(Conflict, match="already taken"):
            journal.append([record(taken, "another engine's"), record(taken + 1)])
        assert list(journal.read(0)) == records(1, 3)

    @pytest.mark.parametrize("positions", [[5], [6, 7], [0], [-1, 0], [4, 6], [4, 4], [4, 5, 3], [4, 5, 7, 6]])
    def test_positions_have_no_gaps(self, journal: Journal, positions: list[int]) -> None:
        """Records that do not follow one another are our own mistake, and none of them is kept (S6)."""
        journal.append(records(1, 3))
        with pytest.raises(InvariantBroken):
            journal.append([record(position) for position in positions])
        assert list(journal.read(0)) == records(1, 3)

    def test_the_journal_goes_on_after_a_refusal(self, journal: Journal) -> None:
        """A refused append does not stand in the way of the next one."""
        journal.append(records(1, 1))
        with pytest.raises(Conflict):
            journal.append(records(1, 2))
        journal.append(records(2, 3))
        assert list(journal.read(0)) == records(1, 3)

    def test_an_append_that_cannot_be_encoded_leaves_nothing(self, journal: Journal) -> None:
        """All or nothing: one record that no journal can store takes the others with it (S6)."""
        odd = structs.replace(record(2), actor="\ud800")
        with pytest.raises(UnicodeEncodeError):
            journal.append([record(1), odd, record(3)])
        assert journal.last_position() == 0

    def test_the_newest_snapshot_wins(self, journal: Journal) -> None:
        """Of all snapshots the one at the highest position is given, also when it was not the last to come."""
        journal.append(records(1, 9))
        for position in (2, 9, 5):
            journal.save_snapshot(snapshot(position))
        assert journal.snapshot() == snapshot(9)

    def test_a_snapshot_replaces_one_at_the_same_position(self, journal: Journal) -> None:
        """A snapshot saved again is the one that counts."""
        journal.append(records(1, 2))
        journal.save_snapshot(snapshot(2, "before"))
        journal.save_snapshot(snapshot(2, "after"))
        assert journal.snapshot() == snapshot(2, "after")

    def test_records_stay_after_a_snapshot(self, journal: Journal) -> None:
        """A snapshot is a short cut, never a replacement: no record goes away."""
        journal.append(records(1, 5))
        for position in (3, 4, 5):
            journal.save_snapshot(snapshot(position))
        assert list(journal.read(0)) == records(1, 5)

    def test_a_snapshot_ahead_of_the_records_is_refused(self, journal: Journal) -> None:
        """A snapshot cannot know more than the records say."""
        journal.append(records(1, 5))
        with pytest.raises(InvariantBroken):
            journal.save_snapshot(snapshot(6))
        assert journal.snapshot() is None

    def test_everything_is_there_after_a_restart(self, world: JournalWorld) -> None:
        """What was stored is read by the next process, which goes on from there (S5)."""
        world.journal.append(records(1, 5))
        world.journal.save_snapshot(snapshot(4, "digest", vms=50))
        journal = world.restart()
        assert journal.snapshot() == snapshot(4, "digest", vms=50)
        assert list(journal.read(4)) == records(5, 5)
        journal.append(records(6, 6))
        assert list(world.restart().read(0)) == records(1, 6)

    def test_upkeep_changes_nothing_that_can_be_read(self, journal: Journal) -> None:
        """Upkeep may come at any time and has no effect on what is stored."""
        journal.maintain()
        journal.append(records(1, 5))
        journal.save_snapshot(snapshot(5))
        journal.maintain()
        assert (list(journal.read(0)), journal.snapshot()) == (records(1, 5), snapshot(5))

    def test_closing_twice_is_fine(self, journal: Journal) -> None:
        """It does nothing the second time."""
        journal.close()
        journal.close()

    @pytest.mark.parametrize("kind", TRANSITIONS, ids=lambda kind: str(kind.__struct_config__.tag))
    @given(data=st.data())
    @FEW
    def test_every_transition_comes_back_as_it_was(
        self, journal: Journal, kind: type[Struct], data: st.DataObject
    ) -> None:
        """Any record of any kind is read as the value that was appended."""
        actor, at, transition = (data.draw(any_of(of)) for of in (str, type(NOON), kind))
        stored = Record(journal.last_position() + 1, at, actor, transition)
        journal.append([stored])
        assert list(journal.read(stored.position - 1)) == [stored]

    @given(data=st.data())
    @FEW
    def test_every_snapshot_comes_back_as_it_was(self, journal: Journal, data: st.DataObject) -> None:
        """Any snapshot is read as the value that was saved."""
        journal.append([record(journal.last_position() + 1)])
        saved = structs.replace(data.draw(any_of(Snapshot)), position=journal.last_position())
        journal.save_snapshot(saved)
        assert journal.snapshot() == saved
