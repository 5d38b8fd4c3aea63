"""What the operator's side answers: each domain value as JSON, times in RFC 3339, spans in seconds."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from duenotice.clock import MICROS, Instant, Mark
from duenotice.domain import records as t
from duenotice.domain.event import Cause, Event, EventType, Phase
from duenotice.domain.plan import Maintenance, StepStatus
from duenotice.wire.operator import from_domain

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
PLAN = Maintenance("P-1", EventType.REBOOT, Cause.MAINTENANCE, (), settle=300 * MICROS)


def details(change: t.Transition) -> dict[str, Any]:
    return dict(msgspec.to_builtins(from_domain.record(t.Record(7, NOON, "alice", change)).details))


def test_the_end_of_a_step_is_shown_in_seconds() -> None:
    ended = t.StepEnded("P-1", 2, StepStatus.DONE, 1_612_500_000, "Gone.")
    shown = {"maintenance_id": "P-1", "step": 2, "status": "done", "ended": 1612.5, "reason": "Gone."}
    assert details(ended) == shown


def test_a_settle_time_is_shown_in_seconds() -> None:
    assert details(t.MaintenanceStarted(PLAN))["maintenance"]["settle"] == 300.0


@pytest.mark.parametrize("boot", [("", 0), ("boot", 99_250_000)])
def test_a_mark_of_the_clock_is_shown_in_seconds(boot: tuple[str, int]) -> None:
    marked = t.ClockMarked(Mark(NOON, 12_500_000, *boot, 60.0, 600.0))
    assert details(marked) == {"mark": ["2026-03-01T12:00:00Z", 12.5, boot[0], boot[1] / MICROS, 60.0, 600.0]}


EVENT = Event("ID-1", EventType.REBOOT, Cause.USER, "set/web", ("web-0",), NOON, 0, "Words", update_domain=3)


def test_a_scheduled_event_is_shown_whole() -> None:
    assert msgspec.to_builtins(from_domain.event(EVENT)) == {
        "id": "ID-1",
        "type": "Reboot",
        "phase": "scheduled",
        "scope": "set/web",
        "resources": ("web-0",),
        "update_domain": 3,
        "cause": "user",
        "source": "User",
        "description": "Words",
        "duration": -1,
        "not_before": "2026-03-01T12:00:00Z",
        "approved_by": None,
        "started_at": None,
        "ends_at": None,
        "consent": "scope",
        "awaited": (),
        "awaited_in_all": 0,
    }


def test_a_started_event_says_who_approved_and_since_when_and_keeps_its_not_before() -> None:
    begun = EVENT.with_(phase=Phase.STARTED, approved_by="web-1", started_at=NOON + timedelta(seconds=5))
    shown = msgspec.to_builtins(from_domain.event(begun))
    assert (shown["phase"], shown["approved_by"]) == ("started", "web-1")
    assert (shown["started_at"], shown["not_before"]) == ("2026-03-01T12:00:05Z", "2026-03-01T12:00:00Z")


def test_a_started_event_says_when_it_will_be_over_if_that_is_known() -> None:
    begun = EVENT.with_(phase=Phase.STARTED, started_at=NOON, notice_ends=1000 * MICROS)
    assert from_domain.event(begun.with_(impact_ends=1600 * MICROS)).ends_at == NOON + timedelta(minutes=10)
    assert from_domain.event(begun).ends_at is None


@pytest.mark.parametrize(
    ("at", "ends_at"),
    [
        (NOON + timedelta(seconds=1, microseconds=999_999), "12:10:00"),
        (NOON - timedelta(seconds=2), "12:10:00"),
        (NOON + timedelta(seconds=2, microseconds=1), "12:10:02"),
        (NOON + timedelta(hours=1), "13:10:00"),
        (NOON - timedelta(hours=1), "11:10:00"),
    ],
    ids=["a moment", "a moment back", "more than that", "away for an hour", "set back"],
)
def test_what_is_left_counts_from_now_when_the_two_faces_of_time_have_come_apart(at: datetime, ends_at: str) -> None:
    """By a hair they always are, and that must not show."""
    begun = EVENT.with_(phase=Phase.STARTED, started_at=NOON, notice_ends=1000 * MICROS, impact_ends=1600 * MICROS)
    assert from_domain.event(begun, Instant(at, 1000 * MICROS)).ends_at == datetime.fromisoformat(
        f"2026-03-01T{ends_at}Z"
    )
