"""What was stored in seconds, as floats, is read in microseconds; nothing becomes due earlier by it (S1)."""

import json
from fractions import Fraction
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from duenotice.clock import MICROS, Mark
from duenotice.domain import transitions as t
from duenotice.domain.snapshot import Snapshot
from duenotice.journal.codec import RECORDS, SNAPSHOTS, Row, checksum
from duenotice.testkit.journal_examples import NOON

SECONDS = st.floats(0, 1e10)
AT = "2026-03-01T12:00:00Z"
EVENT: dict[str, Any] = {
    "id": "E-1",
    "type": "reboot",
    "cause": "maintenance",
    "scope": "set/web",
    "resources": ["web-0"],
    "not_before": "2026-03-01T12:15:00Z",
    "notice_ends": 1012.25,
}
STARTED = EVENT | {"phase": "started", "started_at": AT, "impact_ends": 1612.5}
STEP: dict[str, Any] = {"lane": "set/web", "turn": 0, "scope": "set/web", "resources": ["web-0"]}
PLAN: dict[str, Any] = {
    "id": "P-1",
    "type": "reboot",
    "cause": "maintenance",
    "steps": [STEP, STEP | {"turn": 1, "status": "done", "event_id": "E-1", "ended": 99.5}],
    "settle": 300.5,
}
MARK = [AT, 112.25, "boot", 5000.75, 60.0, 600.0]


def stored(change: dict[str, Any], format: int = 2) -> t.Transition:
    """What is read of a transition that was stored so."""
    record = {"position": 7, "at": AT, "actor": "duenotice", "transition": change}
    return RECORDS.unpack(row(record, format)).transition


def taken(**fields: Any) -> Snapshot:
    """What is read of a snapshot that was stored so."""
    return SNAPSHOTS.unpack(row({"position": 7, "at": AT, **fields}, 2))


def row(value: dict[str, Any], format: int) -> Row:
    payload = json.dumps(value).encode()
    return Row(7, format, checksum(7, format, payload), payload)


def test_events_in_every_record_that_has_one() -> None:
    for change in ("event-raised", "event-postponed", "event-started"):
        read = stored({"change": change, "event": STARTED})
        assert isinstance(read, t.EventRaised | t.EventPostponed | t.EventStarted)
        assert (read.event.notice_ends, read.event.impact_ends) == (1_012_250_000, 1_612_500_000)
    moved = stored({"change": "event-moved", "event": EVENT, "from_scope": "vm/web-0"})
    assert isinstance(moved, t.EventMoved)
    assert (moved.event.notice_ends, moved.event.impact_ends, moved.from_scope) == (1_012_250_000, None, "vm/web-0")


def test_the_end_of_a_step() -> None:
    ended = stored({"change": "step-ended", "maintenance_id": "P-1", "step": 1, "status": "done", "ended": 99.5})
    assert isinstance(ended, t.StepEnded)
    assert ended.ended == 99_500_000


def test_a_maintenance_with_its_steps() -> None:
    begun = stored({"change": "maintenance-started", "maintenance": PLAN})
    assert isinstance(begun, t.MaintenanceStarted)
    plan = begun.maintenance
    assert (plan.settle, [step.ended for step in plan.steps]) == (300_500_000, [None, 99_500_000])


def test_a_maintenance_that_never_had_a_settle_time() -> None:
    begun = stored({"change": "maintenance-started", "maintenance": {**PLAN, "settle": 0.0, "steps": []}})
    assert isinstance(begun, t.MaintenanceStarted)
    assert (begun.maintenance.settle, begun.maintenance.steps) == (0, ())
    del (bare := dict(PLAN))["settle"]
    assert taken(maintenances=[bare]).maintenances[0].settle == 0


def test_a_mark_of_either_length() -> None:
    """Format 1 knew nothing of speeds."""
    read = stored({"change": "clock-marked", "mark": MARK})
    assert read == t.ClockMarked(Mark(NOON, 112_250_000, "boot", 5_000_750_000, 60.0, 600.0))
    old = stored({"change": "clock-marked", "mark": MARK[:4]}, format=1)
    assert old == t.ClockMarked(Mark(NOON, 112_250_000, "boot", 5_000_750_000))


def test_all_of_these_in_a_snapshot() -> None:
    snapshot = taken(events=[EVENT, STARTED], maintenances=[PLAN], mark=MARK)
    assert snapshot.mark == Mark(NOON, 112_250_000, "boot", 5_000_750_000, 60.0, 600.0)
    assert [event.notice_ends for event in snapshot.events] == [1_012_250_000, 1_012_250_000]
    assert [event.impact_ends for event in snapshot.events] == [None, 1_612_500_000]
    (plan,) = snapshot.maintenances
    assert (plan.settle, [step.ended for step in plan.steps]) == (300_500_000, [None, 99_500_000])


def test_a_snapshot_without_a_mark() -> None:
    assert taken(mark=None).mark is None


def test_what_has_no_times_is_read_as_it_was() -> None:
    assert stored({"change": "scope-enabled", "scope": "vm/a"}) == t.ScopeEnabled("vm/a")


def test_a_new_record_is_read_as_it_was_stored() -> None:
    raised = stored({"change": "event-raised", "event": EVENT | {"notice_ends": 900_000_000}}, format=3)
    assert isinstance(raised, t.EventRaised)
    assert raised.event.notice_ends == 900_000_000


@given(steady=SECONDS, booted=SECONDS, later=SECONDS, notice=SECONDS, impact=SECONDS, ended=SECONDS, settle=SECONDS)
def test_nothing_becomes_due_earlier_and_nothing_four_microseconds_later(
    steady: float, booted: float, later: float, notice: float, impact: float, ended: float, settle: float
) -> None:
    """Seen from where the clock stood, and from where it stands later on the same boot; exact, not as floats add."""
    event = STARTED | {"notice_ends": notice, "impact_ends": impact}
    plan = PLAN | {"settle": settle, "steps": [STEP | {"ended": ended}]}
    read = taken(events=[event], maintenances=[plan], mark=[AT, steady, "boot", booted])
    assert read.mark is not None
    (new,), (work,) = read.events, read.maintenances
    now = read.mark.steady + int(later * MICROS) - read.mark.boot_micros
    was = Fraction(steady) * MICROS + int(later * MICROS) - Fraction(booted) * MICROS
    assert new.impact_ends is not None
    assert work.steps[0].ended is not None
    settled = Fraction(ended) + Fraction(settle)
    for left, before in (
        (new.notice_ends - now, Fraction(notice) * MICROS - was),
        (new.impact_ends - now, Fraction(impact) * MICROS - was),
        (work.steps[0].ended + work.settle - now, settled * MICROS - was),
    ):
        assert before <= left < before + 4
