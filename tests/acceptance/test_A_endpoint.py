"""Section A: where VMs ask and what a request and its answer look like."""

import http.client
import re
from contextlib import suppress
from email.utils import parsedate_to_datetime
from itertools import pairwise
from uuid import UUID

import pytest

from duenotice.settings import ServeSettings
from tests.acceptance.conftest import DEMO
from tests.support.node import HEADER, NEWEST, Node, events_at, start_requests, wire

VERSIONS = ("2017-03-01", "2017-08-01", "2017-11-01", "2019-01-01", "2019-04-01", "2019-08-01", "2020-07-01")
NEWEST_VERSIONS = ["2020-07-01", "2019-08-01", "2019-04-01"]
NOTHING = b'{"DocumentIncarnation":0,"Events":[]}'
GET = (f"GET {events_at()} HTTP/1.1", "Host: 169.254.169.254", "Metadata: true")
POST = (f"POST {events_at()} HTTP/1.1", "Host: 169.254.169.254", "Metadata: true")


def post_of(event_id: str, *more: str) -> bytes:
    """An approval as bytes."""
    body = start_requests(event_id)
    return wire(*POST, *more, f"Content-Length: {len(body)}", body=body)


def short(value: object) -> str | None:
    """A test's id without the bytes it sends."""
    return "bytes" if isinstance(value, bytes) else None


# A01


def test_A01_get_answers_the_document(shared: Node):
    """GET /metadata/scheduledevents with an api-version answers the caller's document over plain HTTP."""
    answer = shared.ask("me", "GET", "/metadata/scheduledevents?api-version=2020-07-01", {"Metadata": "true"})
    assert (answer.status, answer.body) == (200, NOTHING)


def test_A01_post_approves_an_event(node: Node):
    """POST to the same address approves an event."""
    node.enable("me")
    event_id = node.schedule("Reboot", "me")
    body = b'{"StartRequests":[{"EventId":"%b"}]}' % event_id.encode()
    answer = node.ask("me", "POST", "/metadata/scheduledevents?api-version=2020-07-01", {"Metadata": "true"}, body)
    assert (answer.status, node.statuses("me")) == (200, ["Started"])


def test_A01_address_and_port_are_settings():
    """The address and port that VMs ask are settings."""
    with Node(DEMO, metadata_listen="127.9.8.7:16980") as node:
        assert node.metadata_address == ("127.9.8.7", 16980)
        assert node.get("web-0").body == NOTHING


# A02


@pytest.mark.parametrize(
    "path", ["/metadata/scheduledEvents", "/Metadata/ScheduledEvents", "/METADATA/SCHEDULEDEVENTS"]
)
def test_A02_the_path_matches_in_any_case(shared: Node, path: str):
    """Upper and lower case make no difference in the path."""
    assert shared.ask("me", "GET", f"{path}?api-version={NEWEST}").body == NOTHING


@pytest.mark.parametrize(("slashes", "status"), [("", 200), ("/", 200), ("//", 404)])
def test_A02_one_slash_at_the_end_is_tolerated(shared: Node, slashes: str, status: int):
    """The path may end in one slash, not in two."""
    assert shared.ask("me", "GET", f"/metadata/scheduledevents{slashes}?api-version={NEWEST}").status == status


@pytest.mark.parametrize("origin", ["http://169.254.169.254", "HTTP://169.254.169.254:80", "http://imds.example"])
def test_A02_an_absolute_target_works_like_a_path(shared: Node, origin: str):
    """A client that believes it talks to a proxy, and so sends the whole URL, gets its document."""
    answer = shared.raw("me", wire(f"GET {origin}{events_at()} HTTP/1.1", "Host: 169.254.169.254", "Metadata: true"))
    assert (answer.status, answer.body) == (200, NOTHING)


def test_A02_an_absolute_target_works_for_approvals(node: Node):
    """An approval with the whole URL as its target works too."""
    node.enable("me")
    event_id = node.schedule("Reboot", "me")
    data = post_of(event_id).replace(b"POST /", b"POST http://169.254.169.254/", 1)
    assert (node.raw("me", data).status, node.statuses("me")) == (200, ["Started"])


# A03


@pytest.mark.parametrize("version", VERSIONS[1:])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_A03_a_request_without_the_header_is_refused(shared: Node, method: str, version: str):
    """From 2017-08-01 on every request needs the Metadata header; without it the error is the known one."""
    answer = shared.ask("me", method, events_at(version), headers={})
    assert answer.status == 400
    assert answer.body == b'{"error":"Bad request. Required metadata header not specified"}'


@pytest.mark.parametrize("field", ["Metadata: false", "Metadata: 1", "Metadata:", "X-Metadata: true"])
def test_A03_only_true_will_do(shared: Node, field: str):
    """The header must be called Metadata and say true."""
    assert shared.raw("me", wire(*GET[:2], field)).status == 400


def test_A03_the_header_counts_once(shared: Node):
    """Two Metadata headers are refused: somebody else may have added one."""
    assert shared.raw("me", wire(*GET, "Metadata: true")).status == 400


@pytest.mark.parametrize("field", ["metadata: true", "METADATA: TRUE", "Metadata: True", "Metadata:true"])
def test_A03_name_and_value_compare_without_case(shared: Node, field: str):
    """Upper and lower case make no difference in the header's name and value."""
    assert shared.raw("me", wire(*GET[:2], field)).body == NOTHING


def test_A03_an_approval_without_the_header_has_no_effect(node: Node):
    """A refused approval starts nothing."""
    node.enable("me")
    event_id = node.schedule("Reboot", "me")
    assert node.post("me", start_requests(event_id), headers={}).status == 400
    assert node.statuses("me") == ["Scheduled"]


def test_A03_the_preview_needs_no_header(node: Node):
    """2017-03-01 answers and approves without the header, as its own C# sample needs."""
    assert node.get("me", "2017-03-01", headers={}).body == NOTHING
    event_id = node.schedule("Reboot", "me")
    assert node.post("me", start_requests(event_id), "2017-03-01", headers={}).status == 200
    assert node.statuses("me") == ["Started"]


# A04


@pytest.mark.parametrize("version", VERSIONS)
def test_A04_every_version_is_served(shared: Node, version: str):
    """All seven api-versions are answered."""
    assert shared.get("me", version).body == NOTHING


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    "query",
    [
        "",
        "?",
        "?api-version",
        "?api-version=",
        "?version=2020-07-01",
        "?api-version=2020-7-1",
        "?api-version=2020-07-01x",
        "?api-version=20200701",
        "?api-version=2018-01-01",
        "?api-version=2016-01-01",
        "?api-version=latest",
        "?api-version={latest}",
        "?api-version=%7Blatest%7D",
    ],
)
def test_A04_a_missing_or_unknown_version_is_refused(shared: Node, method: str, query: str):
    """A missing, malformed, old or "latest" api-version is refused, and the newest ones are named."""
    answer = shared.raw("me", wire(f"{method} /metadata/scheduledevents{query} HTTP/1.1", "Host: a", "Metadata: true"))
    assert answer.status == 400
    error = answer.json()
    assert list(error) == ["error", "newest-versions"]
    assert error["error"].startswith("Bad request. api-version is invalid or was not specified in the request. ")
    assert error["newest-versions"] == NEWEST_VERSIONS


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("version", ["2020-07-02", "2024-07-09", "2099-12-31"])
def test_A04_a_newer_version_is_not_found_so_that_a_probing_client_asks_for_an_older_one(
    shared: Node, method: str, version: str
):
    """A well-formed date that is newer than all we know is 404, and the newest one that there is is named."""
    line = f"{method} /metadata/scheduledevents?api-version={version} HTTP/1.1"
    answer = shared.raw("me", wire(line, "Host: a", "Metadata: true"))
    assert (answer.status, answer.json()) == (404, {"error": "Not found. The newest api-version here is 2020-07-01."})


def test_A04_a_newer_version_of_instance_data_is_refused_with_those_that_there_are(shared: Node):
    """A client that asks /metadata/instance for a version of the future chooses from the newest-versions."""
    line = "GET /metadata/instance?api-version=2099-01-01 HTTP/1.1"
    answer = shared.raw("me", wire(line, "Host: a", "Metadata: true"))
    assert (answer.status, len(answer.json()["newest-versions"])) == (400, 3)


def test_A04_a_setting_refuses_newer_versions_as_it_refuses_the_others():
    """With a setting on, versions newer than ours are 400."""
    expected = {"2099-12-31": 400, "2020-07-02": 400, "2020-07-01": 200, "2018-01-01": 400, "latest": 400}
    with Node(DEMO, newer_versions_400=True) as node:
        assert {version: node.get("me", version).status for version in expected} == expected


# A14


@pytest.mark.parametrize("version", ["", "?", "?api-version=2017-03-01", "?api-version=2020-07-01", "?api-version=x"])
def test_A14_the_path_of_2016_answers_and_approves_as_the_preview(node: Node, version: str):
    """/metadata/latest/scheduledevents is api-version 2017-03-01: no header, names with an underscore, ISO 8601."""
    target = f"/metadata/Latest/scheduledEvents{version}"
    node.enable("me")
    event_id = node.schedule("Reboot", "me")
    document = node.raw("me", wire(f"GET {target} HTTP/1.1", "Host: a"))
    assert (document.status, document.body) == (200, node.get("me", "2017-03-01", headers={}).body)
    assert b'"Resources":["_me"]' in document.body
    body = start_requests(event_id)
    answer = node.raw("me", wire(f"POST {target} HTTP/1.1", "Host: a", f"Content-Length: {len(body)}", body=body))
    assert (answer.status, node.statuses("me")) == (200, ["Started"])


def test_A14_there_is_nothing_else_under_that_path(shared: Node):
    """Other paths under /metadata/latest are unknown, and the answer names those that there are."""
    for path in ("/metadata/latest", "/metadata/latest/instance", "/metadata/latest/scheduledevents/x"):
        answer = shared.raw("me", wire(f"GET {path} HTTP/1.1", "Host: a", "Metadata: true"))
        assert answer.status == 404
        assert "Ask for /metadata/scheduledevents" in answer.json()["error"]


# A05


@pytest.mark.parametrize(
    "field",
    [
        "X-Forwarded-For: 10.0.0.1",
        "x-forwarded-for: 10.0.0.1",
        "Forwarded: for=10.0.0.1",
        "X-Real-IP: 10.0.0.1",
        "Via: 1.1 proxy",
        "Origin: http://example.com",
        "Sec-Fetch-Mode: no-cors",
        "Sec-Fetch-Site: cross-site",
        "Sec-Fetch-Dest: image",
    ],
)
def test_A05_a_relayed_request_is_refused(shared: Node, field: str):
    """A request that shows signs of a proxy or a browser is refused, whatever else it carries."""
    answer = shared.raw("me", wire(*GET, field))
    assert answer.status == 400
    assert field.split(":")[0].lower() in answer.json()["error"]


@pytest.mark.parametrize("version", [NEWEST, "2017-03-01"])
def test_A05_a_relayed_approval_has_no_effect(node: Node, version: str):
    """A relayed approval starts nothing, not even in the preview, which needs no header."""
    node.enable("me")
    event_id = node.schedule("Reboot", "me")
    headers = HEADER | {"X-Forwarded-For": "10.0.0.1"}
    assert node.post("me", start_requests(event_id), version, headers).status == 400
    assert node.statuses("me") == ["Scheduled"]


# A06


@pytest.mark.parametrize(
    "query",
    [
        "api-version=2020-07-01&api-version=2020-07-01",
        "api-version=2020-07-01&API-Version=2019-08-01",
        "api-version=2020-07-01&x=1&x=2",
        "x=1&api-version=2020-07-01&x",
    ],
)
def test_A06_a_repeated_parameter_is_refused(shared: Node, query: str):
    """A query that names a parameter twice is refused."""
    assert shared.ask("me", "GET", f"/metadata/scheduledevents?{query}").status == 400


@pytest.mark.parametrize("query", ["{}&x=1", "x=1&{}", "{}&format=json&y", "&{}&"])
def test_A06_unknown_parameters_are_ignored(shared: Node, query: str):
    """Parameters that nobody knows change nothing."""
    target = "/metadata/scheduledevents?" + query.format("api-version=2020-07-01")
    assert shared.ask("me", "GET", target).body == NOTHING


# A07


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE", "BREW"])
def test_A07_other_methods_are_not_allowed(shared: Node, method: str):
    """Any method but GET and POST is 405, and the answer names those two."""
    answer = shared.ask("me", method, events_at())
    assert (answer.status, answer.headers["allow"]) == (405, "GET, POST")


@pytest.mark.parametrize("path", ["/", "/metadata", "/metadata/", "/metadata/scheduledevents/x", "/favicon.ico"])
def test_A07_an_unknown_path_is_not_found(shared: Node, path: str):
    """Any other path is 404."""
    assert shared.ask("me", "GET", f"{path}?api-version={NEWEST}").status == 404


@pytest.mark.parametrize(
    ("data", "status", "what_to_do"),
    [
        (wire(*GET[:2]), 400, "metadata header"),
        (wire("GET /metadata/scheduledevents HTTP/1.1", *GET[1:]), 400, "api-version"),
        (wire(*GET, "Via: 1.1 proxy"), 400, "Ask directly"),
        (wire(f"GET {events_at()}&x=1&x=2 HTTP/1.1", *GET[1:]), 400, "only once"),
        (wire(*POST, "Content-Length: 2", body=b"{}"), 400, "StartRequests"),
        (wire("GET /metadata HTTP/1.1", *GET[1:]), 404, "Ask for"),
        (wire(f"PUT {events_at()} HTTP/1.1", *GET[1:]), 405, "Use GET or POST"),
        (wire(*POST, "Content-Length: 70000"), 413, "fewer"),
        (wire(*GET, "Expect: a miracle"), 417, "Leave Expect out"),
        (wire(*GET, "X: " + "x" * 20_000), 431, "fewer or shorter"),
        (wire("nonsense"), 400, "Send METHOD"),
    ],
    ids=short,
)
def test_A07_every_error_is_json_that_says_what_to_do(shared: Node, data: bytes, status: int, what_to_do: str):
    """Whatever is wrong, the answer is a JSON object with one error that tells how to do better."""
    answer = shared.raw("me", data)
    assert (answer.status, answer.headers["content-type"]) == (status, "application/json; charset=utf-8")
    assert what_to_do in answer.json()["error"]


# A08


def many(node: Node, vm: str, *requests: bytes) -> list[int]:
    """The statuses of requests sent in one go."""
    with node.connect(vm) as line:
        line.send(b"".join(requests))
        return [line.answer().status for _ in requests]


def test_A08_a_chatty_vm_is_throttled_after_a_burst_of_five():
    """Five requests at once are answered; more in the same second are 429 with the known error."""
    with Node(DEMO, throttle=ServeSettings().throttle) as node:
        statuses = many(node, "me", *[wire(*GET)] * 40)
        assert statuses[:5] == [200] * 5
        assert statuses.count(429) >= 30
        answer = node.get("me")
        while answer.status == 200:
            answer = node.get("me")
        assert (answer.status, answer.body) == (429, b'{"error":"Throttle Result: Too Many Requests"}')


def test_A08_only_the_chatty_vm_is_throttled():
    """The other VMs, of the same scope too, do not feel it."""
    with Node(DEMO, throttle=1) as node:
        assert 429 in many(node, "web-0", *[wire(*GET)] * 20)
        assert [node.get(vm).status for vm in ("web-1", "me")] == [200, 200]


def test_A08_approvals_have_a_budget_of_their_own():
    """A VM that has used up its polls can still approve, and one that has used up its approvals can still poll."""
    with Node(DEMO, throttle=0.001, approvals_throttle=0.001) as node:
        assert node.get("me").status == 200
        event_id = node.schedule("Reboot", "me")
        assert node.get("me").status == 429
        assert node.approve("me", event_id).status == 200
        assert node.approve("me", event_id).status == 429
        assert node.operate(f"/v1/events/{event_id}", method="GET")["phase"] == "started"
        assert [node.approve("db-0", event_id).status for _ in range(2)] == [400, 429]
        assert node.get("db-0").status == 200


def test_A08_the_budget_comes_back():
    """Throttling ends by itself: soon the VM is answered again.

    One that asks on and on, each time on a new connection, is closed without a word meanwhile (S29).
    """
    with Node(DEMO, throttle=20) as node:
        assert 429 in many(node, "me", *[wire(*GET)] * 100)
        status = 429
        while status != 200:
            with suppress(http.client.RemoteDisconnected):
                status = node.get("me").status


def test_A08_the_rate_is_a_setting():
    """With a higher setting the same burst is answered whole."""
    with Node(DEMO, throttle=1000) as node:
        assert many(node, "me", *[wire(*GET)] * 40) == [200] * 40


# A09


def test_A09_the_caller_is_known_by_its_address(shared: Node):
    """Each registered address is its VM."""
    for vm in ("me", "db-0", "web-4", "FrontEnd_IN_1", "workers_9"):
        answer = shared.ask(vm, "GET", f"/metadata/instance/compute/name?api-version={NEWEST}&format=text")
        assert answer.body.decode() == vm


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_A09_a_stranger_is_told_its_address(shared: Node, method: str):
    """An address that nobody registered gets a 404 that names it."""
    answer = shared.ask("127.7.7.7", method, events_at())
    assert answer.status == 404
    assert "127.7.7.7" in answer.json()["error"]


def test_A09_a_default_vm_stands_in_for_strangers():
    """With a default VM set, unknown callers are that VM and known ones stay themselves."""
    with Node(DEMO, default_vm="db-0") as node:
        node.enable("127.7.7.7", "db-1")
        event_id = node.schedule("Reboot", "db-0")
        assert node.event("127.7.7.7")["EventId"] == event_id
        assert node.events("db-1") == []
        assert node.approve("127.8.8.8", event_id).status == 200


def test_A09_a_default_vm_that_is_gone_is_not_advised():
    """If the default VM has left the fleet, the error says that, and does not advise to set one."""
    with Node(default_vm="me") as node:
        assert node.get("127.7.7.7").status == 200
        node.apply('[[vms]]\nname = "other"\naddress = "127.0.1.9"\n')
        answer = node.get("127.7.7.7")
        assert (answer.status, "127.7.7.7" in answer.json()["error"]) == (404, True)
        assert "The default VM me is not in the fleet any more." in answer.json()["error"]
        assert "start the service with a default VM" not in answer.json()["error"]


# A10


def test_A10_the_etag_is_the_quoted_incarnation(node: Node):
    """The ETag is the document's incarnation in quotes."""
    assert node.get("me").headers["etag"] == '"0"'
    node.schedule("Reboot", "me")
    assert node.get("me").headers["etag"] == '"1"'


@pytest.mark.parametrize("tag", ["1", '"1"', 'W/"1"', '"0", "1"', "*"])
def test_A10_a_known_document_is_not_sent_again(node: Node, tag: str):
    """If-None-Match with the incarnation, bare, quoted or weak, is answered 304 without a body."""
    node.enable("me")
    node.schedule("Reboot", "me")
    answer = node.get("me", headers=HEADER | {"If-None-Match": tag})
    assert (answer.status, answer.body, answer.headers["etag"]) == (304, b"", '"1"')


@pytest.mark.parametrize("tag", ["0", '"2"', 'W/"11"', "", "abc"])
def test_A10_an_outdated_tag_gets_the_document(node: Node, tag: str):
    """Any other tag gets the whole document."""
    node.enable("me")
    node.schedule("Reboot", "me")
    answer = node.get("me", headers=HEADER | {"If-None-Match": tag})
    assert (answer.status, answer.json()["DocumentIncarnation"]) == (200, 1)


def test_A10_if_none_match_is_ignored_on_post(node: Node):
    """An approval with the current tag is carried out."""
    node.enable("me")
    event_id = node.schedule("Reboot", "me")
    answer = node.post("me", start_requests(event_id), headers=HEADER | {"If-None-Match": '"1"'})
    assert (answer.status, node.statuses("me")) == (200, ["Started"])


# A11


def test_A11_the_headers_of_an_answer(shared: Node):
    """An answer has type, length, date, server and a request id, and is never chunked."""
    headers = shared.get("me").headers
    assert headers["content-type"] == "application/json; charset=utf-8"
    assert headers["content-length"] == str(len(NOTHING))
    assert "transfer-encoding" not in headers
    assert parsedate_to_datetime(headers["date"]).tzinfo is not None
    assert re.fullmatch(r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT", headers["date"])
    assert re.fullmatch(r"IMDS/\d+(\.\d+)+", headers["server"])
    assert str(UUID(headers["x-ms-request-id"])) == headers["x-ms-request-id"]


def test_A11_each_answer_has_a_request_id_of_its_own(shared: Node):
    """No two answers share a request id."""
    ids = [shared.get("me").headers["x-ms-request-id"] for _ in range(20)]
    assert len(set(ids)) == 20


@pytest.mark.parametrize(
    "data",
    [wire(*GET[:2]), wire("GET / HTTP/1.1", "Host: a"), wire(*POST, "Content-Length: 1", body=b"x"), wire("x")],
    ids=short,
)
def test_A11_errors_have_the_same_headers(shared: Node, data: bytes):
    """Errors carry the same headers as documents."""
    answer = shared.raw("me", data)
    assert {"content-type", "content-length", "date", "server", "x-ms-request-id"} <= set(answer.headers)


def test_A11_a_connection_is_kept(shared: Node):
    """One connection serves many requests."""
    with shared.connect("me") as line:
        for _ in range(3):
            line.send(wire(*GET))
            answer = line.answer()
            assert (answer.status, answer.headers.get("connection")) == (200, None)


def test_A11_pipelined_requests_are_answered_in_order(node: Node):
    """Requests sent in one go are answered one after the other: the last sees what the one before it did."""
    node.enable("me")
    event_id = node.schedule("Reboot", "me")
    with node.connect("me") as line:
        line.send(wire(*GET) + post_of(event_id) + wire(*GET) + wire("GET / HTTP/1.1", "Host: a"))
        before, approval, after, last = (line.answer() for _ in range(4))
    assert before.json()["Events"][0]["EventStatus"] == "Scheduled"
    assert (approval.status, approval.body) == (200, b"")
    assert after.json()["Events"][0]["EventStatus"] == "Started"
    assert last.status == 404


@pytest.mark.parametrize("data", [wire(*GET, "Connection: close"), wire(*GET, "connection: Close, x")], ids=short)
def test_A11_connection_close_is_honest(shared: Node, data: bytes):
    """A client that asks to close is told so, and the connection is closed."""
    with shared.connect("me") as line:
        line.send(data)
        answer = line.answer()
        assert (answer.body, answer.headers["connection"]) == (NOTHING, "close")
        assert line.is_over()


def test_A11_http_1_0_closes(shared: Node):
    """An HTTP/1.0 client, which need not send Host, is answered and the connection closed."""
    with shared.connect("me") as line:
        line.send(wire(f"GET {events_at()} HTTP/1.0", "Metadata: true"))
        answer = line.answer()
        assert (answer.body, answer.headers["connection"]) == (NOTHING, "close")
        assert line.is_over()


def test_A11_http_1_0_keep_alive(shared: Node):
    """An HTTP/1.0 client that asks to keep the connection may, and is told so."""
    with shared.connect("me") as line:
        for _ in range(2):
            line.send(wire(f"GET {events_at()} HTTP/1.0", "Metadata: true", "Connection: keep-alive"))
            answer = line.answer()
            assert (answer.body, answer.headers["connection"]) == (NOTHING, "keep-alive")


def test_A11_expect_continue_invites_the_body(node: Node):
    """A client that waits for permission to send its body gets 100, and then the answer."""
    node.enable("me")
    body = start_requests(node.schedule("Reboot", "me"))
    with node.connect("me") as line:
        line.send(wire(*POST, f"Content-Length: {len(body)}", "Expect: 100-continue"))
        assert line.answer() == (100, {}, b"")
        line.send(body)
        assert line.answer().status == 200
    assert node.statuses("me") == ["Started"]


def test_A11_expect_continue_is_not_answered_when_the_body_is_refused(shared: Node):
    """A request that will be refused anyway is refused without asking for its body."""
    with shared.connect("me") as line:
        line.send(wire(*POST[:2], "Content-Length: 10", "Expect: 100-continue"))
        assert line.answer().status == 400


# A12

ONE_OF_EACH = """
[site]
location = "northeurope"
resource_group = "shop"
subscription_id = "11111111-2222-3333-4444-555555555555"

[[vms]]
name = "db"
address = "127.0.1.1"
zone = "2"
size = "Standard_E8"
os = "Windows"
tags = { team = "core", tier = "gold" }

[[availability_sets]]
name = "web"
vms = [
  { name = "web-0", address = "127.0.2.1", update_domain = 3, fault_domain = 1 },
]

[[scale_sets]]
name = "batch"
capacity = 150
addresses = "127.0.16.0/20"
"""


def compute(node: Node, vm: str) -> dict[str, object]:
    """What a VM is told about itself."""
    answer = node.ask(vm, "GET", "/metadata/instance?api-version=2021-12-13")
    assert answer.status == 200
    found: dict[str, object] = answer.json()["compute"]
    return found


@pytest.mark.parametrize(
    ("vm", "said"),
    [
        (
            "db",
            {
                "name": "db",
                "location": "northeurope",
                "resourceGroupName": "shop",
                "subscriptionId": "11111111-2222-3333-4444-555555555555",
                "vmScaleSetName": "",
                "placementGroupId": "",
                "zone": "2",
                "osType": "Windows",
                "vmSize": "Standard_E8",
                "tags": "team:core;tier:gold",
            },
        ),
        ("web-0", {"name": "web-0", "platformUpdateDomain": "3", "platformFaultDomain": "1", "zone": ""}),
        ("batch_7", {"name": "batch_7", "vmScaleSetName": "batch", "platformUpdateDomain": "2", "osType": "Linux"}),
    ],
)
def test_A12_the_instance_document_describes_the_vm(vm: str, said: dict[str, str]):
    """A VM is told its name, place, group, domains, size, system and tags."""
    with Node(ONE_OF_EACH) as node:
        assert compute(node, vm).items() >= said.items()


def test_A12_the_profile_of_the_system_says_that_there_is_no_password(shared: Node):
    """cloud-init reads osProfile.disablePasswordAuthentication, and reads it as a text."""
    profile = {"adminUsername": "", "computerName": "me", "disablePasswordAuthentication": "true"}
    assert compute(shared, "me")["osProfile"] == profile


def test_A12_ids_tell_vms_and_placement_groups_apart():
    """Each VM has a vmId of its own, and the VMs of a placement group share its id."""
    with Node(ONE_OF_EACH) as node:
        first, same, other = (compute(node, f"batch_{number}") for number in (0, 99, 100))
        assert len({vm["vmId"] for vm in (first, same, other)}) == 3
        assert first["placementGroupId"] == same["placementGroupId"] != other["placementGroupId"]
        assert compute(node, "batch_0") == first
        for value in (first["vmId"], first["placementGroupId"]):
            assert str(UUID(str(value))) == value


FIELDS = (
    *("name", "vmId", "location", "zone", "resourceGroupName", "subscriptionId", "vmScaleSetName", "placementGroupId"),
    *("platformUpdateDomain", "platformFaultDomain", "osType", "vmSize", "tags"),
)


@pytest.mark.parametrize("field", FIELDS)
def test_A12_each_field_can_be_asked_for_alone(shared: Node, field: str):
    """Every field has a path of its own and comes as plain text with format=text."""
    path = f"/metadata/instance/compute/{field}?api-version=2021-12-13"
    value = compute(shared, "workers_3")[field]
    text = shared.ask("workers_3", "GET", f"{path}&format=text")
    assert (text.body.decode(), text.headers["content-type"]) == (value, "text/plain; charset=utf-8")


@pytest.mark.parametrize("form", ["", "&format=json"])
def test_A12_a_single_value_needs_format_text(shared: Node, form: str):
    """As on Azure, a single value without format=text is refused with 400, and the error says what to add."""
    answer = shared.ask("me", "GET", f"/metadata/instance/compute/name?api-version=2021-12-13{form}")
    assert (answer.status, "format=text" in answer.json()["error"]) == (400, True)


def test_A12_a_setting_answers_a_single_value_in_json():
    """With --leaf-json a single value without format=text is a JSON string."""
    with Node(DEMO, leaf_json=True) as node:
        assert node.ask("me", "GET", "/metadata/instance/compute/name?api-version=2021-12-13").json() == "me"


def test_A12_parts_can_be_asked_for(shared: Node):
    """Paths reach down to a part and to a place in a list, in any case and with a slash at the end."""

    def ask(path: str) -> object:
        return shared.ask("db-0", "GET", f"/metadata/{path}api-version=2019-08-01").json()

    whole = ask("instance?")
    assert isinstance(whole, dict)
    assert ask("instance/compute?") == ask("INSTANCE/Compute/?") == whole["compute"]
    assert ask("instance/network?") == whole["network"]
    assert ask("instance/network/interface/0/ipv4/ipAddress/0?") == {
        "privateIpAddress": "127.0.1.10",
        "publicIpAddress": "",
    }


def test_A12_text_of_a_part_lists_what_is_in_it(shared: Node):
    """As text, a part is the list of its names."""
    answer = shared.ask("me", "GET", "/metadata/instance?api-version=2021-12-13&format=text")
    assert answer.body == b"compute/\nnetwork/"


@pytest.mark.parametrize(
    ("target", "headers", "status"),
    [
        ("/metadata/instance?api-version=2021-12-13", {}, 400),
        ("/metadata/instance", HEADER, 400),
        ("/metadata/instance?api-version=latest", HEADER, 400),
        ("/metadata/instance?api-version=2021-12-13&format=xml", HEADER, 400),
        ("/metadata/instance/compute/nonsense?api-version=2021-12-13", HEADER, 404),
        ("/metadata/versions", {}, 400),
    ],
)
def test_A12_the_same_rules_hold_for_instance_metadata(shared: Node, target: str, headers: dict[str, str], status: int):
    """Header and api-version are needed here too, and what does not exist is not found."""
    answer = shared.ask("me", "GET", target, headers)
    assert (answer.status, "error" in answer.json()) == (status, True)


def test_A12_versions_are_listed_oldest_first(shared: Node):
    """GET /metadata/versions lists the api-versions of the instance document, and not those of events alone."""
    versions = shared.ask("me", "GET", "/metadata/versions").json()["apiVersions"]
    assert all(older < newer for older, newer in pairwise(versions))
    assert set(versions) & set(VERSIONS) == {"2017-03-01", "2017-08-01", "2019-08-01"}
    for version in (*versions, *VERSIONS):
        assert shared.ask("me", "GET", f"/metadata/instance?api-version={version}").status == 200


ASKED_FOR = {
    "azure-events-az": "2021-12-13",
    "azure-events": "2019-08-01",
    "cloud-init": "2021-08-01",
    "cloud-init, before it falls back": "2019-06-01",
    "WALinuxAgent": "2018-02-01",
    "taskcluster": "2025-04-07",
    "newer ones of the documents": "2024-07-17",
    "others": "2023-07-01",
    "and others": "2023-11-15",
    "more of them": "2024-03-15",
}


@pytest.mark.parametrize("client", ASKED_FOR)
def test_A12_the_versions_that_real_clients_ask_for_are_listed_and_served(shared: Node, client: str):
    """Each version of the instance document that a real client was seen to ask for is there."""
    versions = shared.ask("me", "GET", "/metadata/versions").json()["apiVersions"]
    assert ASKED_FOR[client] in versions
    answer = shared.ask("me", "GET", f"/metadata/instance/compute?api-version={ASKED_FOR[client]}")
    assert answer.json()["name"] == "me"
