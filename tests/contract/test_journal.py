"""Each journal of ours keeps the contract that ships in the test kit, for whoever writes another one.

That two engines never share a position (S21) is in it.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from duenotice.engine.ports import Journal
from duenotice.store.memory import MemoryJournal
from duenotice.store.sqlite import SqliteJournal
from duenotice.testkit.journal_contract import JournalContract


class TestMemoryJournal(JournalContract):
    """It lives as long as its object."""

    @pytest.fixture
    def open_journal(self) -> Callable[[], Journal]:
        journal = MemoryJournal()
        return lambda: journal


class TestSqliteJournal(JournalContract):
    """It lives in a directory."""

    @pytest.fixture
    def open_journal(self, tmp_path: Path) -> Callable[[], Journal]:
        return lambda: SqliteJournal(tmp_path / "data")
