"""The one place where records pass: into the ledger first, and only what is there is counted and logged."""

import pytest

from duenotice.agent.ledger import MemoryLedger, Recorder
from duenotice.agent.state import CLOSED_KEPT, LedgerRecord
from duenotice.errors import Misconfigured
from tests.unit.agent.build import append, event, record, seen


class FullDisk(MemoryLedger):
    """A ledger that has no room."""

    async def append(self, *records: LedgerRecord) -> None:
        raise Misconfigured("The ledger cannot be written.", hint="Make room.")


def test_a_record_that_could_not_be_stored_is_neither_counted_nor_logged(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is done that is not in the ledger, and nobody is told of it (S15)."""
    recorder = Recorder(FullDisk({}))
    with pytest.raises(Misconfigured):
        append(recorder, record("prepared", "a"))
    said = capsys.readouterr().err
    assert recorder.counters.records.total() == 0 and '"prepared"' not in said and '"ledger-failed"' in said
    assert "cannot be written" in recorder.failure


def test_a_dry_run_forgets_old_cases_as_the_ledger_does() -> None:
    """It may run for weeks (S24)."""
    pretended = MemoryLedger({})
    for number in range(CLOSED_KEPT + 5):
        one = event(event_id=f"E{number}")
        append(pretended, seen(one), record("returning", of=one, reason="gone"))
    assert list(pretended.events) == [f"E{number}" for number in range(5, CLOSED_KEPT + 5)]
