"""Bad input at the Azure door: Azure's error shape, nothing changed, nothing lost."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from duenotice.azure_api.app import AzureApi
from duenotice.azure_api.sign_in import TENANT, issue, seconds_since_1970
from duenotice.bounds import LARGE_BYTES
from duenotice.domain.token import Role
from tests.acceptance.conftest import DEMO
from tests.support.azure import GROUP, SUBSCRIPTION, Azure
from tests.support.node import Node
from tests.support.ports import free_port
from tests.support.served import Served

COMPUTE = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}/providers/Microsoft.Compute"
ME = f"{COMPUTE}/virtualMachines/me"
WORKERS = f"{COMPUTE}/virtualMachineScaleSets/workers"
ELSEWHERE = ME.replace(SUBSCRIPTION, "11111111-1111-1111-1111-111111111111")
OPERATIONS = f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Compute/locations/x/operations"
MAINTENANCE = "providers/Microsoft.Maintenance"
GRAPH = "/providers/Microsoft.ResourceGraph/resources"


@pytest.fixture(scope="module")
def azure_node() -> Iterator[Node]:
    """One node for all: nothing here may change anything."""
    with Node(DEMO, azure_listen="127.0.0.1:0") as running:
        running.enable("me", "workers_0")
        yield running


@pytest.fixture(scope="module")
def azure(azure_node: Node) -> Iterator[Azure]:
    """The clients of an admin."""
    with Azure(azure_node) as clients:
        yield clients


def termination(value: Any) -> bytes:
    profile = {"scheduledEventsProfile": {"terminateNotificationProfile": value}}
    return json.dumps({"properties": {"virtualMachineProfile": profile}, "sku": {"capacity": 9}}).encode()


def os_images(value: Any) -> bytes:
    profile = {"scheduledEventsProfile": {"osImageNotificationProfile": value}}
    return json.dumps({"properties": {"virtualMachineProfile": profile}}).encode()


BAD: list[tuple[str, str, bytes | None, int, str]] = [
    ("POST", f"{ELSEWHERE}/restart", None, 404, "SubscriptionNotFound"),
    ("POST", f"{ME.replace(GROUP, 'other')}/restart", None, 404, "ResourceGroupNotFound"),
    ("POST", f"{COMPUTE}/virtualMachines/nobody/restart", None, 404, "ResourceNotFound"),
    ("POST", f"{COMPUTE}/virtualMachines/workers_0/restart", None, 404, "ResourceNotFound"),
    ("POST", f"{ME}/simulateEviction", None, 409, "OperationNotAllowed"),
    ("POST", f"{ME}/performMaintenance", None, 409, "Conflict"),
    ("POST", f"{ME}/deallocate", None, 404, "NotFound"),
    ("PATCH", ME.removesuffix("/me"), b"{}", 405, "MethodNotAllowed"),
    ("GET", "/nothing/here", None, 404, "NotFound"),
    ("POST", f"{WORKERS}/restart", b"{", 400, "InvalidRequestContent"),
    ("POST", f"{WORKERS}/restart", b"\xff", 400, "InvalidRequestContent"),
    ("POST", f"{WORKERS}/restart", b'{"instanceIds": "0"}', 400, "InvalidParameter"),
    ("POST", f"{WORKERS}/restart", b'{"instanceIds": ["0", "0"]}', 409, "OperationNotAllowed"),
    ("POST", f"{WORKERS}/delete", b"{}", 400, "InvalidParameter"),
    ("POST", f"{WORKERS}/delete", b" " * 1_100_000, 413, "RequestTooLarge"),
    ("PATCH", WORKERS, b'{"sku": {"capacity": "many"}}', 400, "InvalidParameter"),
    ("PATCH", WORKERS, b'{"sku": {"capacity": -1}}', 409, "OperationNotAllowed"),
    ("PATCH", WORKERS, b'{"sku": {"capacity": 1000}}', 409, "OperationNotAllowed"),
    ("PATCH", WORKERS, termination({"enable": True, "notBeforeTimeout": "PT4M59S"}), 409, "OperationNotAllowed"),
    ("PATCH", WORKERS, termination({"enable": True, "notBeforeTimeout": "PT15M1S"}), 409, "OperationNotAllowed"),
    ("PATCH", WORKERS, termination({"enable": True, "notBeforeTimeout": "PT0S"}), 409, "OperationNotAllowed"),
    ("PATCH", WORKERS, termination({"enable": True, "notBeforeTimeout": "soon"}), 400, "InvalidParameter"),
    ("PATCH", WORKERS, termination({"enable": "yes"}), 400, "InvalidParameter"),
    ("PATCH", ME, b'{"tags": {"a": "b"}}', 400, "InvalidParameter"),
    ("PATCH", ME, b'{"location": "mars"}', 400, "InvalidParameter"),
    ("PUT", ME, b'{"properties": {"hardwareProfile": {"vmSize": "Standard_L8s"}}}', 400, "InvalidParameter"),
    ("PATCH", ME, b'{"properties": {"scheduledEventsProfile": {}, "x": 1}}', 400, "InvalidParameter"),
    ("PATCH", ME, b'{"properties": {"scheduledEventsPolicy": {"userInitiatedReboots": {}}}}', 400, "InvalidParameter"),
    ("PATCH", ME, b"[]", 400, "InvalidParameter"),
    ("DELETE", f"{ME}?forceDeletion=true&x=1", None, 400, "InvalidParameter"),
    ("DELETE", f"{WORKERS}/virtualMachines/0?forceDeletion=true&x=1", None, 400, "InvalidParameter"),
    ("POST", f"{ME}/reimage", b'{"tempDisk": true}', 400, "InvalidParameter"),
    ("POST", f"{WORKERS}/reimage", b'{"instanceIds": ["0"], "exactVersion": "1.2"}', 400, "InvalidParameter"),
    ("POST", f"{WORKERS}/reimage", b'{"instanceIds": ["0"], "osState": 1}', 400, "InvalidParameter"),
    ("POST", f"{WORKERS}/osRollingUpgrade", b'{"instanceIds": ["0"]}', 400, "InvalidParameter"),
    ("POST", f"{WORKERS}/restart", b'{"instanceIds": ["0"], "force": true}', 400, "InvalidParameter"),
    ("PATCH", WORKERS, b'{"sku": {"name": "Standard_L8s", "capacity": 9}}', 400, "InvalidParameter"),
    ("PATCH", WORKERS, b'{"properties": {"upgradePolicy": {"mode": "Rolling"}}}', 400, "InvalidParameter"),
    ("PATCH", WORKERS, os_images({"enable": True, "notBeforeTimeout": "PT5M"}), 400, "InvalidParameter"),
    ("PATCH", WORKERS, os_images({"enable": "yes"}), 400, "InvalidParameter"),
    ("PATCH", WORKERS, os_images({"enable": True, "later": 1}), 400, "InvalidParameter"),
    (
        "PUT",
        f"{ME}/{MAINTENANCE}/applyUpdates/default",
        b'{"properties": {"status": "Cancel"}}',
        400,
        "InvalidParameter",
    ),
    ("POST", GRAPH, b'{"query": "maintenanceresources", "facets": [{"expression": "x"}]}', 400, "InvalidParameter"),
    ("POST", GRAPH, b'{"query": "maintenanceresources", "managementGroups": ["x"]}', 400, "InvalidParameter"),
    ("POST", GRAPH, b'{"query": "maintenanceresources", "options": {"$topp": 3}}', 400, "InvalidParameter"),
    ("POST", f"{ME}/{MAINTENANCE}/scheduledevents/{SUBSCRIPTION}/acknowledge", None, 404, "ResourceNotFound"),
    ("POST", f"{ME}/{MAINTENANCE}/scheduledevents", b'{"value": []}', 400, "InvalidParameter"),
    ("POST", f"{ME}/{MAINTENANCE}/scheduledevents", b"{}", 400, "InvalidParameter"),
    ("POST", f"{ME}/{MAINTENANCE}/scheduledevents", b'{"value": [7]}', 400, "InvalidParameter"),
    ("POST", f"{ME}/{MAINTENANCE}/scheduledevents", b'{"value": ["x"], "force": true}', 400, "InvalidParameter"),
    (
        "POST",
        f"{ME}/{MAINTENANCE}/scheduledevents",
        b'{"value": [%b]}' % b",".join([b'"x"'] * 1001),
        400,
        "InvalidParameter",
    ),
    ("PUT", f"{ME}/{MAINTENANCE}/applyUpdates/other", None, 404, "NotFound"),
    ("GET", f"{OPERATIONS}/at_999999999", None, 404, "OperationNotFound"),
    ("GET", f"{OPERATIONS}/{TENANT}", None, 404, "OperationNotFound"),
]


@pytest.mark.parametrize(("method", "target", "body", "status", "code"), BAD)
def test_M04_what_cannot_be_done_is_told_in_azures_shape_and_changes_nothing(
    azure_node: Node, azure: Azure, method: str, target: str, body: bytes | None, status: int, code: str
) -> None:
    """A code that programs know, words for people, and ids to find it again."""
    before = azure_node.service.state.position
    answer = azure.ask(
        method, f"{target}{'&' if '?' in target else '?'}api-version=2026-04-01", body, x_ms_client_request_id="mine"
    )
    error = answer.json()["error"]
    assert (answer.status, error["code"], set(error)) == (status, code, {"code", "message", "target", "details"})
    assert len(error["message"]) > 10
    assert (answer.headers["x-ms-client-request-id"], len(answer.headers["x-ms-request-id"])) == ("mine", 36)
    assert azure_node.service.state.position == before


@pytest.mark.parametrize("kind", ["none", "foreign", "expired", "operator"])
def test_M02_a_token_that_does_not_count_is_refused(azure_node: Node, azure: Azure, kind: str) -> None:
    """None, one that others signed, one that has ended, and an operator's token that is used without signing in."""
    (admin,) = azure_node.service.state.tokens.values()
    assert azure_node.service.azure is not None
    (key,) = azure_node.service.azure.keys.ring.keys
    tokens = {
        "none": "",
        "foreign": "Bearer eyJhbGciOiJIUzI1NiJ9.e30.c2lnbmF0dXJl",
        "expired": f"Bearer {issue(key, admin, TENANT, '', '', seconds_since_1970() - 3601)}",
        "operator": f"Bearer {azure_node.token}",
    }
    answer = azure.ask("POST", f"{ME}/restart", signed_in=False, Authorization=tokens[kind])
    assert (answer.status, answer.json()["error"]["code"]) == (401, "AuthenticationFailed")
    assert azure_node.events("me") == []


@pytest.mark.parametrize(
    ("form", "error"),
    [
        (b"grant_type=client_credentials&client_secret=wrong", "invalid_client"),
        (b"grant_type=password&username=a", "unsupported_grant_type"),
        (b"\xff\xfe", "unsupported_grant_type"),
        (b"&".join(b"f%d=" % n for n in range(20)), "unsupported_grant_type"),
        (b"&".join(b"f%d=" % n for n in range(21)), "invalid_request"),
        (b"&" * 16_000, "invalid_request"),
    ],
)
def test_M02_a_wrong_secret_gets_no_access_token(azure: Azure, form: bytes, error: str) -> None:
    """The answer is OAuth's, which identity libraries read."""
    answer = azure.ask("POST", f"/{TENANT}/oauth2/v2.0/token", form, signed_in=False)
    assert (answer.status in (400, 401), answer.json()["error"]) == (True, error)


def test_a_scope_that_each_request_would_carry_is_bounded(azure: Azure) -> None:
    """It stands in the access token; so does the tenant."""
    form = f"grant_type=client_credentials&client_secret={azure.token}&scope="
    for tenant, scope in ((TENANT, "a" * 401), ("t" * 401, "a")):
        answer = azure.ask("POST", f"/{tenant}/oauth2/v2.0/token", f"{form}{scope}".encode(), signed_in=False)
        assert (answer.status, answer.json()["error"]) == (400, "invalid_scope")
    assert azure.ask("POST", f"/{TENANT}/oauth2/token", f"{form}{'a' * 400}".encode(), signed_in=False).status == 200


def test_every_call_looks_at_rights_and_size_before_anything_is_read(azure_node: Node, azure: Azure) -> None:
    """A body of a terabyte is announced and none of it sent: each is answered, by the first that is wrong with it."""
    assert azure_node.service.azure is not None
    api = AzureApi(azure_node.service.engine, azure_node.service.azure.keys)
    made = azure_node.operate("/v1/tokens", {"name": "looker", "role": "viewer"})
    with Azure(azure_node, made["token"]) as viewer:
        for call in api.calls:
            target = call.path.format_map(_Filled(subscription=SUBSCRIPTION, group=GROUP, tenant=TENANT))
            announced = {"Content_Length": str(10**12)}
            seen = [
                one.ask(call.method, target, None, signed_in, **announced).status
                for one, signed_in in ((azure, False), (viewer, True), (azure, True))
            ]
            wanted = {None: [413, 413, 413], Role.VIEWER: [401, 413, 413], Role.OPERATOR: [401, 403, 413]}
            assert seen == wanted[call.role], call
            assert 0 < call.bounds.body <= LARGE_BYTES
    api.close()


class _Filled(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return "x"


def test_a_vm_that_is_too_large_for_its_answer_is_told(tmp_path: Path) -> None:
    """Its place in the list has it; an answer about one VM has 64 kB."""
    tags = f'[[vms]]\nname = "big"\naddress = "127.0.1.1"\ntags = {{ a = "{"x" * 66_000}" }}\n'
    with Node(f'[site]\nresource_group = "{GROUP}"\n{tags}', azure_listen="127.0.0.1:0") as node, Azure(node) as azure:
        answer = azure.ask("GET", f"{COMPUTE}/virtualMachines/big")
        assert (answer.status, answer.json()["error"]["code"]) == (400, "ResponsePayloadTooLarge")
        assert len(azure.get(f"{COMPUTE}/virtualMachines")["value"][0]["tags"]["a"]) == 66_000


def test_of_two_fields_of_one_name_the_first_counts(azure: Azure) -> None:
    """As most servers have it."""
    form = f"grant_type=client_credentials&client_secret={azure.token}&client_secret=wrong&grant_type=password"
    assert azure.ask("POST", f"/{TENANT}/oauth2/v2.0/token", form.encode(), signed_in=False).status == 200


@pytest.mark.parametrize(
    ("target", "headers"),
    [
        (f"/{'p' * 4096}", {}),
        (f"/metadata/endpoints?{'q' * 4097}", {}),
        ("/metadata/endpoints", {"Host": "h" * 257}),
        (ME, {"x_ms_client_request_id": "i" * 257}),
        (ME, {"x_ms_correlation_request_id": "i" * 257}),
    ],
)
def test_what_is_longer_than_any_client_sends_is_refused_unread(
    azure: Azure, target: str, headers: dict[str, Any]
) -> None:
    """Without a token already: a host would be said again twenty times."""
    answer = azure.ask("GET", target, signed_in=False, **headers)
    assert (answer.status, answer.json()["error"]["code"]) == (400, "InvalidRequest")
    assert len(answer.body) < 300


def test_who_has_no_right_is_refused_before_a_body_is_looked_at(azure: Azure) -> None:
    """However long it says it is, and whatever place it names; who has the right is told that it is too large."""
    for signed_in, status in ((False, 401), (True, 413)):
        assert azure.ask("POST", f"{WORKERS}/delete", b" " * 65_537, signed_in).status == status
    assert azure.ask("POST", f"{WORKERS}/delete", b" " * 65_536).status == 400


def test_M05_an_operation_is_answered_after_kill_9_as_before(tmp_path: Path) -> None:
    """By its old URL and with the old access token: of one event, of many, and of what was done at once."""
    flags: dict[str, Any] = {"azure_listen": f"127.0.0.1:{free_port()}"}
    with Served(tmp_path, DEMO, **flags) as node:
        azure = Azure.at(f"https://{flags['azure_listen']}", str(tmp_path / "azure-ca.pem"), node.token)
        azure.signed_in_as = azure.access()
        node.enable("me", "workers_0")
        posted = [
            azure.ask("POST", f"{ME}/restart"),
            azure.ask("POST", f"{WORKERS}/delete", b'{"instanceIds": ["*"]}'),
            azure.ask("POST", f"{COMPUTE}/virtualMachines/db-0/redeploy"),
        ]
        urls = [answer.headers["azure-asyncoperation"].partition(flags["azure_listen"])[2] for answer in posted]
        before = [azure.ask("GET", url).json() for url in urls]
        node.server.kill()
    with Served(tmp_path, DEMO, **flags) as node, azure:
        assert [azure.ask("GET", url).json() for url in urls] == before
        node.advance("16m")
        node.advance("10m")
        after = [azure.ask("GET", url).json()["status"] for url in urls]
    assert [operation["status"] for operation in before] == ["InProgress", "InProgress", "Succeeded"]
    assert after == ["Succeeded"] * 3
