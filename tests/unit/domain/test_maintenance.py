"""How a plan is cut into steps (G01)."""

from itertools import groupby
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duenotice.domain import bulk
from duenotice.domain.event import By, Cause, EventType
from duenotice.domain.fleet import Vm, scope_of
from duenotice.domain.plan import Maintenance, Step, StepStatus, cut
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
        assert [(s.domain, s.host, s.resources) for s in cut(vms("web-0", "web-1", "web-2", "web-3"))] == [
            (0, "host-1", ("web-0", "web-2")),
            (1, "host-1", ("web-3",)),
            (1, "host-2", ("web-1",)),
        ]

    def test_a_scale_set_is_one_lane_with_an_event_for_each_placement_group(self) -> None:
        steps = cut(vms("batch_0", "batch_1", "batch_100", "batch_101"))
        assert {s.group for s in steps} == {BATCH.key}
        assert [(s.domain, s.scope, s.resources) for s in steps] == [
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
        assert [s.group for s in cut(reversed(VMS))] == [s.group for s in cut(VMS)]

    def test_of_nothing_nothing_is_cut(self) -> None:
        assert cut([]) == ()

    @given(st.permutations(VMS), st.integers(1, 5))
    def test_sorted_in_pieces_it_is_what_one_sort_would_give(self, vms: list[Vm], piece: int) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(bulk, "PIECE", piece)
            assert cut(vms) == sorted_at_once(vms)


def sorted_at_once(vms: list[Vm]) -> tuple[Step, ...]:
    """What a plan is cut into, said in one go."""

    def together(vm: Vm) -> tuple[str, int, str, str]:
        return vm.group or scope_of(vm), vm.update_domain or 0, scope_of(vm), vm.host or ""

    cuts = [(key, list(some)) for key, some in groupby(sorted(vms, key=together), key=together)]
    return tuple(
        Step(lane, turn, scope, tuple(vm.name for vm in some), host or None) for (lane, turn, scope, host), some in cuts
    )


def test_steps_are_counted_by_how_they_are() -> None:
    counted = plan(step(0, StepStatus.DONE), step(1, StepStatus.FAILED), step(2), step(3, StepStatus.DONE))
    assert [counted.count(StepStatus.DONE), counted.count(*OVER), counted.count()] == [2, 3, 0]


def test_by_fault_domain_the_vms_of_each_are_hit_in_one_turn() -> None:
    """G01: its update domains have an event each, as Resources lie in one (S10), and these go together."""
    vms = [Vm(f"w-{n}", f"10.9.0.{n}", "set/w", update_domain=n // 2, fault_domain=n % 2, host="h") for n in range(4)]
    steps = cut([*vms, Vm("single", "10.9.0.9")], By.FAULT_DOMAIN)
    assert [(step.group, step.domain, step.update_domain, step.resources) for step in steps] == [
        ("set/w", 0, 0, ("w-0",)),
        ("set/w", 0, 1, ("w-2",)),
        ("set/w", 1, 0, ("w-1",)),
        ("set/w", 1, 1, ("w-3",)),
        ("vm/single", 0, None, ("single",)),
    ]
