"""What a person reads of the journal: times as everywhere on the operator's side, spans in seconds."""

from datetime import UTC, datetime

import pytest

from duenotice.clock import MICROS, Mark
from duenotice.domain import transitions as t
from duenotice.domain.event import Cause, EventType
from duenotice.domain.maintenance import Maintenance, StepStatus
from duenotice.wire.record_json import record_to_json

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
PLAN = Maintenance("P-1", EventType.REBOOT, Cause.MAINTENANCE, (), settle=300 * MICROS)


def details(change: t.Transition) -> object:
    return record_to_json(t.Record(7, NOON, "alice", change))["details"]


def test_the_end_of_a_step_is_shown_in_seconds() -> None:
    ended = t.StepEnded("P-1", 2, StepStatus.DONE, 1_612_500_000, "Gone.")
    shown = {"maintenance_id": "P-1", "step": 2, "status": "done", "ended": 1612.5, "reason": "Gone."}
    assert details(ended) == shown


def test_a_settle_time_is_shown_in_seconds() -> None:
    shown = record_to_json(t.Record(7, NOON, "alice", t.MaintenanceStarted(PLAN)))["details"]
    assert shown["maintenance"]["settle"] == 300.0


@pytest.mark.parametrize("boot", [("", 0), ("boot", 99_250_000)])
def test_a_mark_of_the_clock_is_shown_in_seconds(boot: tuple[str, int]) -> None:
    marked = t.ClockMarked(Mark(NOON, 12_500_000, *boot, 60.0, 600.0))
    assert details(marked) == {"mark": ["2026-03-01T12:00:00Z", 12.5, boot[0], boot[1] / MICROS, 60.0, 600.0]}
