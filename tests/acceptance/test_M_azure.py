"""Section M: the real Azure SDKs and `az` drive the service, unchanged."""

import ssl
import stat
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError, ResourceNotFoundError

from tests.acceptance.conftest import DEMO
from tests.support.azure import GROUP, Azure
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
    azure_node.enable("db-1")
    with Azure(azure_node, made["token"]) as azure, pytest.raises(HttpResponseError, match="AuthorizationFailed"):
        azure.compute().virtual_machines.begin_restart(GROUP, "db-1")
    assert azure_node.events("db-1") == []


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
