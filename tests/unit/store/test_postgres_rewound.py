"""A database that has lost its last commits, as one of several nodes sees it: noted, noticed, and lifted once (N14)."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from duenotice.domain.records import IncarnationsLifted, Record
from duenotice.engine.fenced_journal import FoundCopy
from duenotice.errors import Rewound
from duenotice.store.codec import RECORDS
from duenotice.store.data_dir import CheckpointFile, LocalCheckpoint
from duenotice.store.postgres import PostgresJournal
from duenotice.store.postgres_members import PostgresMembers
from duenotice.store.postgres_schema import prepared
from duenotice.testkit.journal_contract import NOON, records
from tests.support.postgres import Database

pytestmark = pytest.mark.machine

LIFT = Record(4, NOON, "duenotice", IncarnationsLifted(7))


@pytest.fixture
def leading(database: Database) -> Iterator[PostgresMembers]:
    """The node that leads, and has stored three records."""
    prepared(database.url)
    members = PostgresMembers(database.url)
    members.is_copy = False
    members.register("leader", "a", "http://a", "1")
    members.join("leader", 0)
    members.take_over("leader", 0, 0)
    members.append("leader", 1, records(1, 3))
    yield members
    members.close()


@pytest.fixture
def follower(leading: PostgresMembers, database: Database, tmp_path: Path) -> Iterator[PostgresJournal]:
    """The journal of another node."""
    journal = opened(database, tmp_path)
    yield journal
    journal.close()


def opened(database: Database, directory: Path) -> PostgresJournal:
    notes = CheckpointFile(directory)
    return PostgresJournal(database.url, PostgresMembers(database.url), notes, "follower")


def noted(directory: Path) -> LocalCheckpoint:
    notes = CheckpointFile(directory)
    notes.close()
    return notes.latest


def lose_the_last(database: Database) -> None:
    database.sql("DELETE FROM duenotice.records WHERE position > 2; UPDATE duenotice.head SET position = 2")


def test_a_node_notes_what_it_has_read(follower: PostgresJournal, tmp_path: Path) -> None:
    """So that its next process knows it, also when it never led."""
    list(follower.read(0))
    follower.note_seen(3)
    follower.close()
    known = noted(tmp_path)
    assert (known.position, known.crc, known.seen) == (3, RECORDS.pack(records(3, 3)[0]).crc, 3)


def test_the_next_process_of_a_node_sees_that_something_is_lost(
    follower: PostgresJournal, database: Database, tmp_path: Path
) -> None:
    """Until a lift is stored, by whichever node; what it reads from before says nothing."""
    list(follower.read(0))
    follower.close()
    lose_the_last(database)
    again = opened(database, tmp_path)
    assert again.restored
    list(again.read(0))
    assert again.restored
    again.close()


def test_a_lift_of_another_node_counts(leading: PostgresMembers, follower: PostgresJournal) -> None:
    """Then what follows is ahead of all that VMs may have seen (S3)."""
    follower._members.is_copy = True
    leading.append("leader", 1, [LIFT])
    list(follower.read(3))
    assert not follower.restored


def test_a_lift_that_is_read_does_not_count_for_a_node_that_knows_of_a_higher_one(
    leading: PostgresMembers, follower: PostgresJournal
) -> None:
    """Where the numbers are then is known when it is folded."""
    follower._members.is_copy, follower.found = True, FoundCopy(3, 200_000_000)
    leading.append("leader", 1, [LIFT])
    list(follower.read(3))
    assert follower.restored


def test_other_records_at_the_same_positions_are_noticed(
    leading: PostgresMembers, follower: PostgresJournal, database: Database
) -> None:
    """The database has lost one and gone on with another: it ends where it did, or later."""
    list(follower.read(0))
    lose_the_last(database)
    leading.append("leader", 1, [structs.replace(LIFT, position=3), *records(4, 5)])
    with pytest.raises(Rewound, match="record 3 is not the one that was stored"):
        list(follower.read(3))


def test_they_are_noticed_when_there_is_nothing_more_to_read(
    leading: PostgresMembers, follower: PostgresJournal, database: Database
) -> None:
    """A node looks so before it answers again after a silence: as many records as it knows may be others (S3)."""
    list(follower.read(0))
    assert list(follower.read(3, 0)) == []
    lose_the_last(database)
    leading.append("leader", 1, [structs.replace(LIFT, position=3)])
    with pytest.raises(Rewound, match="record 3 is not the one that was stored"):
        list(follower.read(3, 0))


def test_they_are_noticed_also_when_it_reads_again_from_before_them(
    leading: PostgresMembers, follower: PostgresJournal, database: Database
) -> None:
    """A node that has read or stored what it never showed goes back to what it shows (S3)."""
    list(follower.read(0))
    lose_the_last(database)
    leading.append("leader", 1, [structs.replace(LIFT, position=3), *records(4, 5)])
    with pytest.raises(Rewound, match="record 3 is not the one that was stored"):
        list(follower.read(1))


def test_fewer_records_than_were_read_are_noticed(follower: PostgresJournal, database: Database) -> None:
    list(follower.read(0))
    lose_the_last(database)
    with pytest.raises(Rewound, match="ends at record 2 although record 3 was stored"):
        list(follower.read(3))


@pytest.mark.parametrize(("origin", "is_copy"), [("origin", False), ("'the old server'", True)])
def test_a_new_leader_on_another_server_does_not_trust_that_nothing_is_lost(
    follower: PostgresJournal, database: Database, origin: str, is_copy: bool
) -> None:
    """The node that has stored more may be gone; the first thing that it stores is a lift."""
    database.sql(f"UPDATE duenotice.head SET origin = {origin}")
    follower.look_again()
    assert follower.restored == is_copy


def test_a_beat_on_another_server_says_so_until_something_was_stored_there(
    leading: PostgresMembers, database: Database
) -> None:
    assert not leading.beat("leader", 1, {}).head.is_copy
    database.sql("UPDATE duenotice.head SET origin = 'elsewhere'")
    database.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    assert leading.beat("leader", 2, {}).head.is_copy
    leading.append("leader", 1, [LIFT])
    assert not leading.beat("leader", 3, {}).head.is_copy


def test_a_node_notes_how_far_numbers_were_ever_lifted(
    follower: PostgresJournal, database: Database, tmp_path: Path
) -> None:
    """Also of a journal that is lost since: no clock has to be right for that."""
    list(follower.read(0))
    follower.note_lifted(3, 200_000_000)
    follower.note_lifted(3, 7)
    follower.close()
    lose_the_last(database)
    again = opened(database, tmp_path)
    assert again.found == FoundCopy(2, 200_000_000)
    again.note_lifted(2, 0)
    again.note_lifted(3, 199_999_999)  # by a node that did not know it, and whose clock is behind
    before = again.restored
    again.note_lifted(3, 200_000_001)
    assert (before, again.restored) == (True, False)
    again.close()
