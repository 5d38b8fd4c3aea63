"""What real clients send.

Their requests as bytes, unchanged, and the clients themselves where they are at hand.
"""

import json
import subprocess
import urllib.request
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.programs import require_program
from tests.support.node import Answer, Line, Node, events_at, start_requests, wire

# Never the real address: if a client ignored its proxy, the request would reach the metadata service of the
# machine that runs the tests. This name leads nowhere.
ELSEWHERE = "http://metadata.invalid"


def base(node: Node) -> str:
    """Where VMs ask."""
    return "http://{}:{}".format(*node.metadata_address)


def restarted(node: Node, vm: str = "me") -> str:
    """The id of an event that waits for an approval."""
    node.enable(vm)
    return str(node.operate(f"/v1/vms/{vm}/restart")[0]["id"])


def curl(*arguments: str) -> str:
    """What curl prints; it fails on an HTTP error."""
    program = require_program("curl", "curl")
    command = [program, "--silent", "--show-error", "--fail", "--noproxy", "", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stdout


# curl, as in the documents


def test_curl_asks_and_approves(node: Node):
    """The curl lines of the documents work: a GET with the header, a POST that calls its body a form."""
    event_id = restarted(node, "web-0")
    url = base(node) + events_at("2019-08-01")
    asked = json.loads(curl("--interface", "127.0.2.2", "-H", "Metadata:true", url))
    assert [event["EventId"] for event in asked["Events"]] == [event_id]
    body = json.dumps({"StartRequests": [{"EventId": event_id}]})
    assert curl("--interface", "127.0.2.1", "-H", "Metadata:true", "-X", "POST", "-d", body, url) == ""
    assert node.statuses("web-0") == ["Started"]


def test_curl_with_the_body_of_the_preview(node: Node):
    """The preview's curl line, with DocumentIncarnation as a text, works."""
    event_id = restarted(node)
    body = f'{{"DocumentIncarnation":"5", "StartRequests": [{{"EventId": "{event_id}"}}]}}'
    assert curl("-H", "Metadata:true", "-X", "POST", "-d", body, base(node) + events_at("2017-03-01")) == ""
    assert node.statuses("me") == ["Started"]


def test_curl_through_a_proxy_setting(node: Node):
    """A curl that takes us for its proxy sends the whole URL and gets its document."""
    restarted(node)
    document = json.loads(curl("--proxy", base(node), "-H", "Metadata:true", ELSEWHERE + events_at()))
    assert document == node.document("me")


@pytest.mark.parametrize("more", [("--http1.0",), ("--http1.1", "-H", "Expect: 100-continue")])
def test_curl_of_any_age(node: Node, more: tuple[str, ...]):
    """An old curl that speaks HTTP/1.0, and one that waits for 100 before it sends its body, are both answered."""
    body = start_requests(restarted(node)).decode()
    assert curl(*more, "-H", "Metadata:true", "-d", body, base(node) + events_at()) == ""
    assert node.statuses("me") == ["Started"]


# Python's urllib, as in the documents


def urllib_ask(url: str, data: bytes | None = None, proxy: str = "") -> bytes:
    """A request as the Python sample makes it, with the proxy named here whatever the environment says."""
    request = urllib.request.Request(url, data)
    request.add_header("Metadata", "true")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": proxy} if proxy else {}))
    with opener.open(request, timeout=30) as answer:
        content: bytes = answer.read()
    return content


def test_the_python_sample(node: Node):
    """The Python sample reads its document and finds every key it uses."""
    restarted(node)
    document = json.loads(urllib_ask(base(node) + events_at("2019-08-01")))
    (event,) = document["Events"]
    assert event["Resources"] == ["me"]
    assert event["NotBefore"].replace(" ", "_").endswith("_GMT")
    assert (event["EventType"], event["EventSource"]) == ("Reboot", "User")
    assert event["Description"] == "Virtual machine is going to be restarted as requested by authorized user."


def test_python_through_a_proxy_setting(node: Node):
    """A Python script that takes us for its proxy sends the whole URL and gets its document."""
    restarted(node)
    assert json.loads(urllib_ask(ELSEWHERE + events_at(), proxy=base(node))) == node.document("me")


def test_pacemakers_agent(node: Node):
    """Pacemaker's agent learns its name, reads 2020-07-01 with a number as incarnation, approves in 2019-08-01."""
    restarted(node)
    for version in ("2019-08-01", "2021-12-13"):
        instance = json.loads(urllib_ask(f"{base(node)}/metadata/instance?api-version={version}"))
        assert instance["compute"]["name"] == "me"
    document = json.loads(urllib_ask(base(node) + events_at("2020-07-01")))
    assert str(document["DocumentIncarnation"]).isdigit()
    body = start_requests(*[event["EventId"] for event in document["Events"]])
    assert urllib_ask(base(node) + events_at("2019-08-01"), body) == b""
    document = json.loads(urllib_ask(base(node) + events_at("2020-07-01")))
    assert [event["EventStatus"] for event in document["Events"]] == ["Started"]
    assert document["DocumentIncarnation"] == 2


# Node's sample


def node_request(line: Line, method: str, *fields: str, body: bytes = b"") -> Answer:
    """A request as the Node sample's http module writes it."""
    fixed = ("Metadata: true", "Host: 169.254.169.254", "Connection: close")
    length = (f"Content-Length: {len(body)}",) if body else ()
    line.send(wire(f"{method} {events_at()} HTTP/1.1", *fields, *fixed, *length, body=body))
    answer = line.answer()
    assert answer.headers["connection"] == "close"
    assert line.is_over()
    return answer


def test_the_node_sample(node: Node):
    """The Node sample lives on ETag and 304, sends If-None-Match with its approval too, and closes each time."""
    event_id = restarted(node)
    with node.connect("me") as line:
        first = node_request(line, "GET", "Content-Type: application/json")
    tag = first.headers["etag"]
    assert first.json()["Events"][0]["EventId"] == event_id
    with node.connect("me") as line:
        assert node_request(line, "GET", f"If-None-Match: {tag}")[::2] == (304, b"")
    with node.connect("me") as line:
        body = start_requests(event_id)
        assert node_request(line, "POST", f"If-None-Match: {tag}", body=body)[::2] == (200, b"")
    with node.connect("me") as line:
        after = node_request(line, "GET", f"If-None-Match: {tag}")
    assert (after.status, after.json()["Events"][0]["EventStatus"]) == (200, "Started")


# .NET and PowerShell


def send_when_invited(line: Line, head: bytes, body: bytes) -> Answer:
    """Send a head, wait for 100, send the body."""
    line.send(head)
    assert line.answer().status == 100
    line.send(body)
    return line.answer()


def test_the_c_sharp_sample(node: Node):
    """The C# sample of the preview approves without the Metadata header, on the kept connection, after a 100."""
    event_id = restarted(node)
    target = events_at("2017-03-01")
    with node.connect("me") as line:
        line.send(wire(f"GET {target} HTTP/1.1", "Metadata: true", "Host: 169.254.169.254", "Connection: Keep-Alive"))
        document = line.answer().json()
        (event,) = document["Events"]
        assert datetime.fromisoformat(event["NotBefore"]) == node.now() + timedelta(minutes=15)
        incarnation = document["DocumentIncarnation"]
        body = json.dumps(
            {"StartRequests": [{"EventId": event_id}], "DocumentIncarnation": str(incarnation)}, separators=(",", ":")
        ).encode()
        head = wire(
            f"POST {target} HTTP/1.1",
            "Content-Type: application/json",
            "Host: 169.254.169.254",
            f"Content-Length: {len(body)}",
            "Expect: 100-continue",
        )
        assert send_when_invited(line, head, body).status == 200
    assert node.statuses("me") == ["Started"]


@pytest.mark.parametrize(
    ("content_type", "agent", "expect"),
    [
        ("application/x-www-form-urlencoded", "WindowsPowerShell/5.1.14393.206", True),
        ("text/plain; charset=utf-8", "PowerShell/7.4.1", False),
    ],
)
def test_the_powershell_sample(node: Node, content_type: str, agent: str, expect: bool):
    """Old PowerShell posts a form after a 100, new PowerShell plain text; both indent JSON and send a number."""
    event_id = restarted(node)
    target = events_at("2017-03-01")
    content = {"StartRequests": [{"EventId": event_id}], "DocumentIncarnation": 1}
    body = json.dumps(content, indent=4).replace("\n", "\r\n").encode()
    head = wire(
        f"POST {target} HTTP/1.1",
        "Metadata: true",
        f"User-Agent: Mozilla/5.0 (Windows NT; Windows NT 10.0; en-US) {agent}",
        f"Content-Type: {content_type}",
        "Host: 169.254.169.254",
        f"Content-Length: {len(body)}",
        *(["Expect: 100-continue"] if expect else []),
    )
    with node.connect("me") as line:
        if expect:
            assert send_when_invited(line, head, body).status == 200
        else:
            line.send(head + body)
            assert line.answer().status == 200
    assert node.statuses("me") == ["Started"]


def test_dot_net_that_does_not_wait_for_its_100(node: Node):
    """A .NET client that sends its body without waiting for the 100 it asked for is answered once, with 200."""
    event_id = restarted(node)
    body = start_requests(event_id)
    fields = ("Host: a", "Metadata: true", f"Content-Length: {len(body)}", "Expect: 100-continue")
    assert node.raw("me", wire(f"POST {events_at()} HTTP/1.1", *fields, body=body)).status == 200
    assert node.statuses("me") == ["Started"]


# Others


def test_dask_reads_strict_rfc_1123(node: Node):
    """A client that parses NotBefore strictly as RFC 1123 in 2019-08-01 gets the right moment."""
    node.enable("render-0")
    node.operate("/v1/vms/render-0/evict")
    event = node.event("render-0", "2019-08-01")
    not_before = datetime.strptime(event["NotBefore"], "%a, %d %b %Y %H:%M:%S GMT").replace(tzinfo=UTC)
    assert not_before == node.now() + timedelta(seconds=30)


def test_a_handler_that_asks_for_the_newest_version_first(node: Node):
    """OpenShift's termination handler asks for 2024-07-09, asks for an older one at 404, and ends at anything else.

    Then it polls until a Preempt names its VM. It approves nothing.
    """
    assert node.get("render-0", "2024-07-09").status == 404
    assert node.document("render-0", "2020-07-01")["Events"] == []
    node.operate("/v1/vms/render-0/evict")
    event = node.event("render-0", "2020-07-01")
    assert (event["EventType"], event["EventStatus"], event["Resources"]) == ("Preempt", "Scheduled", ["render-0"])


@pytest.mark.parametrize(
    ("version", "keys"),
    [
        ("2017-08-01", {"EventId", "EventStatus", "EventType", "ResourceType", "Resources", "NotBefore"}),
        (
            "2019-08-01",
            {
                *("EventId", "EventStatus", "EventType", "ResourceType", "Resources", "NotBefore"),
                *("Description", "EventSource"),
            },
        ),
    ],
)
def test_a_client_that_knows_exactly_its_keys(node: Node, version: str, keys: set[str]):
    """A strict decoder that refuses any other key meets exactly those of its version."""
    restarted(node)
    document: Any = node.document("me", version)
    assert set(document) == {"DocumentIncarnation", "Events"}
    assert set(document["Events"][0]) == keys


@pytest.mark.parametrize("field", ["metadata: True", "METADATA: true", "metadata: TRUE"])
@pytest.mark.parametrize("path", ["scheduledEvents", "ScheduledEvents", "scheduledevents/"])
def test_clients_with_their_own_spelling(shared: Node, field: str, path: str):
    """Header and path are understood however a client spells them."""
    answer = shared.raw("me", wire(f"GET /metadata/{path}?api-version=2020-07-01 HTTP/1.1", "Host: a", field))
    assert (answer.status, answer.body) == (200, b'{"DocumentIncarnation":0,"Events":[]}')
