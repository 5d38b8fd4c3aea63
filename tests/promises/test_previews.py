"""A preview from any moment comes to its end and leaves no step out; it once kept the whole service busy for ever."""

from datetime import timedelta
from random import Random

import pytest

from duenotice.clock import MICROS, Instant
from duenotice.domain.commands import StartMaintenance
from duenotice.domain.event import EventType
from duenotice.domain.rules.preview import outlook, preview
from tests.promises.test_machine import EXAMPLES
from tests.support.seed import SEED
from tests.unit.domain.build import NOW, POLICY, do, id_of, listening, tick

PLAN = StartMaintenance(id_of(1), EventType.REBOOT, ("web-0", "web-1", "web-2", "web-3"), settle=300 * MICROS)
MANY = 10_000 if EXAMPLES else 2_000
ENOUGH = 100
"""More due_actions than such a plan has; what goes on for ever is told by that."""


def any_moment(random: Random) -> Instant:
    """Any time of day, any time since the journal began: it was in its first hours that a preview went on for ever."""
    return Instant(
        NOW.at + timedelta(microseconds=random.randrange(10**13)), random.randrange(10 ** random.randrange(1, 14))
    )


@pytest.mark.soak
def test_previews_from_thousands_of_moments_come_to_their_end() -> None:
    random, state = Random(SEED), listening()
    for _ in range(MANY):
        now = any_moment(random)
        assert len(preview(state, PLAN, now, POLICY, limit=ENOUGH)) == 3, f"DUENOTICE_SEED={SEED}, {now}"


def test_outlooks_from_any_moment_of_a_plan_come_to_their_end() -> None:
    random = Random(SEED)
    for _ in range(MANY // 10):
        state, begun = listening(), any_moment(random)
        do(state, PLAN, begun)
        tick(state, begun)
        now = begun.after(random.randrange(800 * MICROS))
        seen = outlook(state, state.maintenances[PLAN.maintenance_id], now, POLICY, limit=ENOUGH)
        assert len(seen) == 2, f"DUENOTICE_SEED={SEED}, {begun}, {now}"
