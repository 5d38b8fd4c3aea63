"""The journal and the members in PostgreSQL keep the same contracts as all others."""

from collections.abc import Callable
from pathlib import Path

import pytest

from duenotice.engine.ports import Journal
from duenotice.testkit.journal_contract import JournalContract, JournalWorld, records
from tests.support.leading import LeadingJournal
from tests.support.postgres import Database

pytestmark = pytest.mark.machine


class TestPostgresJournal(JournalContract):
    """With a data directory for its notes."""

    @pytest.fixture
    def open_journal(self, database: Database, tmp_path: Path) -> Callable[[], Journal]:
        return lambda: LeadingJournal(database.url, tmp_path)


class TestPostgresJournalWithoutDirectory(JournalContract):
    """All that it knows is in the database: of time, that is the steady time of the leader."""

    @pytest.fixture
    def open_journal(self, database: Database) -> Callable[[], Journal]:
        return lambda: LeadingJournal(database.url, None)

    def test_until_when_somebody_could_be_answered_is_remembered(self, world: JournalWorld) -> None:
        """Each append of the leader tells it, and its beats do; a new leader goes on from there (N10)."""
        journal = world.journal
        assert isinstance(journal, LeadingJournal)
        journal._members.append(journal.life, journal.epoch, records(1, 3), steady=12_345_678)
        journal._members.beat(journal.life, 12_345_679, {})
        journal.note_seen(2)
        again = world.restart()
        assert isinstance(again, LeadingJournal)
        assert (again._members.look().head.steady, again.seen) == (12_345_679, 2)

    def test_what_is_stored_later_leaves_that_note_as_it_is(self, world: JournalWorld) -> None:
        journal = world.journal
        assert isinstance(journal, LeadingJournal)
        journal._members.beat(journal.life, 10**15, {})
        journal.append(records(1, 3))
        journal.note_seen(3)
        again = world.restart()
        assert isinstance(again, LeadingJournal)
        assert again._members.look().head.steady == 10**15
