"""Which records people see without asking for them by name."""

from datetime import UTC, datetime

import pytest

from duenotice.clock import Mark
from duenotice.domain import records as t
from duenotice.wire.operator.from_domain import is_quiet

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("actor", "speed", "quiet"),
    [("duenotice", 60.0, True), ("token/ann", 60.0, False), ("token/ann", 0.0, True)],
)
def test_a_change_of_speed_by_somebody_is_in_the_audit_trail(actor: str, speed: float, quiet: bool) -> None:
    """A mark of the service itself is not, nor one that only keeps where a manual clock was."""
    mark = t.ClockMarked(Mark(NOON, 0, given=60.0, speed=speed))
    assert is_quiet(t.Record(1, NOON, actor, mark)) is quiet


def test_what_happens_to_vms_is_never_quiet() -> None:
    assert not is_quiet(t.Record(1, NOON, "duenotice", t.VmsRemoved(("web-0",))))
