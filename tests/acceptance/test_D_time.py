"""Section D: how long before, how long, and in which order."""

from datetime import timedelta
from typing import Any

import pytest

from duenotice.wire.spans import parse_time
from tests.acceptance.conftest import DEMO
from tests.support.node import Node

MINIMUM = [
    ("Freeze", "db-0", 15 * 60),
    ("Reboot", "db-0", 15 * 60),
    ("Redeploy", "db-0", 10 * 60),
    ("Preempt", "render-0", 30),
    ("Terminate", "workers_0", 5 * 60),
    ("Terminate", "db-0", 5 * 60),
]
EVERY_MINIMUM = pytest.mark.parametrize(("event_type", "vm", "notice"), MINIMUM)


def scale_set(terminate_notice: str) -> str:
    """A scale set with terminate notifications."""
    return f"""
        [[scale_sets]]
        name = "workers"
        capacity = 2
        addresses = "127.0.32.0/24"
        terminate_notice = "{terminate_notice}"
    """


def left(node: Node, event: Any) -> timedelta:
    """How long a VM has until an event may start."""
    return parse_time(event["NotBefore"]) - node.now()


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


# D01


@EVERY_MINIMUM
def test_D01_each_type_gives_its_minimum_notice(node: Node, event_type: str, vm: str, notice: int):
    """Left to itself, NotBefore is now plus the minimum of the type, and the event starts then."""
    node.enable(vm)
    node.schedule(event_type, vm)
    assert left(node, node.event(vm)) == seconds(notice)
    node.advance(f"{notice - 1}s")
    assert node.statuses(vm) == ["Scheduled"]
    node.advance("1s")
    assert node.statuses(vm) == ["Started"]


@EVERY_MINIMUM
def test_D01_a_shorter_notice_is_refused_with_the_reason(node: Node, event_type: str, vm: str, notice: int):
    """The operator cannot schedule an event sooner than its minimum allows, and is told why."""
    node.enable(vm)
    asked = node.now() + seconds(notice - 1)
    body = {"type": event_type, "resources": [vm], "not_before": asked.isoformat()}
    status, reason = node.refusal("/v1/events", body)
    assert status == 422
    assert reason == f"NotBefore {asked:%Y-%m-%dT%H:%M:%SZ} gives less than the minimum notice of {notice} seconds."
    assert node.events(vm) == []


@EVERY_MINIMUM
def test_D01_the_minimum_or_more_is_granted(node: Node, event_type: str, vm: str, notice: int):
    """The operator may ask for exactly the minimum or for any later moment."""
    node.enable(vm)
    spans = [seconds(notice + more) for more in (0, 1, 86_400)]
    for span in spans:
        node.schedule(event_type, vm, not_before=(node.now() + span).isoformat())
    assert [left(node, event) for event in node.events(vm)] == spans


@pytest.mark.parametrize(("terminate_notice", "notice"), [("PT5M", 300), ("PT10M", 600), ("PT15M", 900)])
def test_D01_a_scale_set_chooses_its_terminate_notice(terminate_notice: str, notice: int):
    """Terminate gives the notice that the scale set asks for."""
    with Node(scale_set(terminate_notice)) as node:
        node.enable("workers_0")
        node.operate("/v1/vms/workers_0/delete")
        assert left(node, node.event("workers_0")) == seconds(notice)
        asked = (node.now() + seconds(notice - 1)).isoformat()
        status, _ = node.refusal("/v1/events", {"type": "Terminate", "resources": ["workers_1"], "not_before": asked})
        assert status == 422


@pytest.mark.parametrize("terminate_notice", ["PT4M59S", "PT15M1S", "PT1H"])
def test_D01_a_terminate_notice_is_5_to_15_minutes(node: Node, terminate_notice: str):
    """A scale set cannot ask for less than 5 or more than 15 minutes."""
    status, reason = node.refusal("/v1/fleet", scale_set(terminate_notice).encode(), "PUT")
    assert status == 422
    assert f"terminate_notice = '{terminate_notice}' is out of bounds" in reason


@pytest.mark.parametrize(("operation", "notice"), [("restart", 900), ("redeploy", 600)])
def test_D01_user_operations_give_notice_too(node: Node, operation: str, notice: int):
    """What a user asks for gives the same notice as maintenance."""
    node.enable("db-0")
    node.operate(f"/v1/vms/db-0/{operation}")
    assert left(node, node.event("db-0")) == seconds(notice)


# D02


def life(node: Node, vm: str, minutes: int) -> list[tuple[str, str]]:
    """Status and NotBefore of the one event of a VM at the beginning of each minute."""
    seen = []
    for _ in range(minutes):
        seen += [(event["EventStatus"], event["NotBefore"]) for event in node.events(vm)] or [("gone", "")]
        node.advance("1m")
    return seen


def test_D02_unapproved_it_goes_through_its_whole_life(node: Node):
    """Scheduled with the same NotBefore all the time, then Started, then gone for good."""
    node.enable("me")
    node.schedule("Redeploy", "me")
    not_before = node.event("me")["NotBefore"]
    expected = [("Scheduled", not_before)] * 10 + [("Started", "")] * 10 + [("gone", "")] * 5
    assert life(node, "me", 25) == expected


def test_D02_approved_it_skips_the_rest_of_its_notice(node: Node):
    """An approval moves it to Started, where it stays as long as any other."""
    node.enable("me")
    event_id = node.schedule("Redeploy", "me")
    not_before = node.event("me")["NotBefore"]
    before = life(node, "me", 3)
    node.approve("me", event_id)
    assert (
        before + life(node, "me", 12) == [("Scheduled", not_before)] * 3 + [("Started", "")] * 10 + [("gone", "")] * 2
    )


def test_D02_cancelled_it_is_gone_for_good(node: Node):
    """A cancelled event does not come back when its time would have come; an approval has no effect (C03)."""
    node.enable("me")
    event_id = node.schedule("Reboot", "me")
    node.operate(f"/v1/events/{event_id}/cancel")
    assert life(node, "me", 30) == [("gone", "")] * 30
    assert node.approve("me", event_id).status == 200
    assert life(node, "me", 1) == [("gone", "")]


def test_D02_started_it_cannot_be_taken_back(node: Node):
    """Cancelling a Started event is refused and changes nothing."""
    node.enable("me")
    event_id = node.schedule("Reboot", "me")
    node.approve("me", event_id)
    before = node.get("me").body
    assert node.refusal(f"/v1/events/{event_id}/cancel") == (409, "Cannot cancel the event: it is already started.")
    assert node.get("me").body == before


# D03


def test_D03_a_failure_of_a_degraded_host_is_predicted_seven_days_ahead(node: Node):
    """The VMs of a host that is going to fail get a Redeploy seven days ahead."""
    node.enable("db-0")
    node.operate("/v1/hosts/host-1/degrade")
    event = node.event("db-0")
    assert (event["EventType"], event["EventStatus"], event["Resources"]) == ("Redeploy", "Scheduled", ["db-0"])
    assert left(node, event) == timedelta(days=7)


@pytest.mark.parametrize(("risk", "notice"), [("6d", 6 * 86_400), ("36h", 129_600), ("10m", 600)])
def test_D03_a_higher_risk_gives_less_notice(node: Node, risk: str, notice: int):
    """The operator may predict it later, down to the minimum notice of Redeploy."""
    node.enable("db-0")
    node.operate("/v1/hosts/host-1/degrade", {"notice": risk})
    assert left(node, node.event("db-0")) == seconds(notice)


@pytest.mark.parametrize("risk", ["9m", "0s", "7d1s"])
def test_D03_never_less_than_the_minimum_nor_more_than_seven_days(node: Node, risk: str):
    """A prediction out of these bounds is refused."""
    status, reason = node.refusal("/v1/hosts/host-1/degrade", {"notice": risk})
    assert (status, "out of bounds" in reason) == (422, True)


def test_D03_a_vm_that_is_redeployed_in_time_no_longer_has_the_event(node: Node):
    """When the user redeploys the VM to another host, the predicted move is gone with it; neighbours keep theirs."""
    node.enable("db-0", "me")
    node.operate("/v1/hosts/host-1/degrade")
    (own,) = node.operate("/v1/vms/db-0/redeploy")
    assert len(node.events("db-0")) == 2
    node.approve("db-0", own["id"])
    node.advance("10m")
    assert node.events("db-0") == []
    assert len(node.events("me")) == 1
    node.advance("7d")
    assert node.events("db-0") == []


def test_D03_a_vm_that_waits_is_moved_when_its_time_comes(node: Node):
    """Otherwise the move starts after seven days, and the VM is on another host then."""
    node.enable("db-0")
    node.operate("/v1/hosts/host-1/degrade")
    node.advance("7d")
    assert node.statuses("db-0") == ["Started"]
    node.advance("10m")
    assert node.events("db-0") == []
    node.operate("/v1/hosts/host-1/fail")
    assert node.events("db-0") == []


def test_D03_a_repaired_host_takes_its_predictions_back(node: Node):
    """When the host turns out to be healthy, the events are gone."""
    node.enable("db-0")
    node.operate("/v1/hosts/host-1/degrade")
    node.operate("/v1/hosts/host-1/repair")
    assert node.events("db-0") == []


# D04


def test_D04_a_failure_that_has_happened_is_born_started(node: Node):
    """The VMs of a host that has failed get an event that is Started from the beginning."""
    node.enable("db-1")
    node.operate("/v1/hosts/host-2/fail")
    event = node.event("db-1")
    assert (event["EventType"], event["EventStatus"], event["NotBefore"]) == ("Reboot", "Started", "")
    assert node.incarnation("db-1") == 1
    node.advance("10m")
    assert node.events("db-1") == []


def test_D04_a_setting_makes_such_an_event_a_redeploy():
    """With a setting on, a host that has failed gives its VMs a Redeploy, and they come up on another host."""
    with Node(DEMO, host_failure_type="Redeploy") as node:
        node.enable("db-1")
        node.operate("/v1/hosts/host-2/fail")
        event = node.event("db-1")
        assert (event["EventType"], event["EventStatus"]) == ("Redeploy", "Started")
        assert event["Description"] == "Virtual machine has encountered a failure."
        node.advance("10m")
        assert node.events("db-1") == []
        assert node.operator("GET", "/v1/vms/db-1").json()["host"] != "host-2"


def test_D04_a_failure_replaces_its_prediction(node: Node):
    """A failure that comes before its predicted move takes the move's place."""
    node.enable("db-1")
    node.operate("/v1/hosts/host-2/degrade")
    node.operate("/v1/hosts/host-2/fail")
    assert [(event["EventType"], event["EventStatus"]) for event in node.events("db-1")] == [("Reboot", "Started")]


# D05

LASTS = [
    ("hosts/host-2/fail", None, "db-1", 600),
    ("events", {"type": "Freeze", "resources": ["db-1"], "cause": "live-migration"}, "db-1", 300),
    ("events", {"type": "Freeze", "resources": ["db-1"]}, "db-1", 600),
    ("events", {"type": "Reboot", "resources": ["db-1"]}, "db-1", 600),
    ("events", {"type": "Redeploy", "resources": ["db-1"]}, "db-1", 600),
    ("vms/db-1/restart", None, "db-1", 600),
    ("vms/db-1/redeploy", None, "db-1", 600),
    ("vms/render-0/evict", None, "render-0", 30),
]


def assert_started_for(node: Node, call: str, body: Any, vm: str, lasts: int) -> None:
    """Raise an event, approve it and see it Started for exactly so many seconds."""
    node.enable(vm)
    address = node.address(vm)
    (event,) = [event for event in node.operate(f"/v1/{call}", body) if vm in event["resources"]]
    node.approve(vm, event["id"])
    node.advance(f"{lasts - 1}s")
    assert node.statuses(vm) == ["Started"]
    node.advance("1s")
    answer = node.get(address)
    assert answer.status == 404 or answer.json()["Events"] == []


@pytest.mark.parametrize(("call", "body", "vm", "lasts"), LASTS)
def test_D05_how_long_started_lasts(node: Node, call: str, body: Any, vm: str, lasts: int):
    """A live migration is Started for 5 minutes, a removal for 30 seconds, everything else for 10 minutes."""
    assert_started_for(node, call, body, vm, lasts)


def test_D05_how_long_started_lasts_is_a_setting():
    """All three spans can be set."""
    chosen = {300: 7, 600: 11, 30: 5}
    with Node(DEMO, live_migration_lasts=7, maintenance_lasts=11, removal_lasts=5) as node:
        for call, body, vm, usual in LASTS:
            assert_started_for(node, call, body, vm, chosen[usual])


@pytest.mark.parametrize("cause", ["maintenance", "live-migration"])
def test_D05_a_freeze_is_felt_for_seconds(node: Node, cause: str):
    """A Freeze says that its impact is 5 to 9 seconds."""
    node.enable("me")
    node.schedule("Freeze", "me", cause=cause)
    assert 5 <= node.event("me")["DurationInSeconds"] <= 9


# D06


def test_D06_polling_once_a_second_sees_all_of_thirty_seconds(node: Node):
    """A VM that polls once a second is told of an eviction thirty times before it starts."""
    node.enable("render-0")
    node.operate("/v1/vms/render-0/evict")
    seen = []
    for _ in range(31):
        seen += node.statuses("render-0")
        node.advance("1s")
    assert seen == ["Scheduled"] * 30 + ["Started"]
