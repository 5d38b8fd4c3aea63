"""The journal and the members in PostgreSQL keep the same contracts as all others."""

from collections.abc import Callable
from pathlib import Path

import pytest

from duenotice.engine.ports import Journal
from duenotice.journal.postgres_alone import LoneJournal
from duenotice.testkit.journal_contract import JournalContract
from tests.support.postgres import Database

pytestmark = pytest.mark.machine


class TestPostgresJournal(JournalContract):
    """With a data directory for its notes."""

    @pytest.fixture
    def open_journal(self, database: Database, tmp_path: Path) -> Callable[[], Journal]:
        return lambda: LoneJournal(database.url, tmp_path, "node-a")


class TestPostgresJournalWithoutDirectory(JournalContract):
    """All notes are in the database."""

    @pytest.fixture
    def open_journal(self, database: Database) -> Callable[[], Journal]:
        return lambda: LoneJournal(database.url, None, "node-a")
