"""Section M, policies: what owners approve beforehand, set with the real client."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.core.rest import HttpRequest
from azure.mgmt.compute import models

from tests.acceptance.conftest import DEMO
from tests.support.azure import GROUP, SUBSCRIPTION, Azure
from tests.support.node import Node

m: Any = models
"""Its types do not know that `VirtualMachine` also takes what is in its properties."""
HOLDS = {
    "userInitiatedReboot": {"automaticallyApprove": False},
    "userInitiatedRedeploy": {"automaticallyApprove": False},
    "allInstancesDown": {"automaticallyApprove": True},
}
"""What counts where nobody has said anything (M14)."""
REBOOTS = m.ScheduledEventsPolicy(user_initiated_reboot=m.UserInitiatedReboot(automatically_approve=True))
ALL_OF_IT = m.ScheduledEventsPolicy(
    user_initiated_reboot=m.UserInitiatedReboot(automatically_approve=True),
    user_initiated_redeploy=m.UserInitiatedRedeploy(automatically_approve=False),
    all_instances_down=m.AllInstancesDown(automatically_approve=True),
    scheduled_events_additional_publishing_targets=m.ScheduledEventsAdditionalPublishingTargets(
        event_grid_and_resource_graph=m.EventGridAndResourceGraph(
            enable=True, scheduled_events_api_version="2020-07-01"
        )
    ),
)


@pytest.fixture(scope="module")
def azure_node() -> Iterator[Node]:
    """One node for all tests of this file; each uses VMs of its own."""
    with Node(DEMO, azure_listen="127.0.0.1:0") as running:
        yield running


@pytest.fixture(scope="module")
def compute(azure_node: Node) -> Iterator[Any]:
    """The real client of an admin."""
    with Azure(azure_node) as clients:
        yield clients.compute()


def policy(owned: Any) -> Any:
    """As JSON."""
    return owned.as_dict()["properties"].get("scheduledEventsPolicy")


def test_M09_a_restart_that_was_approved_beforehand_is_started_when_it_is_first_seen(
    azure_node: Node, compute: Any
) -> None:
    """begin_update, then begin_restart: the VM reads Started and nothing before it, and the poller ends with it."""
    azure_node.enable("me")
    vm = compute.virtual_machines.begin_update(GROUP, "me", m.VirtualMachineUpdate(scheduled_events_policy=REBOOTS))
    assert policy(vm.result()) == HOLDS | REBOOTS.as_dict()
    before = azure_node.document("me")["DocumentIncarnation"]
    poller = compute.virtual_machines.begin_restart(GROUP, "me")
    document = azure_node.document("me")
    (event,) = document["Events"]
    assert document["DocumentIncarnation"] == before + 1
    assert (event["EventStatus"], event["EventType"], event["EventSource"]) == ("Started", "Reboot", "User")
    azure_node.advance("10m")
    poller.wait()
    assert azure_node.events("me") == []


def test_M09_what_was_not_approved_beforehand_waits(azure_node: Node, compute: Any) -> None:
    """A redeploy of a VM whose owner has approved restarts only."""
    azure_node.enable("db-1")
    compute.virtual_machines.begin_update(GROUP, "db-1", m.VirtualMachineUpdate(scheduled_events_policy=REBOOTS))
    compute.virtual_machines.begin_redeploy(GROUP, "db-1")
    assert [event["EventStatus"] for event in azure_node.events("db-1")] == ["Scheduled"]


def test_M09_everything_that_can_be_said_is_kept_and_shown(azure_node: Node, compute: Any) -> None:
    """By get, after a PUT; a PATCH changes only what it names; the audit trail has both."""
    vms = compute.virtual_machines
    vms.begin_create_or_update(
        GROUP, "db-0", m.VirtualMachine(location="westeurope", scheduled_events_policy=ALL_OF_IT)
    ).result()
    assert policy(vms.get(GROUP, "DB-0")) == ALL_OF_IT.as_dict()  # which names all that there is
    off = m.ScheduledEventsPolicy(all_instances_down=m.AllInstancesDown(automatically_approve=False))
    vms.begin_update(GROUP, "db-0", m.VirtualMachineUpdate(scheduled_events_policy=off)).result()
    assert policy(vms.get(GROUP, "db-0")) == {**ALL_OF_IT.as_dict(), **off.as_dict()}
    vms.begin_create_or_update(
        GROUP, "db-0", m.VirtualMachine(location="westeurope", scheduled_events_policy=off)
    ).result()
    assert policy(vms.get(GROUP, "db-0")) == HOLDS | off.as_dict()
    said = azure_node.operate("/v1/audit?action=events-policy-set", method="GET")
    assert [record["actor"] for record in said if record["details"]["of"] == "vm/db-0"] == ["token/admin"] * 3


def test_M09_a_set_says_it_for_its_vms(azure_node: Node, compute: Any) -> None:
    """availability_sets.update: it holds for each of them, and is shown at each."""
    azure_node.enable("web-0")
    changed = compute.availability_sets.update(GROUP, "web", m.AvailabilitySetUpdate(scheduled_events_policy=REBOOTS))
    assert policy(changed) == policy(compute.availability_sets.get(GROUP, "web")) == HOLDS | REBOOTS.as_dict()
    assert policy(compute.virtual_machines.get(GROUP, "web-1")) == HOLDS | REBOOTS.as_dict()
    compute.virtual_machines.begin_restart(GROUP, "web-1")
    assert [event["EventStatus"] for event in azure_node.events("web-0")] == ["Started"]


@pytest.mark.parametrize(("name", "owner"), [("web-3", "set/web"), ("batch_7", "scale-set/batch")])
def test_M14_a_policy_on_one_vm_of_a_set_is_refused(azure_node: Node, compute: Any, name: str, owner: str) -> None:
    """It belongs to the set: at the Azure door, in the operator's API, and in a fleet file."""
    if name == "web-3":
        refused = send(compute, f"virtualMachines/{name}", {"properties": {"scheduledEventsPolicy": {}}}, 409)
        assert (refused["code"], owner in refused["message"]) == ("OperationNotAllowed", True)
    status, said = azure_node.refusal(f"/v1/vms/{name}/policy", {"user_initiated_reboot": True}, "PUT")
    assert (status, said) == (422, f"{name} is in {owner}: a policy belongs to all of it (M14).")


@pytest.mark.parametrize("path", ["virtualMachines/web-4", "availabilitySets/web", "virtualMachineScaleSets/batch"])
def test_M14_the_policy_that_holds_is_shown(path: str) -> None:
    """Nobody has said anything: allInstancesDown is on, the other two are off, and none is null."""
    with Node(DEMO, azure_listen="127.0.0.1:0") as node, Azure(node) as azure:
        place = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}/providers/Microsoft.Compute/{path}"
        assert azure.get(f"{place}?api-version=2026-04-01")["properties"]["scheduledEventsPolicy"] == HOLDS


@pytest.mark.parametrize(("said", "second"), [({}, "Started"), ({"all_instances_down": False}, "Scheduled")])
def test_M14_all_instances_down_holds_unless_the_owner_says_otherwise(said: dict[str, bool], second: str) -> None:
    """While a VM is down for a restart, what comes next starts at once; with false it waits for its notice."""
    with Node(DEMO) as node:
        node.enable("db-1")
        node.operate("/v1/vms/db-1/policy", said, "PUT")
        node.operate(f"/v1/events/{node.schedule('Reboot', 'db-1')}/approve", {})
        node.schedule("Freeze", "db-1")
        assert node.statuses("db-1") == ["Started", second]


def test_M09_a_scale_set_says_it_for_its_instances(azure_node: Node, compute: Any) -> None:
    """begin_create_or_update of the scale set leaves its capacity as it is."""
    azure_node.enable("workers_0")
    sets = compute.virtual_machine_scale_sets
    asked = m.VirtualMachineScaleSet(location="westeurope", scheduled_events_policy=REBOOTS)
    holds = HOLDS | REBOOTS.as_dict()
    assert policy(sets.begin_create_or_update(GROUP, "workers", asked).result()) == holds
    assert (policy(sets.get(GROUP, "workers")), sets.get(GROUP, "workers").sku.capacity) == (holds, 10)
    azure_node.operate("/v1/vms/workers_0/restart")
    assert [event["EventStatus"] for event in azure_node.events("workers_0")] == ["Started"]


@pytest.mark.parametrize(
    ("asked", "target"),
    [
        ({"userInitiatedReboot": {"automaticallyApprove": "yes"}}, "automaticallyApprove"),
        ({"userInitiatedReboot": True}, "userInitiatedReboot"),
        ({"allInstancesDown": {"automaticallyApprove": 1}}, "automaticallyApprove"),
        ("off", "scheduledEventsPolicy"),
        (None, "scheduledEventsPolicy"),
    ],
)
def test_M09_a_policy_of_a_wrong_type_changes_nothing(compute: Any, asked: object, target: str) -> None:
    """InvalidParameter in Azure's shape, which names the place."""
    before = policy(compute.virtual_machines.get(GROUP, "web-2"))
    body = {"properties": {"scheduledEventsPolicy": asked}}
    for path in ("virtualMachines/web-2", "availabilitySets/web"):
        refused = send(compute, path, body)
        assert (refused["code"], refused["target"].endswith(target)) == ("InvalidParameter", True), refused
    assert policy(compute.virtual_machines.get(GROUP, "web-2")) == before


def test_M09_an_api_version_that_no_document_has_is_refused(compute: Any) -> None:
    """InvalidParameter, with those that there are."""
    targets = {"eventGridAndResourceGraph": {"enable": True, "scheduledEventsApiVersion": "2099-01-01"}}
    asked = {"scheduledEventsAdditionalPublishingTargets": targets}
    refused = send(compute, "virtualMachineScaleSets/batch", {"properties": {"scheduledEventsPolicy": asked}})
    assert (refused["code"], "2020-07-01" in refused["message"]) == ("InvalidParameter", True)


def test_M09_what_is_not_there_has_no_policy(compute: Any) -> None:
    """ResourceNotFound: a PUT makes no VM."""
    with pytest.raises(ResourceNotFoundError, match="ResourceNotFound"):
        vm = m.VirtualMachine(location="westeurope", scheduled_events_policy=REBOOTS)
        compute.virtual_machines.begin_create_or_update(GROUP, "nobody", vm)


def test_M09_a_viewer_may_not_set_it(azure_node: Node) -> None:
    """AuthorizationFailed."""
    made = azure_node.operate("/v1/tokens", {"name": "looks", "role": "viewer"})
    with Azure(azure_node, made["token"]) as azure, pytest.raises(HttpResponseError, match="AuthorizationFailed"):
        update = m.VirtualMachineUpdate(scheduled_events_policy=REBOOTS)
        azure.compute().virtual_machines.begin_update(GROUP, "web-3", update)


def send(compute: Any, path: str, body: object, status: int = 400) -> dict[str, Any]:
    """A PATCH with a body that the client's types do not allow; the error that came back."""
    place = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}/providers/Microsoft.Compute/{path}"
    answer = compute.send_request(HttpRequest("PATCH", f"{place}?api-version=2026-04-01", json=body))
    assert answer.status_code == status, answer.text()
    error: dict[str, Any] = answer.json()["error"]
    return error


def test_M09_what_comes_while_nobody_is_up_starts_at_once_and_a_preview_says_why(
    azure_node: Node, compute: Any
) -> None:
    """allInstancesDown: the VM is down for a restart, so nobody could prepare for the maintenance."""
    azure_node.enable("render-0")
    down = m.ScheduledEventsPolicy(all_instances_down=m.AllInstancesDown(automatically_approve=True))
    compute.virtual_machines.begin_update(GROUP, "render-0", m.VirtualMachineUpdate(scheduled_events_policy=down))
    plan = {"on": ["vm=render-0"], "type": "Freeze"}
    ahead = "/v1/maintenances?dry_run=true"
    assert [step["reason"] for step in azure_node.operate(ahead, plan)["timeline"]] == [""]
    first = azure_node.schedule("Reboot", "render-0")
    azure_node.operate(f"/v1/events/{first}/approve", {})
    (foreseen,) = azure_node.operate(ahead, plan)["timeline"]
    assert (foreseen["reason"], foreseen["starts_at"]) == ("starts at once: policy", foreseen["scheduled_at"])
    azure_node.operate("/v1/maintenances", plan)
    assert [event["EventStatus"] for event in azure_node.events("render-0")] == ["Started", "Started"]


def test_M09_a_policy_stays_over_a_restart_until_another_fleet_file_is_applied(tmp_path: Path) -> None:
    """The same file again changes nothing; a changed one makes the fleet be what it says."""
    wish = {"user_initiated_reboot": True, "event_grid_and_resource_graph": True}
    with Node(DEMO, data_dir=str(tmp_path)) as node:
        node.operate("/v1/vms/db-0/policy", wish, "PUT")
        node.operate("/v1/groups/set/web/policy", wish, "PUT")
    with Node(DEMO, data_dir=str(tmp_path)) as node:
        assert node.operate("/v1/vms/db-0", method="GET")["policy"] == wish
        assert node.operate("/v1/groups/set/web", method="GET")["policy"] == wish
        node.operate("/v1/fleet", f"{DEMO.read_text()}\n# another".encode(), "PUT")
        assert node.operate("/v1/vms/db-0", method="GET")["policy"] is None
