"""The journal in memory beyond the contract: it does not grow for ever (S24)."""

import pytest

from duenotice.store import memory
from duenotice.store.memory import MemoryJournal
from duenotice.testkit.journal_contract import records, snapshot


@pytest.fixture
def journal(monkeypatch: pytest.MonkeyPatch) -> MemoryJournal:
    """Thirty records where ten are kept."""
    monkeypatch.setattr(memory, "KEPT_RECORDS", 10)
    journal = MemoryJournal()
    journal.append(records(1, 30))
    journal.note_seen(30)
    return journal


def test_old_records_are_forgotten_once_a_snapshot_stands_for_them(journal: MemoryJournal) -> None:
    journal.save_snapshot(snapshot(30))
    assert (journal.first_position(), journal.last_position()) == (21, 30)
    assert [r.position for r in journal.read(0)] == list(range(21, 31))
    assert [r.position for r in journal.read(0, limit=2)] == [21, 22]
    assert [r.position for r in journal.read(25)] == list(range(26, 31))
    journal.append(records(31, 31))
    assert [r.position for r in journal.read(30)] == [31]


@pytest.mark.parametrize("saved", [5, 18])
def test_what_is_not_in_a_snapshot_is_kept(journal: MemoryJournal, saved: int) -> None:
    journal.save_snapshot(snapshot(saved))
    assert journal.first_position() == saved + 1


def test_what_nobody_has_seen_is_kept(journal: MemoryJournal) -> None:
    journal.note_seen(12)
    journal.save_snapshot(snapshot(30))
    assert journal.first_position() == 13
