"""What needs a person, in words."""

from datetime import timedelta

import pytest

from duenotice.console.attention import attention_items, open_plans, place
from duenotice.wire import operator as w
from tests.support.answers import NOW

STEP = w.StepGlance("set/web", 2, 3, None)


def a_glance(status: str = "running", **progress: int) -> w.PlanGlance:
    counts = dict.fromkeys(w.STEP_STATUSES, 0) | progress
    lanes = ("set/web", "set/db", "set/x")
    return w.PlanGlance("P", "Reboot", "maintenance", status, "", None, lanes, counts, 5, (), None, None)


def a_failure(event_id: str, vm: str, reason: str = "No power.", minutes: int = 0) -> w.FailedEvent:
    return w.FailedEvent(event_id, "Reboot", (vm,), 1, NOW - timedelta(minutes=minutes), reason, None)


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
        ({"hosts": {"suspect": 1}, "ill_hosts": ("h1",)}, ["Host h1 is suspect: a VM has reported it"]),
        ({"failed_events": 1200}, ["1,200 more events failed"]),
        ({"failed_events": 2, "failures": (a_failure("1", "a"), a_failure("2", "b"))}, ["Reboot of a, b failed"]),
        ({"hosts": {"failed": 1, "degraded": 0}, "ill_hosts": ("h1",)}, ["Host h1 has failed"]),
        ({"hosts": {"failed": 1, "degraded": 1}, "ill_hosts": ("a", "b")}, ["1 host has failed", "1 host may fail"]),
        ({"hosts": {"failed": 2, "degraded": 0}, "ill_hosts": ("a", "b")}, ["2 hosts have failed"]),
        ({"silent": 1100}, ["1,100 of 1,200 VMs would get no notice"]),
    ],
)  # fmt: skip
def test_each_thing_is_a_sentence_and_what_failed_comes_first(more: dict[str, object], says: list[str]) -> None:
    assert [need.says for need in attention_items(seen(**more))] == says


def test_the_red_box_says_which_vms_why_and_since_when() -> None:
    """What failed alike is one line; the oldest of it counts."""
    failures = (
        a_failure("1", "db-0", minutes=5),
        a_failure("2", "web-0", "No disk."),
        a_failure("3", "db-1", minutes=9),
    )
    alike, other = attention_items(seen(failed_events=3, failures=failures))
    assert (alike.says, alike.more, alike.since) == (
        "Reboot of db-0, db-1 failed",
        "No power.",
        NOW - timedelta(minutes=9),
    )
    assert (alike.href, other.href) == ("/events?state=failed", "/events/2")
    assert (other.says, other.more) == ("Reboot of web-0 failed", "No disk.")


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
