"""The life of a process tells when it began, and is never given twice."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from duenotice.engine.lives import born, new_life

MOMENT = datetime(2026, 11, 16, 12, 0, 0, 123000, tzinfo=UTC)


@pytest.mark.parametrize("moment", [MOMENT, MOMENT + timedelta(days=40_000), datetime(1970, 1, 1, tzinfo=UTC)])
def test_a_life_tells_when_it_began(moment: datetime) -> None:
    assert born(new_life(moment)) == moment


def test_two_lives_of_one_moment_differ() -> None:
    """Both are uuids as others make them."""
    lives = {new_life(MOMENT) for _ in range(1000)}
    assert len(lives) == 1000
    assert {(UUID(life).version, UUID(life).variant) for life in lives} == {(7, "specified in RFC 4122")}


@pytest.mark.parametrize("life", ["171826f7-e89f-4cda-a064-43e2b34b755f", "", "life-a"])
def test_other_lives_do_not_tell(life: str) -> None:
    """Such as a plain uuid."""
    assert born(life) is None
