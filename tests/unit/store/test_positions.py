"""Positions begin at 1, have no gaps and are given once (S21)."""

from datetime import UTC, datetime

import pytest

from duenotice.domain.records import Record, ScopeEnabled
from duenotice.errors import Conflict, InvariantBroken
from duenotice.store.codec import refuse_unless_next, refuse_unless_reached


def records(*positions: int) -> list[Record]:
    return [Record(position, datetime(2030, 1, 1, tzinfo=UTC), "x", ScopeEnabled("vm/a")) for position in positions]


@pytest.mark.parametrize(
    ("newest", "positions", "refusal"),
    [
        (0, (1,), None),
        (7, (8, 9, 10), None),
        (7, (7,), Conflict),
        (7, (1, 2), Conflict),
        (7, (9,), InvariantBroken),
        (7, (8, 10), InvariantBroken),
        (7, (8, 8), InvariantBroken),
        (0, (0,), InvariantBroken),
    ],
)
def test_records_follow_the_newest(newest: int, positions: tuple[int, ...], refusal: type[Exception] | None) -> None:
    """A position that is taken means another engine; a gap means a mistake of ours."""
    try:
        refuse_unless_next(newest, records(*positions))
    except (Conflict, InvariantBroken) as error:
        assert type(error) is refusal
    else:
        assert refusal is None


def test_a_snapshot_is_not_ahead_of_the_journal() -> None:
    """It would hold what nobody stored."""
    refuse_unless_reached(7, 7)
    with pytest.raises(InvariantBroken, match="ahead of the journal, which ends at 7"):
        refuse_unless_reached(7, 8)
