"""Which steps of a plan may begin, and when to look again (G01); what is kept of it is what its steps add up to."""

from typing import Any

import pytest

from duenotice.domain.event import Cause, EventType
from duenotice.domain.plan import Maintenance, PlanProgress, Status, Step, StepStatus
from duenotice.errors import InvariantBroken
from tests.unit.domain.build import SEED
from tests.unit.domain.test_indexes import progress_of

OVER = (StepStatus.DONE, StepStatus.FAILED, StepStatus.SKIPPED)


def plan(*steps: Step, **fields: Any) -> Maintenance:
    return Maintenance(SEED, EventType.REBOOT, Cause.MAINTENANCE, steps, **fields)


def step(
    turn: int,
    status: StepStatus = StepStatus.WAITING,
    ended: int | None = None,
    lane: str = "set/web",
    host: str = "",
) -> Step:
    return Step(lane, turn, lane, ("x",), host, status, "event", ended)


def ready(plan: Maintenance, now: int) -> list[int]:
    return PlanProgress(plan).ready(now)


class TestReady:
    """One turn of a lane at a time; the next once the last is over and has settled."""

    def test_all_steps_of_the_first_turn_may_begin(self) -> None:
        assert ready(plan(step(0, host="a"), step(0, host="b"), step(1)), 0) == [0, 1]

    def test_every_lane_has_its_own_turn(self) -> None:
        assert ready(plan(step(0), step(1), step(3, lane="set/b"), step(4, lane="set/b")), 0) == [0, 2]

    def test_the_next_turn_waits_for_the_last_step_of_the_one_before(self) -> None:
        assert ready(plan(step(0, StepStatus.DONE, 1), step(0, StepStatus.UNDER_WAY), step(1)), 9) == []

    @pytest.mark.parametrize("status", OVER)
    def test_over_is_over_however_it_went(self, status: StepStatus) -> None:
        assert ready(plan(step(0, status, 1), step(1)), 1) == [1]

    def test_the_next_turn_waits_out_the_settle_time_of_the_last_to_end(self) -> None:
        settling = plan(step(0, StepStatus.DONE, 10), step(0, StepStatus.DONE, 12), step(1), settle=5)
        assert [ready(settling, now) for now in (15, 16, 17)] == [[], [], [2]]

    def test_steps_of_the_same_turn_need_not_settle(self) -> None:
        assert ready(plan(step(0, StepStatus.DONE, 10), step(0), settle=5), 10) == [1]

    def test_the_settle_time_of_another_lane_does_not_matter(self) -> None:
        assert ready(plan(step(0, StepStatus.DONE, 10), step(1), step(0, lane="set/b"), settle=5), 10) == [2]

    def test_after_a_turn_that_was_only_skipped_nothing_has_to_settle(self) -> None:
        skipped = plan(step(0, StepStatus.SKIPPED, 10), step(1), settle=5)
        assert (ready(skipped, 10), PlanProgress(skipped).next_look(0)) == ([1], None)

    @pytest.mark.parametrize(
        ("at_once", "begun"), [(0, [1, 2, 3]), (1, []), (2, [1]), (3, [1, 2]), (9, [1, 2, 3]), (2**63, [1, 2, 3])]
    )
    def test_no_more_than_at_once_are_under_way(self, at_once: int, begun: list[int]) -> None:
        lanes = [step(0, lane=f"vm/{n}") for n in range(3)]
        assert ready(plan(step(0, StepStatus.UNDER_WAY, lane="vm/x"), *lanes, at_once=at_once), 0) == begun

    def test_more_under_way_than_at_once_leaves_no_room_and_no_fault(self) -> None:
        busy = [step(0, StepStatus.UNDER_WAY, lane=f"vm/{n}") for n in range(3)]
        assert ready(plan(*busy, step(0), at_once=1), 0) == []

    @pytest.mark.parametrize("status", list(Status)[1:])
    def test_only_a_running_plan_begins_anything(self, status: Status) -> None:
        assert ready(plan(step(0), status=status), 0) == []

    def test_a_plan_of_thousands_of_steps_is_looked_through_once(self) -> None:
        """Not once for each step: 20,000 steps would take minutes."""
        assert len(ready(plan(*(step(n % 5, lane=f"set/{n // 5}") for n in range(20_000))), 0)) == 4_000


class TestSkipping:
    """The VMs of a step are gone when its turn has come."""

    def test_after_a_turn_that_was_skipped_all_steps_of_the_next_may_begin(self) -> None:
        """Turn 0 has settled at 17, turn 1 is skipped then, and there is room for both steps of turn 2."""
        going = PlanProgress(plan(step(0, StepStatus.DONE, 12), step(1), step(2), step(2), settle=5, at_once=2))
        assert going.ready(17) == [1]
        going.end(1, StepStatus.SKIPPED, 17, "Its VMs are gone.")
        assert going.ready(17) == [2, 3]


class TestNextLook:
    """When to look again by itself."""

    def test_when_the_lane_has_settled(self) -> None:
        ended = PlanProgress(plan(step(0, StepStatus.DONE, 10), step(0, StepStatus.DONE, 12), step(1), settle=5))
        assert [ended.next_look(after) for after in (12, 16, 17)] == [17, 17, None]

    def test_when_the_next_of_several_lanes_has(self) -> None:
        lanes = [[step(0, StepStatus.DONE, 10 + n, f"set/{n}"), step(1, lane=f"set/{n}")] for n in range(4)]
        settling = PlanProgress(plan(*(each for lane in lanes for each in lane), settle=5))
        assert [settling.next_look(after) for after in (13, 15, 16, 18)] == [15, 16, 17, None]

    def test_never_when_nothing_waits(self) -> None:
        busy = PlanProgress(plan(step(0, StepStatus.DONE, 10), step(1, StepStatus.UNDER_WAY), settle=5))
        assert busy.next_look(0) is None

    def test_never_for_a_paused_plan(self) -> None:
        paused = PlanProgress(plan(step(0, StepStatus.DONE, 10), step(1), settle=5, status=Status.PAUSED))
        assert paused.next_look(0) is None


class TestChanging:
    """What is kept is brought in step with each change; what cannot be is told, and nothing is changed."""

    def test_a_copy_goes_its_own_way(self) -> None:
        first = PlanProgress(plan(step(0), step(1), step(0, lane="set/b"), settle=5))
        first.begin(0, "event", "")
        first.end(0, StepStatus.DONE, 10, "")
        second = first.copy()
        before = progress_of(PlanProgress(first.whole()))
        second.begin(2, "other", "")
        second.end(2, StepStatus.DONE, 20, "")
        assert progress_of(first) == before
        assert progress_of(second) == progress_of(PlanProgress(second.whole()))

    def test_a_plan_that_can_never_change_again_is_shared(self) -> None:
        over = PlanProgress(plan(step(0, StepStatus.DONE, 10), status=Status.DONE))
        assert over.copy() is over
        hit = PlanProgress(plan(step(0, StepStatus.UNDER_WAY), status=Status.CANCELLED))
        assert hit.copy() is not hit

    def test_an_end_out_of_turn_does_not_confuse_the_lane(self) -> None:
        """Nothing does so, but a fold that goes wrong would be worse."""
        late = PlanProgress(plan(step(0, StepStatus.UNDER_WAY), step(1), step(2)))
        late.end(1, StepStatus.SKIPPED, 5, "Why.")
        late.end(0, StepStatus.DONE, 10, "")
        assert (late.ready(10), progress_of(late)) == ([2], progress_of(PlanProgress(late.whole())))

    @pytest.mark.parametrize("number", [-1, 0, 1, 9])
    def test_only_a_step_that_waits_begins(self, number: int) -> None:
        unchanged(plan(step(0, StepStatus.DONE, 1), step(0, StepStatus.UNDER_WAY), step(0)), "begin", number, "E", "")

    @pytest.mark.parametrize("number", [-1, 0, 9])
    def test_a_step_ends_once(self, number: int) -> None:
        unchanged(plan(step(0, StepStatus.DONE, 1), step(0)), "end", number, StepStatus.DONE, 2, "")

    def test_nothing_begins_or_is_left_out_in_a_plan_that_is_over(self) -> None:
        over = plan(step(0), step(1, StepStatus.UNDER_WAY), status=Status.CANCELLED)
        unchanged(over, "begin", 0, "E", "")
        unchanged(over, "end", 0, StepStatus.SKIPPED, 2, "")


def unchanged(plan: Maintenance, act: str, *values: Any) -> None:
    """It is a fault of ours, and the plan is as it was."""
    progress = PlanProgress(plan)
    with pytest.raises(InvariantBroken, match=f"Step {values[0]} of {SEED} cannot"):
        getattr(progress, act)(*values)
    assert progress_of(progress) == progress_of(PlanProgress(plan))
