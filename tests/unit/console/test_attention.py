"""What needs a person, in words."""

import pytest

from duenotice.console.attention import alarms, open_plans, place
from duenotice.wire import operator as w

STEP = w.StepGlance("set/web", 2, 3, None)


def a_glance(status: str = "running", **progress: int) -> w.PlanGlance:
    counts = dict.fromkeys(w.STEP_STATUSES, 0) | progress
    lanes = ("set/web", "set/db", "set/x")
    return w.PlanGlance("P", "Reboot", "maintenance", status, "", None, lanes, counts, 5, (), None, None)


def seen(**more: object) -> w.Attention:
    usual = {"needed": 0, "plans": (), "plans_in_all": 0, "failed_events": 0, "failures": (), "vms": 1200, "silent": 0}
    usual |= {"hosts": {"healthy": 2, "degraded": 0, "failed": 0}, "ill_hosts": ()}
    return w.Attention(**usual | more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({}, []),
        ({"plans": (a_glance("running"),)}, []),
        ({"plans": (a_glance("paused", waiting=1),)}, ["Maintenance is paused: Reboot of set/web, set/db +1"]),
        ({"plans": (a_glance("failed", failed=2),)}, ["Maintenance failed: Reboot of set/web, set/db +1"]),
        ({"failed_events": 1200}, ["1,200 events failed in the last 24 hours"]),
        ({"hosts": {"suspect": 1}, "ill_hosts": ("h1",)}, ["Host h1 is suspect: a VM has reported it"]),
        ({"hosts": {"failed": 1, "degraded": 0}, "ill_hosts": ("h1",)}, ["Host h1 has failed"]),
        ({"hosts": {"failed": 1, "degraded": 1}, "ill_hosts": ("a", "b")}, ["1 host has failed", "1 host may fail"]),
        ({"hosts": {"failed": 2, "degraded": 0}, "ill_hosts": ("a", "b")}, ["2 hosts have failed"]),
        ({"silent": 1100}, ["1,100 of 1,200 VMs would get no notice"]),
    ],
)  # fmt: skip
def test_each_thing_is_a_sentence_and_what_failed_comes_first(more: dict[str, object], says: list[str]) -> None:
    assert [need.says for need in alarms(seen(**more))] == says


def test_a_plan_that_runs_or_waits_is_open() -> None:
    plans = tuple(a_glance(status) for status in w.MAINTENANCE_STATUSES)
    assert {plan.status for plan in open_plans(seen(plans=plans))} == set(w.MAINTENANCE_STATUSES) - {
        "done",
        "failed",
        "cancelled",
    }
    assert open_plans(None) == []


def test_a_step_is_told_by_its_place() -> None:
    assert place(STEP) == "set/web, update domain 2 (3 VMs)"
    assert place(w.StepGlance("vm/db-0", 0, 1, None)) == "db-0"
