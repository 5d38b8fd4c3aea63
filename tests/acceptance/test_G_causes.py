"""Section G: what raises events."""

from datetime import timedelta
from email.utils import parsedate_to_datetime
from typing import Any

import pytest

from tests.acceptance.conftest import DEMO
from tests.support.node import Node

WEB = [f"web-{number}" for number in range(5)]

SPOT_WITH_NOTIFICATIONS = """
[[scale_sets]]
name = "spot"
capacity = 2
addresses = "127.0.32.0/24"
spot = true
terminate_notice = "PT5M"
"""


def started(node: Node, vm: str) -> list[str]:
    """The VMs that are being hit now, of those a VM is told of."""
    return [name for event in node.events(vm) if event["EventStatus"] == "Started" for name in event["Resources"]]


def shown(event: Any) -> tuple[str, str, str, list[str]]:
    """What matters of an event here."""
    return event["EventType"], event["EventStatus"], event["EventSource"], event["Resources"]


# G01


@pytest.mark.parametrize("cause", ["maintenance", "live-migration"])
def test_G01_one_update_domain_at_a_time(node: Node, cause: str):
    """A roll-out over five update domains that are all due at once hits them one after the other."""
    node.enable("web-0")
    for vm in WEB:
        node.schedule("Freeze", vm, cause=cause)
    node.advance("15m")
    order = []
    for _ in WEB:
        order.append(started(node, "web-0"))
        node.advance("5m" if cause == "live-migration" else "10m")
    assert sorted(order) == [[vm] for vm in WEB]
    assert node.events("web-0") == []


def test_G01_at_no_moment_are_two_domains_hit(node: Node):
    """Looked at every minute, never more than one update domain is Started."""
    node.enable("web-0")
    for vm in WEB:
        node.schedule("Reboot", vm)
    most = 0
    for _ in range(70):
        most = max(most, len(started(node, "web-0")))
        node.advance("1m")
    assert most == 1
    assert node.events("web-0") == []


def test_G01_the_next_starts_only_when_the_last_is_done(node: Node):
    """An event of another update domain, approved or due, waits until the one before it is over."""
    node.enable("web-0")
    first, second = node.schedule("Reboot", "web-0"), node.schedule("Reboot", "web-1")
    node.approve("web-0", first)
    node.approve("web-0", second)
    node.advance("9m59s")
    assert started(node, "web-0") == ["web-0"]
    node.advance("1s")
    assert started(node, "web-0") == ["web-1"]


def test_G01_the_next_waits_while_another_domain_is_not_healthy(node: Node):
    """While VMs of another update domain are down from a failure, maintenance holds back."""
    node.enable("web-0")
    event_id = node.schedule("Reboot", "web-0")
    node.operate("/v1/hosts/host-3/fail")
    node.approve("web-0", event_id)
    assert started(node, "web-0") == ["web-2"]
    node.advance("10m")
    assert started(node, "web-0") == ["web-0"]


def test_G01_vms_of_the_same_domain_may_go_together(node: Node):
    """Two events in one update domain need not wait for each other."""
    node.enable("BackEnd_IN_0")
    ids = [node.schedule("Reboot", vm) for vm in ("FrontEnd_IN_0", "BackEnd_IN_0")]
    node.approve("BackEnd_IN_0", *ids)
    assert started(node, "BackEnd_IN_0") == ["FrontEnd_IN_0", "BackEnd_IN_0"]


def test_G01_sets_do_not_wait_for_each_other(node: Node):
    """Maintenance of one set does not hold back another."""
    node.enable("web-0", "FrontEnd_IN_1")
    node.approve("web-0", node.schedule("Reboot", "web-0"))
    node.approve("FrontEnd_IN_1", node.schedule("Reboot", "FrontEnd_IN_1"))
    assert (started(node, "web-0"), started(node, "FrontEnd_IN_1")) == (["web-0"], ["FrontEnd_IN_1"])


# G02


@pytest.mark.parametrize(("operation", "event_type"), [("restart", "Reboot"), ("redeploy", "Redeploy")])
@pytest.mark.parametrize("vm", ["me", "web-2", "FrontEnd_IN_0", "workers_4"])
def test_G02_what_a_user_does_raises_an_event(node: Node, operation: str, event_type: str, vm: str):
    """Restarting a VM schedules a Reboot and redeploying it a Redeploy, with User as the source."""
    node.enable(vm)
    node.operate(f"/v1/vms/{vm}/{operation}")
    assert shown(node.event(vm)) == (event_type, "Scheduled", "User", [vm])


def test_G02_the_same_operation_twice_is_refused(node: Node):
    """While a restart is under way another one of the same VM is refused."""
    node.enable("me")
    (event,) = node.operate("/v1/vms/me/restart")
    assert node.refusal("/v1/vms/me/restart") == (
        409,
        f"me already has this operation under way: event {event['id']}.",
    )
    assert len(node.events("me")) == 1


# G03

TWELVE = ["me", "db-0", "db-1", "render-0", *WEB, "FrontEnd_IN_0", "FrontEnd_IN_1", "BackEnd_IN_0"]


def test_G03_there_is_no_limit_by_default(node: Node):
    """Any number of user operations may be scheduled at once."""
    node.enable(*TWELVE)
    assert all(node.operate(f"/v1/vms/{vm}/restart") for vm in TWELVE)


def test_G03_a_limit_can_be_set():
    """With the limit of the preview the eleventh user operation is refused until one of the ten has started."""
    with Node(DEMO, user_operations_limit=10) as node:
        node.enable(*TWELVE)
        (first, *_) = [node.operate(f"/v1/vms/{vm}/restart")[0] for vm in TWELVE[:10]]
        refusal = (422, "10 user operations are scheduled; 1 more would be over the limit of 10.")
        assert node.refusal(f"/v1/vms/{TWELVE[10]}/redeploy") == refusal
        node.approve(TWELVE[0], first["id"])
        assert node.operate(f"/v1/vms/{TWELVE[10]}/redeploy")
        assert node.refusal(f"/v1/vms/{TWELVE[11]}/restart") == refusal


def test_G03_the_limit_is_for_users_only():
    """Maintenance, evictions and failures are not counted and not refused."""
    with Node(DEMO, user_operations_limit=1) as node:
        node.enable("me", "db-0", "render-0")
        node.schedule("Reboot", "db-0")
        node.operate("/v1/vms/me/restart")
        assert node.schedule("Freeze", "db-0")
        assert node.operate("/v1/vms/render-0/evict")
        assert node.operate("/v1/hosts/host-1/fail")


# G04


@pytest.mark.parametrize(("vm", "address"), [("render-0", "127.0.1.20"), ("batch_120", "127.0.16.121")])
def test_G04_a_spot_eviction_is_told_and_then_the_vm_is_gone(node: Node, vm: str, address: str):
    """An evicted VM or scale-set instance gets a Preempt from the platform, and when that is over it is gone."""
    node.enable(vm)
    node.operate(f"/v1/vms/{vm}/evict")
    assert shown(node.event(vm)) == ("Preempt", "Scheduled", "Platform", [vm])
    node.advance("30s")
    assert node.event(vm)["EventStatus"] == "Started"
    node.advance("30s")
    assert node.get(address).status == 404


def test_G04_the_others_of_a_scale_set_stay(node: Node):
    """When an instance is gone, its neighbours are told of it no more and are still there."""
    node.enable("batch_0")
    node.operate("/v1/vms/batch_0/evict")
    node.advance("1m")
    assert node.events("batch_1") == []
    assert node.incarnation("batch_1") == 3


@pytest.mark.parametrize("vm", ["me", "web-0", "workers_0"])
def test_G04_only_spot_vms_can_be_evicted(node: Node, vm: str):
    """Evicting any other VM is refused, and so is scheduling a Preempt for it."""
    refusal = (422, f"{vm} is not a spot VM and cannot be evicted.")
    assert node.refusal(f"/v1/vms/{vm}/evict") == refusal
    assert node.refusal("/v1/events", {"type": "Preempt", "resources": [vm]}) == refusal


# G05


def test_G05_a_deleted_instance_is_told_and_then_gone(node: Node):
    """With terminate notifications on, deleting an instance schedules a Terminate; when it is over, the VM is gone."""
    node.enable("workers_0")
    node.operate("/v1/vms/workers_7/delete")
    assert shown(node.event("workers_0")) == ("Terminate", "Scheduled", "User", ["workers_7"])
    node.advance("5m")
    assert node.event("workers_7")["EventStatus"] == "Started"
    node.advance("30s")
    assert node.get("127.0.32.8").status == 404
    assert node.events("workers_0") == []


def test_G05_a_whole_scale_set_can_be_deleted(node: Node):
    """Deleting every instance tells each of them, and in the end all are gone."""
    addresses = [node.address(f"workers_{number}") for number in range(10)]
    node.enable("workers_0")
    for number in range(10):
        node.operate(f"/v1/vms/workers_{number}/delete")
    assert {event["EventType"] for event in node.events("workers_0")} == {"Terminate"}
    assert len(node.events("workers_0")) == 10
    node.advance("5m30s")
    assert {node.get(address).status for address in addresses} == {404}


def test_G05_without_notifications_it_is_gone_at_once(node: Node):
    """A VM without terminate notifications is deleted without an event."""
    node.enable("web-0")
    assert node.operate("/v1/vms/web-0/delete") == []
    assert node.get("127.0.2.1").status == 404
    assert node.events("web-1") == []


def test_G05_never_for_spot_vms():
    """A spot VM never gets a Terminate, notifications or not: it is just deleted."""
    with Node(SPOT_WITH_NOTIFICATIONS) as node:
        node.enable("spot_0")
        status, reason = node.refusal("/v1/events", {"type": "Terminate", "resources": ["spot_0"]})
        assert (status, "spot VM and never gets Terminate" in reason) == (422, True)
        assert node.operate("/v1/vms/spot_0/delete") == []
        assert node.get("127.0.32.1").status == 404
        assert node.events("spot_1") == []


# G06


def test_G06_a_degraded_host_tells_each_of_its_vms(node: Node):
    """Every VM on the host gets a Redeploy of its own from the platform; VMs on other hosts get none."""
    node.enable("me", "db-0", "web-0", "db-1")
    node.operate("/v1/hosts/host-1/degrade")
    assert shown(node.event("me")) == ("Redeploy", "Scheduled", "Platform", ["me"])
    assert shown(node.event("db-0")) == ("Redeploy", "Scheduled", "Platform", ["db-0"])
    assert [shown(event)[3] for event in node.events("web-1")] == [["web-0"], ["web-3"]]
    assert node.events("db-1") == []


def test_G06_degraded_twice_is_told_once(node: Node):
    """A host that is reported again raises no second event."""
    node.enable("db-0")
    node.operate("/v1/hosts/host-1/degrade")
    first = node.event("db-0")
    node.operate("/v1/hosts/host-1/degrade")
    assert node.event("db-0") == first


def test_G06_a_higher_risk_is_told_by_another_event(node: Node):
    """The event days ahead goes, and one with less notice takes its place."""
    node.enable("db-0")
    node.operate("/v1/hosts/host-1/degrade", {"risk": "low"})
    first = node.event("db-0")
    node.operate("/v1/hosts/host-1/degrade", {"risk": "high"})
    second = node.event("db-0")
    assert second["EventId"] != first["EventId"]
    assert parsedate_to_datetime(first["NotBefore"]) - parsedate_to_datetime(second["NotBefore"]) == timedelta(days=6)


def test_G06_a_move_goes_to_a_healthy_host(node: Node):
    """VMs leave a degraded host for one that is neither degraded nor failed."""
    node.enable("db-0")
    node.operate("/v1/hosts/host-2/degrade")
    node.operate("/v1/hosts/host-1/degrade")
    node.approve("db-0", node.event("db-0")["EventId"])
    node.advance("10m")
    hit = [event["resources"] for event in node.operate("/v1/hosts/host-3/degrade")]
    assert ["db-0"] in hit


# G05 and E05, E06: scale sets as a whole


def names(node: Node, group: str) -> set[str]:
    return {vm["name"] for vm in node.operate(f"/v1/vms?group={group}&limit=1000", method="GET")}


def test_G05_a_scale_in_tells_each_that_goes_and_then_they_are_gone(node: Node):
    """With notifications on, a scale-in sends the newest a Terminate each with the set's notice; the others stay."""
    node.enable("workers_0")
    done = node.operate("/v1/scale-sets/workers/scale", {"capacity": 8})
    assert (done["added"], done["removed"]) == ([], [])
    told = [shown(event) for event in node.events("workers_0")]
    assert told == [("Terminate", "Scheduled", "User", [name]) for name in ("workers_9", "workers_8")]
    node.advance("5m30s")
    assert names(node, "workers") == {f"workers_{number}" for number in range(8)}
    assert node.events("workers_0") == []


def test_G05_a_scale_in_waits_until_all_of_them_are_approved(node: Node):
    """Of two instances that a scale-in takes, one approval deletes neither while the other is waiting."""
    node.enable("workers_0")
    first, second = (event["id"] for event in node.operate("/v1/scale-sets/workers/scale", {"by": -2})["events"])
    node.approve("workers_9", first)
    assert started(node, "workers_0") == []
    node.approve("workers_8", second)
    assert sorted(started(node, "workers_0")) == ["workers_8", "workers_9"]


def test_G05_deletes_go_one_by_one_where_the_setting_says_so():
    """With `--no-deletes-together` an approved delete waits for no other."""
    with Node(DEMO, deletes_together=False) as node:
        node.enable("workers_0")
        first, _ = (event["id"] for event in node.operate("/v1/scale-sets/workers/scale", {"by": -2})["events"])
        node.approve("workers_9", first)
        assert started(node, "workers_0") == ["workers_9"]


def test_G05_a_scale_in_of_spot_vms_tells_nobody(node: Node):
    """Spot instances that a scale-in takes are gone at once, without a Terminate."""
    node.enable("batch_0")
    done = node.operate("/v1/scale-sets/batch/scale", {"capacity": 248})
    assert (done["events"], done["removed"]) == ([], ["batch_249", "batch_248"])
    assert node.get("127.0.16.250").status == 404


def test_G05_named_instances_are_deleted_together_or_not_at_all(node: Node):
    """Instances of a scale set are deleted as a whole: one name that is wrong keeps all of them."""
    node.enable("workers_0")
    path = "/v1/scale-sets/workers/delete-instances"
    assert node.refusal(path, {"instances": ["workers_3", "web-0"]}) == (404, "workers has no instance 'web-0'.")
    assert node.events("workers_0") == []
    node.operate(path, {"instances": ["workers_3", "workers_1"]})
    assert [event["Resources"] for event in node.events("workers_0")] == [["workers_3"], ["workers_1"]]


def test_E06_a_scale_out_gives_the_next_numbers_addresses_and_placement_groups(node: Node):
    """New instances are named {set}_{n}, answer at once, and the 301st opens another placement group."""
    answer = node.operator("POST", "/v1/scale-sets/batch/scale", {"capacity": 301})
    assert (answer.status, answer.json()["added"]) == (201, [f"batch_{number}" for number in range(250, 301)])
    assert node.get("127.0.17.45").json() == {"DocumentIncarnation": 0, "Events": []}
    newest = node.operate("/v1/vms/batch_300", method="GET")
    assert (newest["address"], newest["scope"], newest["spot"]) == ("127.0.17.45", "scale-set/batch/3", True)
    assert node.operate("/v1/groups/scale-set/batch", method="GET")["vms"] == 301


def test_G05_a_scaled_set_stays_so_until_a_fleet_file_says_otherwise(node: Node):
    """A scaled set keeps its instances over a restart; applying a file gives it the file's capacity again."""
    node.operate("/v1/scale-sets/workers/scale", {"by": 2})
    node.run(node.service.fleet_file.apply())
    assert len(names(node, "workers")) == 12
    node.apply(DEMO.read_text())
    assert len(names(node, "workers")) == 10
