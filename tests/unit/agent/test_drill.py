"""A drill's event: Scheduled, Started, gone, whatever the service says."""

from datetime import timedelta
from pathlib import Path

import pytest

from duenotice.agent.drill import Drill, current, drilled, inject
from tests.unit.agent.build import NOW, events, record, seen, world

DRILL = Drill("DRILL-1", "Reboot", NOW + timedelta(seconds=60), 5.0)


@pytest.mark.parametrize(
    ("after", "status"), [(0, ["Scheduled"]), (59, ["Scheduled"]), (60, ["Started"]), (64, ["Started"]), (65, [])]
)
def test_a_drill_runs_its_course(after: int, status: list[str]):
    """By the clock, when nothing is prepared."""
    events = drilled(DRILL, {}, world("a", now=NOW + timedelta(seconds=after)))
    assert [event.status for event in events] == status


@pytest.mark.parametrize(("after", "status"), [(10, ["Started"]), (15, [])])
def test_a_drill_starts_when_everything_is_prepared(after: int, status: list[str]):
    """As it would if it had been approved, so that a rehearsal is short."""
    (event,) = drilled(DRILL, {}, world("a"))
    done = events(
        seen(event, drill=True),
        record("preparing", "a", of=event),
        record("prepared", "a", of=event, at=NOW + timedelta(seconds=10)),
    )
    assert [each.status for each in drilled(DRILL, done, world("a", now=NOW + timedelta(seconds=after)))] == status


def test_a_drill_that_is_over_stays_over():
    """It does not begin again because its notice has not run out."""
    (event,) = drilled(DRILL, {}, world("a"))
    over = events(seen(event, drill=True), record("returning", of=event, reason="gone"))
    assert drilled(DRILL, over, world("a")) == []


def test_a_drill_is_a_file(tmp_path: Path):
    """What was injected is read back."""
    assert current(tmp_path, {}) is None
    inject(tmp_path, DRILL)
    assert current(tmp_path, {}) == DRILL


def test_a_drill_that_is_through_is_removed(tmp_path: Path):
    """Its notice may last for days, and the ledger forgets."""
    inject(tmp_path, DRILL)
    (event,) = drilled(DRILL, {}, world("a"))
    assert current(tmp_path, events(seen(event, drill=True), record("returning", of=event, reason="gone"))) is None
    assert list(tmp_path.iterdir()) == []
