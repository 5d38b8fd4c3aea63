"""Ids that follow from one id: the same every time, and another for each name."""

from uuid import UUID

from duenotice.domain.bulk import derived
from tests.unit.domain.build import SEED


def test_an_id_follows_from_its_seed_and_name() -> None:
    """A plan cut into steps before a restart raises the same events after it."""
    ids = [derived(SEED, name) for name in ("a", "b", "a")]
    assert ids[0] == ids[2] != ids[1]
    assert ids == [str(UUID(each)).upper() for each in ids]
    assert derived(ids[0], "a") != ids[0]
