"""How a plan is cut, and which of its steps may begin (G01)."""

from typing import Any

import pytest

from duenotice.domain.event import Cause, EventType
from duenotice.domain.fleet import Vm
from duenotice.domain.maintenance import Maintenance, Status, Step, StepStatus, cut, looks, ready
from tests.unit.domain.build import BATCH, SEED, SHOP, VMS, WEB

OVER = (StepStatus.DONE, StepStatus.FAILED, StepStatus.SKIPPED)


def vms(*names: str) -> list[Vm]:
    """VMs of the demo fleet."""
    return [vm for vm in VMS if vm.name in names]


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


class TestCutting:
    """VMs of one host in one update domain of one scope are one step."""

    def test_vms_of_one_host_and_update_domain_go_together(self) -> None:
        assert cut(vms("web-0", "web-2")) == (Step(WEB.key, 0, WEB.key, ("web-0", "web-2"), "host-1"),)

    def test_a_set_is_cut_by_update_domain_and_then_by_host(self) -> None:
        assert [(s.turn, s.host, s.resources) for s in cut(vms("web-0", "web-1", "web-2", "web-3"))] == [
            (0, "host-1", ("web-0", "web-2")),
            (1, "host-1", ("web-3",)),
            (1, "host-2", ("web-1",)),
        ]

    def test_a_scale_set_is_one_lane_with_an_event_for_each_placement_group(self) -> None:
        steps = cut(vms("batch_0", "batch_1", "batch_100", "batch_101"))
        assert {s.lane for s in steps} == {BATCH.key}
        assert [(s.turn, s.scope, s.resources) for s in steps] == [
            (0, f"{BATCH.key}/0", ("batch_0", "batch_1")),
            (0, f"{BATCH.key}/1", ("batch_100",)),
            (1, f"{BATCH.key}/1", ("batch_101",)),
        ]

    def test_each_standalone_vm_is_a_lane_of_its_own_even_on_one_host(self) -> None:
        assert cut(vms("alone", "zonal")) == (
            Step("vm/alone", 0, "vm/alone", ("alone",), "host-1"),
            Step("vm/zonal", 0, "vm/zonal", ("zonal",), "host-1"),
        )

    def test_vms_on_no_known_host_share_a_step(self) -> None:
        shop = [Vm(f"Front_IN_{n}", f"10.2.{n}", SHOP.key, update_domain=1) for n in range(3)]
        (only,) = cut(shop)
        assert (only.host, only.resources) == (None, ("Front_IN_0", "Front_IN_1", "Front_IN_2"))

    def test_the_order_of_the_vms_makes_no_difference_to_the_order_of_the_steps(self) -> None:
        assert [s.lane for s in cut(reversed(VMS))] == [s.lane for s in cut(VMS)]

    def test_of_nothing_nothing_is_cut(self) -> None:
        assert cut([]) == ()


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
        assert (ready(skipped, 10), looks(skipped)) == ([1], [])

    @pytest.mark.parametrize(("at_once", "begun"), [(0, [1, 2, 3]), (1, []), (2, [1]), (3, [1, 2]), (9, [1, 2, 3])])
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


class TestLooks:
    """When to look again by itself."""

    def test_at_the_end_of_each_settle_time(self) -> None:
        ended = plan(step(0, StepStatus.DONE, 10), step(0, StepStatus.DONE, 12), step(1), settle=5)
        assert looks(ended) == [15, 17]

    def test_never_when_nothing_waits(self) -> None:
        assert looks(plan(step(0, StepStatus.DONE, 10), step(1, StepStatus.UNDER_WAY), settle=5)) == []

    def test_never_for_a_paused_plan(self) -> None:
        assert looks(plan(step(0, StepStatus.DONE, 10), step(1), settle=5, status=Status.PAUSED)) == []


def test_steps_are_counted_by_how_they_are() -> None:
    counted = plan(step(0, StepStatus.DONE), step(1, StepStatus.FAILED), step(2), step(3, StepStatus.DONE))
    assert [counted.count(StepStatus.DONE), counted.count(*OVER), counted.count()] == [2, 3, 0]
