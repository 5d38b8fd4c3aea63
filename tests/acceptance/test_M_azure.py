"""Section M: the real Azure SDKs and `az` drive the service, unchanged."""

import json
import os
import socket
import ssl
import stat
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from datetime import timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import pytest
from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    ResourceExistsError,
    ResourceNotFoundError,
)
from azure.mgmt.maintenance import MaintenanceManagementClient

from duenotice.azure_api import certificates, shape
from tests.acceptance.conftest import DEMO
from tests.support.azure import GROUP, SUBSCRIPTION, Azure
from tests.support.cli import duenotice
from tests.support.node import Node


@pytest.fixture(scope="module")
def azure_node() -> Iterator[Node]:
    """One node for all tests of this file; each uses a VM of its own."""
    with Node(DEMO, azure_listen="127.0.0.1:0") as running:
        yield running


@pytest.fixture(scope="module")
def azure(azure_node: Node) -> Iterator[Azure]:
    """The clients of an admin."""
    with Azure(azure_node) as clients:
        yield clients


def test_M01_it_has_a_ca_of_its_own_and_only_its_owner_reads_the_keys(azure: Azure) -> None:
    """A client that trusts azure-ca.pem is served; another refuses to talk."""
    with urllib.request.urlopen(f"{azure.url}/metadata/endpoints", context=ssl.create_default_context(cafile=azure.ca)):
        pass
    with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
        urllib.request.urlopen(f"{azure.url}/metadata/endpoints", context=ssl.create_default_context())
    keys = [path for path in Path(azure.ca).parent.iterdir() if path.suffix == ".key"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in keys} == {0o600}


def test_M02_a_revoked_token_takes_its_access_tokens_with_it(azure_node: Node) -> None:
    """The same client is served before, and gets AuthenticationFailed after, without a new sign-in."""
    made = azure_node.operate("/v1/tokens", {"name": "short-lived", "role": "viewer"})
    with Azure(azure_node, made["token"]) as azure:
        compute = azure.compute()
        assert compute.virtual_machines.get(GROUP, "db-0").name == "db-0"
        assert azure_node.operator("DELETE", f"/v1/tokens/{made['id']}").status == 204
        with pytest.raises(ClientAuthenticationError, match="AuthenticationFailed"):
            compute.virtual_machines.get(GROUP, "db-0")


def test_M02_a_viewer_reads_and_may_not_act(azure_node: Node) -> None:
    """AuthorizationFailed, and nothing happens."""
    made = azure_node.operate("/v1/tokens", {"name": "reader", "role": "viewer"})
    azure_node.enable("db-0")
    with Azure(azure_node, made["token"]) as azure, pytest.raises(HttpResponseError, match="AuthorizationFailed"):
        azure.compute().virtual_machines.begin_restart(GROUP, "db-0")
    assert azure_node.events("db-0") == []


def test_M04_names_match_in_any_case_and_what_is_unknown_is_told_in_azures_shape(azure: Azure) -> None:
    """ResourceNotFound, ResourceGroupNotFound, SubscriptionNotFound."""
    vms = azure.compute().virtual_machines
    assert vms.get(GROUP.upper(), "WEB-0").name == "web-0"
    with pytest.raises(ResourceNotFoundError, match="ResourceNotFound"):
        vms.get(GROUP, "nobody")
    with pytest.raises(ResourceNotFoundError, match="ResourceGroupNotFound"):
        vms.get("elsewhere", "web-0")


def test_M05_a_restart_is_in_progress_until_the_vm_was_restarted(azure_node: Node, azure: Azure) -> None:
    """The poller waits for the VM's approval and for the end of the event, and then ends at once."""
    azure_node.enable("me")
    poller = azure.compute().virtual_machines.begin_restart(GROUP, "me")
    (event,) = azure_node.events("me")
    assert (poller.status(), event["EventType"], event["EventSource"]) == ("InProgress", "Reboot", "User")
    assert azure_node.approve("me", event["EventId"]).status == 200
    assert poller.status() == "InProgress"
    azure_node.advance("10m")
    poller.wait()
    assert poller.status() == "Succeeded"
    assert azure_node.events("me") == []


def test_M06_vms_are_listed_and_shown(azure: Azure) -> None:
    """All VMs of the fleet but the instances of scale sets, with size, zone, set and power state."""
    vms = azure.compute().virtual_machines
    found = {vm.name: vm for vm in vms.list(GROUP)}
    assert len(found) == 12
    assert (found["db-0"].zones, found["render-0"].priority) == (["1"], "Spot")
    assert found["web-0"].availability_set.id.endswith("/availabilitySets/web")
    view = vms.instance_view(GROUP, "db-0")
    assert [status.code for status in view.statuses] == ["ProvisioningState/succeeded", "PowerState/running"]


def test_M05_what_nobody_is_told_of_is_done_at_once(azure: Azure) -> None:
    """F03: nobody listens, so there is no event and nothing to wait for."""
    poller = azure.compute().virtual_machines.begin_redeploy(GROUP, "db-1")
    poller.wait()
    assert poller.status() == "Succeeded"


def test_M05_a_cancelled_event_cancels_the_work_and_says_why(azure_node: Node, azure: Azure) -> None:
    """The poller ends as Canceled, with the reason that the operator gave."""
    azure_node.enable("db-0")
    poller = azure.compute().virtual_machines.begin_redeploy(GROUP, "db-0")
    azure_node.operate(f"/v1/events/{azure_node.event('db-0')['EventId']}/cancel", {"reason": "wrong VM"})
    with pytest.raises(HttpResponseError, match="wrong VM"):
        poller.result()
    assert poller.status() == "Canceled"


def test_M05_a_failed_impact_fails_the_work_and_says_why(azure_node: Node, azure: Azure) -> None:
    """The poller ends as Failed, with the reason that was reported."""
    azure_node.enable("db-0")
    poller = azure.compute().virtual_machines.begin_redeploy(GROUP, "db-0")
    event_id = azure_node.event("db-0")["EventId"]
    azure_node.operate(f"/v1/events/{event_id}/approve")
    azure_node.operate(f"/v1/events/{event_id}/report", {"failure": "no room on any host"})
    with pytest.raises(HttpResponseError, match="no room on any host"):
        poller.result()
    assert poller.status() == "Failed"


LARGE_SET = """
[site]
resource_group = "demo"
[[scale_sets]]
name = "large"
capacity = 1500
addresses = "127.5.0.0/16"
"""


def test_M05_work_on_very_many_instances_ends_with_the_last_of_them() -> None:
    """Their events are found in the journal in pieces; one that was cancelled counts wherever it stands."""
    with Node(LARGE_SET, azure_listen="127.0.0.1:0") as node, Azure(node) as azure:
        node.enable(*(f"large_{number}" for number in range(0, 1500, 100)))
        place = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}/providers/Microsoft.Compute"
        begun = azure.ask("POST", f"{place}/virtualMachineScaleSets/large/restart", b'{"instanceIds": ["*"]}')
        target = begun.headers["azure-asyncoperation"].removeprefix(azure.url)
        assert azure.get(target)["status"] == "InProgress"
        with node.client() as client:
            last = next(event for event in client.events() if "large_1499" in event.resources)
            client.cancel_event(last.id, "not this one")
        node.advance("16m")
        node.advance("10m")
        told = azure.get(target)
        assert (told["status"], told["error"]["message"]) == ("Canceled", "not this one")


@pytest.mark.parametrize("name", ["{seed}_1_1000000", "{seed}_0_9999999", "{seed}_999999999_9", "{seed}.x", "x" * 400])
def test_M05_a_name_that_somebody_made_up_is_no_operation(azure: Azure, name: str) -> None:
    """However much of the journal it asks for: a 404."""
    target = f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Compute/locations/x/operations"
    answer = azure.ask("GET", f"{target}/{name.format(seed=SUBSCRIPTION)}")
    assert (answer.status, answer.json()["error"]["code"]) == (404, "OperationNotFound")


def test_M06_a_spot_vm_is_evicted(azure_node: Node, azure: Azure) -> None:
    """G04: simulateEviction answers 204 and raises Preempt; a VM that is not spot is refused."""
    azure_node.enable("render-0")
    vms = azure.compute().virtual_machines
    assert vms.simulate_eviction(GROUP, "render-0") is None
    assert azure_node.event("render-0")["EventType"] == "Preempt"
    with pytest.raises(HttpResponseError, match="OperationNotAllowed"):
        vms.simulate_eviction(GROUP, "web-0")


def test_M06_the_owner_of_a_vm_has_its_maintenance_now(azure_node: Node, azure: Azure) -> None:
    """instanceView says that there is maintenance, performMaintenance approves it, and ends with it."""
    azure_node.enable("web-1")
    azure_node.schedule("Redeploy", "web-1")
    vms = azure.compute().virtual_machines
    planned = vms.instance_view(GROUP, "web-1").maintenance_redeploy_status
    assert planned.is_customer_initiated_maintenance_allowed
    poller = vms.begin_perform_maintenance(GROUP, "web-1")
    assert azure_node.statuses("web-1") == ["Started"]
    assert not vms.get(GROUP, "web-1", expand="instanceView").instance_view.maintenance_redeploy_status[
        "isCustomerInitiatedMaintenanceAllowed"
    ]
    azure_node.advance("10m")
    assert poller.result() is None
    with pytest.raises(ResourceExistsError, match="Nothing waits"):
        vms.begin_perform_maintenance(GROUP, "web-1")


def test_M06_a_deleted_vm_is_gone() -> None:
    """A VM for which no notice was asked goes at once; to delete it again is fine."""
    with Node(DEMO, azure_listen="127.0.0.1:0") as node, Azure(node) as azure:
        vms = azure.compute().virtual_machines
        vms.begin_delete(GROUP, "web-3").wait()
        with pytest.raises(ResourceNotFoundError):
            vms.get(GROUP, "web-3")
        vms.begin_delete(GROUP, "web-3").wait()


def test_M07_scale_sets_are_listed_scaled_and_told(azure_node: Node, azure: Azure) -> None:
    """Terminate notification is read and set; a scale-in goes on until the instances that were told are gone."""
    sets = azure.compute().virtual_machine_scale_sets
    assert {found.name: found.sku.capacity for found in sets.list(GROUP)} == {"batch": 250, "workers": 10}
    change = {"terminateNotificationProfile": {"enable": True, "notBeforeTimeout": "PT7M"}}
    body = {"properties": {"virtualMachineProfile": {"scheduledEventsProfile": change}}}
    told = sets.begin_update(GROUP, "workers", body).result().virtual_machine_profile.scheduled_events_profile
    assert told.terminate_notification_profile.not_before_timeout == "PT7M"
    azure_node.enable("workers_0")
    poller = sets.begin_update(GROUP, "workers", {"sku": {"capacity": 8}})
    going = [event["Resources"][0] for event in azure_node.events("workers_0")]
    assert (len(going), poller.status()) == (2, "InProgress")
    azure_node.advance("8m")
    assert poller.result().sku.capacity == 8
    left = {vm.name for vm in azure.compute().virtual_machine_scale_set_vms.list(GROUP, "workers")}
    assert len(left) == 8
    assert not left & set(going)


def test_M07_chosen_instances_are_restarted_deleted_and_evicted(azure_node: Node, azure: Azure) -> None:
    """Each instance that is named is told; the work ends when all are over."""
    sets, instances = azure.compute().virtual_machine_scale_sets, azure.compute().virtual_machine_scale_set_vms
    azure_node.enable("batch_0", "batch_100")
    poller = sets.begin_restart(GROUP, "batch", {"instanceIds": [str(number) for number in range(95, 105)]})
    assert (len(azure_node.events("batch_0")), len(azure_node.events("batch_100"))) == (5, 5)
    azure_node.advance("16m")
    azure_node.advance("10m")
    assert poller.result() is None
    assert instances.get_instance_view(GROUP, "batch", "3").platform_update_domain == 3
    assert instances.simulate_eviction(GROUP, "batch", "7") is None
    assert azure_node.event("batch_0")["Resources"] == ["batch_7"]
    with pytest.raises(ResourceNotFoundError):
        sets.begin_restart(GROUP, "batch", {"instanceIds": ["1", "999"]})
    assert len(azure_node.events("batch_0")) == 1


OS_IMAGES = {
    "properties": {
        "virtualMachineProfile": {
            "scheduledEventsProfile": {"osImageNotificationProfile": {"enable": True, "notBeforeTimeout": "PT15M"}}
        }
    }
}


@pytest.fixture
def told() -> Iterator[tuple[Node, Azure, Any]]:
    """A node whose scale set `workers` is told before its OS image is replaced; its clients, and its scale sets."""
    with Node(DEMO, azure_listen="127.0.0.1:0") as node, Azure(node) as azure:
        sets = azure.compute().virtual_machine_scale_sets
        sets.begin_update(GROUP, "workers", OS_IMAGES).result()
        node.enable("workers_0", "me")
        yield node, azure, sets


def test_M15_the_notification_of_os_images_is_read_and_set(told: tuple[Node, Azure, Any]) -> None:
    """It is kept beside the other one, shown by all doors, and turned off again."""
    node, _, sets = told

    def shown() -> Any:
        profile = sets.get(GROUP, "workers").virtual_machine_profile.scheduled_events_profile
        return profile.os_image_notification_profile.as_dict(), profile.terminate_notification_profile.enable

    assert shown() == ({"enable": True, "notBeforeTimeout": "PT15M"}, True)
    assert node.operate("/v1/groups/scale-set/workers", method="GET")["os_image_notice"] is True
    off = json.loads(json.dumps(OS_IMAGES).replace("true", "false"))
    sets.begin_update(GROUP, "workers", off).result()
    assert shown() == ({"enable": False, "notBeforeTimeout": "PT15M"}, True)


def test_M15_a_reimage_is_told_fifteen_minutes_before(told: tuple[Node, Azure, Any]) -> None:
    """A Reboot of its user; the work ends with it. Without the notification it is done at once, as for VM me."""
    node, azure, sets = told
    poller = sets.begin_reimage(GROUP, "workers", {"instanceIds": ["0"]})
    (event,) = node.events("workers_0")
    assert (event["EventType"], event["EventSource"], event["Resources"]) == ("Reboot", "User", ["workers_0"])
    assert event["Description"] == "Virtual machine is going to be reimaged as requested by authorized user."
    notice = parsedate_to_datetime(event["NotBefore"]) - node.now()
    assert timedelta(minutes=15) <= notice < timedelta(minutes=15, seconds=3)
    assert poller.status() == "InProgress"
    node.advance("16m")
    node.advance("10m")
    poller.wait()
    azure.compute().virtual_machine_scale_set_vms.begin_reimage(GROUP, "workers", "1")
    assert node.statuses("workers_0") == ["Scheduled"]
    at_once = azure.compute().virtual_machines.begin_reimage(GROUP, "me")
    at_once.wait()
    assert (at_once.status(), node.events("me")) == ("Succeeded", [])


def test_M15_an_os_upgrade_goes_one_update_domain_after_the_other(told: tuple[Node, Azure, Any]) -> None:
    """Each is told before; the work is in progress until all are upgraded."""
    node, azure, _ = told
    rolling = azure.compute().virtual_machine_scale_set_rolling_upgrades
    poller = rolling.begin_start_os_upgrade(GROUP, "workers")
    first = {name for event in node.events("workers_0") for name in event["Resources"]}
    assert first == {"workers_0", "workers_5"}
    assert {event["EventType"] for event in node.events("workers_0")} == {"Reboot"}
    for _ in range(5):
        assert poller.status() == "InProgress"
        node.advance("16m")
        node.advance("11m")
    poller.wait()
    assert (poller.status(), node.events("workers_0")) == ("Succeeded", [])


def test_M15_an_os_upgrade_that_is_cancelled_says_so(told: tuple[Node, Azure, Any]) -> None:
    """The operator cancels the maintenance that it is."""
    node, azure, _ = told
    poller = azure.compute().virtual_machine_scale_set_rolling_upgrades.begin_start_os_upgrade(GROUP, "workers")
    (plan,) = node.operate("/v1/maintenances", method="GET")
    assert (plan["title"], plan["author"]) == ("OS upgrade of workers", "token/admin")
    node.operate(f"/v1/maintenances/{plan['id']}/cancel")
    with pytest.raises(HttpResponseError, match="The maintenance is cancelled"):
        poller.result()


def test_M16_az_may_write_back_all_that_it_has_read(azure_node: Node, azure: Azure) -> None:
    """It reads, changes one thing and writes the whole: what is as it was changes nothing, not even the journal."""
    place = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}/providers/Microsoft.Compute"
    for path in ("virtualMachines/web-4", "availabilitySets/web", "virtualMachineScaleSets/batch"):
        whole = azure.get(f"{place}/{path}?api-version=2026-04-01")
        before = azure_node.service.state.position
        answer = azure.ask("PUT", f"{place}/{path}?api-version=2026-04-01", json.dumps(whole).encode())
        assert (answer.status, azure_node.service.state.position) == (200, before), answer


def test_M08_availability_sets_are_shown_with_their_vms(azure: Azure) -> None:
    """By name, with their domains."""
    (listed,) = azure.compute().availability_sets.list(GROUP)
    found = azure.compute().availability_sets.get(GROUP, "WEB")
    assert [vm.id.rpartition("/")[2] for vm in found.virtual_machines] == [f"web-{number}" for number in range(5)]
    assert (listed.name, found.platform_update_domain_count) == ("web", 5)


@pytest.mark.parametrize(("kind", "name"), [("virtualMachines", "web-2"), ("availabilitySets", "web")])
def test_M10_an_event_is_acknowledged_through_its_vm_or_its_set(
    azure_node: Node, azure: Azure, kind: str, name: str
) -> None:
    """C05: it starts. Through another VM it is as unknown as to that VM (C03)."""
    azure_node.enable("web-2")
    event = azure_node.schedule("Reboot", "web-2")
    events = azure.client(MaintenanceManagementClient, SUBSCRIPTION).scheduled_events
    with pytest.raises(ResourceNotFoundError):
        events.acknowledge(GROUP, "virtualMachines", "me", event.lower())
    assert events.acknowledge(GROUP, kind, name, event.lower()).value == "Successfully Approved"
    assert azure_node.statuses("web-2") == ["Started"]
    assert events.acknowledge(GROUP, kind, name, event).value == "Successfully Approved"
    azure_node.advance("10m")


VERSIONS = ("2023-10-01-preview", "2025-10-01-preview", "2025-11-01")


@pytest.mark.parametrize("version", VERSIONS)
def test_M10_each_event_of_a_list_is_acknowledged_by_itself(azure_node: Node, azure: Azure, version: str) -> None:
    """One that is unknown does not stand in the way of the others: 207, and what became of each in the order asked."""
    azure_node.enable("web-4")
    event = azure_node.schedule("Freeze", "web-4").lower()
    place = f"/subscriptions/{SUBSCRIPTION}/resourcegroups/{GROUP}/providers/Microsoft.Compute/{{}}"
    target = f"{place}/providers/Microsoft.Maintenance/scheduledevents?api-version={version}"
    body = json.dumps({"value": [SUBSCRIPTION, event, "odd"]}).encode()
    partly = azure.ask("POST", target.format("virtualMachines/web-4"), body)
    told = partly.json()
    assert (partly.status, told["response"]["code"]) == (207, "MultiStatusResponse")
    assert [(each["code"], each["target"]) for each in told["details"]] == [
        ("NotFound", SUBSCRIPTION),
        ("OK", event),
        ("NotFound", "odd"),
    ]
    assert azure_node.statuses("web-4") == ["Started"]
    again = azure.ask("POST", target.format("availabilitySets/web"), json.dumps({"value": [event]}).encode())
    assert (again.status, again.json()) == (200, {"value": "Successfully Approved"})
    azure_node.advance("10m")


def test_M10_a_list_names_no_event_of_others(azure_node: Node, azure: Azure) -> None:
    """S16: the event of another VM is as unknown as one that never was, and it still waits."""
    azure_node.enable("db-0")
    event = azure_node.schedule("Freeze", "db-0")
    place = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}/providers/Microsoft.Compute/virtualMachines/web-4"
    body = json.dumps({"value": [event, SUBSCRIPTION.replace("0", "3")]}).encode()
    answer = azure.ask("POST", f"{place}/providers/Microsoft.Maintenance/scheduledevents", body)
    first, second = (each | {"target": ""} for each in answer.json()["details"])
    assert (answer.status, first) == (207, second)
    assert azure_node.statuses("db-0") == ["Scheduled"]
    azure_node.operate(f"/v1/events/{event}/cancel")


def test_M11_what_is_pending_for_a_vm_is_listed_and_applied(azure_node: Node, azure: Azure) -> None:
    """Pending, then InProgress once it was approved, then nothing."""
    azure_node.enable("FrontEnd_IN_1")
    azure_node.schedule("Freeze", "FrontEnd_IN_1", duration=9)
    maintenance, vm = azure.client(MaintenanceManagementClient, SUBSCRIPTION), ("virtualMachines", "FrontEnd_IN_1")
    (update,) = maintenance.updates.list(GROUP, "Microsoft.Compute", *vm)
    assert (update.status, update.impact_type, update.impact_duration_in_sec) == ("Pending", "Freeze", 9)
    applied = maintenance.apply_updates.create_or_update(GROUP, "Microsoft.Compute", *vm)
    assert applied.properties.status == "InProgress"
    azure_node.advance("10m")
    assert list(maintenance.updates.list(GROUP, "Microsoft.Compute", *vm)) == []


def test_M03_the_profile_says_what_clients_need_and_is_tried(azure_node: Node, azure: Azure) -> None:
    """-o json has every value, --check signs in and lists VMs."""
    done = duenotice(azure_node, "azure", "profile", "--check", "-o", "json")
    told = json.loads(done.out)
    assert told["resource_manager"] == told["authority"] == azure.url
    assert (told["subscription_id"], told["resource_group"], told["ca_file"]) == (SUBSCRIPTION, GROUP, azure.ca)
    assert [line.split()[0] for line in done.err.splitlines()] == ["ok", "ok", "ok"]


@pytest.mark.parametrize("shell", ["bash", "powershell", "python"])
def test_M03_the_profile_is_printed_for_every_shell_without_the_secret(azure_node: Node, shell: str) -> None:
    """It names the file of the token, and not the token."""
    said = duenotice(azure_node, "azure", "profile", shell).out
    assert "disable_instance_discovery=True" in said or "AZURE_CORE_INSTANCE_DISCOVERY" in said
    assert azure_node.token not in said


def test_M03_the_profile_for_python_runs(azure_node: Node) -> None:
    """As it is printed, it makes a client that works."""
    said = duenotice(azure_node, "azure", "profile", "python").out
    program = f"{said}\nprint([vm.name for vm in compute.virtual_machines.list_all()][-1])"
    environment = {**os.environ, "DUENOTICE_TOKEN": azure_node.token}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == "web-4\n"


def test_M03_az_finds_what_it_asks_for_first(azure: Azure) -> None:
    """Endpoints without a token; subscriptions and tenants with one."""
    assert azure.get("/metadata/endpoints?api-version=2022-09-01", signed_in=False)["resourceManager"] == azure.url
    (subscription,) = azure.get("/subscriptions?api-version=2016-06-01")["value"]
    (tenant,) = azure.get("/tenants?api-version=2016-06-01")["value"]
    assert (subscription["subscriptionId"], subscription["tenantId"]) == (SUBSCRIPTION, tenant["tenantId"])


def test_M01_a_certificate_that_was_brought_is_shown_and_so_is_the_next_one(tmp_path: Path) -> None:
    """A new file counts for new connections, without a restart; one that is not valid does not."""
    brought = certificates.own(tmp_path, ["127.0.0.1"])
    settings = {"azure_cert_file": str(brought.certificate), "azure_key_file": str(brought.key)}
    with Node(DEMO, azure_listen="127.0.0.1:0", **settings) as node:
        assert node.service.azure is not None
        shown = list[bytes]()
        for change in (lambda: None, lambda: certificates.own(tmp_path, ["127.0.0.1", "other"]), lambda: None):
            change()
            node.run(node.service.reread())
            with socket.create_connection(node.service.azure.address) as line:
                tls = ssl.create_default_context(cafile=str(brought.ca)).wrap_socket(line, server_hostname="127.0.0.1")
                shown.append(tls.getpeercert(binary_form=True) or b"")
                tls.close()
            if len(shown) == 2:
                brought.certificate.write_text("not a certificate")
    assert shown[0] != shown[1] == shown[2]


def test_M02_what_was_done_is_in_the_audit_trail_with_its_actor(azure_node: Node) -> None:
    """By the name of the token that signed in."""
    made = azure_node.operate("/v1/tokens", {"name": "deployer", "role": "operator"})
    with Azure(azure_node, made["token"]) as azure:
        azure.compute().virtual_machines.begin_redeploy(GROUP, "db-1").wait()
    with azure_node.client() as client:
        record, *_ = client.audit(actor="token/deployer")
    assert (record.action, record.details.vm) == ("operation-performed", "db-1")


def test_M04_lists_come_in_pages(azure: Azure, monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK follows each next link, and finds every VM once."""
    monkeypatch.setattr(shape, "PAGE_ROWS", 5)
    whole = [vm.name for vm in azure.compute().virtual_machines.list(GROUP)]
    assert (len(whole), whole) == (len(set(whole)), sorted(whole))
    first = azure.get(f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Compute/virtualMachines?api-version=1")
    assert ([vm["name"] for vm in first["value"]], "nextLink" in first) == (whole[:5], True)
    assert len(list(azure.compute().virtual_machine_scale_set_vms.list(GROUP, "batch"))) > 200


def test_M05_a_request_that_comes_again_is_the_same_work(azure_node: Node, azure: Azure) -> None:
    """A client that got no answer sends the same id: while the work is under way nothing is done twice."""
    azure_node.enable("web-0")
    target = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}/providers/Microsoft.Compute/virtualMachines/web-0"
    first, again = (azure.ask("POST", f"{target}/restart", x_ms_client_request_id="once") for _ in range(2))
    assert first.headers["azure-asyncoperation"] == again.headers["azure-asyncoperation"]
    assert azure.ask("POST", f"{target}/restart", x_ms_client_request_id="other").status == 409
    (event,) = azure_node.events("web-0")
    azure_node.approve("web-0", event["EventId"])
    azure_node.advance("10m")
    later = azure.ask("POST", f"{target}/restart", x_ms_client_request_id="once")
    assert later.status == 202
    assert later.headers["azure-asyncoperation"] != first.headers["azure-asyncoperation"]
