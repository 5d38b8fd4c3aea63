"""What each request asks, and in which order requests are refused (A02-A07)."""

import json

import pytest

from duenotice.metadata_api.http1 import parse_head
from duenotice.metadata_api.options import MetadataOptions
from duenotice.metadata_api.requests import Approve, Describe, ListVersions, ParsedRequest, Poll, Router
from duenotice.metadata_api.responses import CLOSE, KEEP_ALIVE, Answer
from duenotice.wire.api_versions import BY_NAME
from duenotice.wire.instance import INSTANCE_VERSIONS

EVENTS = "/metadata/scheduledevents"
INSTANCE = "/metadata/instance"
DEFAULTS = MetadataOptions()
NEWEST = BY_NAME["2020-07-01"]
NO_HEADER = {"error": "Bad request. Required metadata header not specified"}


def asked(
    method: str,
    target: str,
    *lines: str,
    metadata: str | None = "true",
    minor: int = 1,
    options: MetadataOptions = DEFAULTS,
) -> ParsedRequest:
    headers = ["Host: x", *lines] if metadata is None else ["Host: x", f"Metadata: {metadata}", *lines]
    raw = "\r\n".join([f"{method} {target} HTTP/1.{minor}", *headers]).encode()
    return Router(options).parse(parse_head(raw))


def refusal(*args: str, **how) -> tuple[int, dict[str, object]]:
    question = asked(*args, **how).query
    assert isinstance(question, Answer), f"not refused: {question}"
    return question.status, json.loads(question.tail.partition(b"\r\n\r\n")[2])


@pytest.mark.parametrize("path", [EVENTS, EVENTS + "/", "/Metadata/ScheduledEvents", "/METADATA/SCHEDULEDEVENTS/"])
def test_paths_match_in_any_case_and_with_one_slash_at_the_end(path: str) -> None:
    assert asked("GET", f"{path}?api-version=2020-07-01").query == Poll(NEWEST)


@pytest.mark.parametrize("path", ["/", "/metadata", EVENTS + "//", EVENTS + "/x", "/x" + EVENTS, "//metadata/instance"])
def test_other_paths_are_not_found(path: str) -> None:
    status, body = refusal("GET", f"{path}?api-version=2020-07-01")
    assert (status, "Ask for /metadata/" in str(body)) == (404, True)


@pytest.mark.parametrize("version", BY_NAME.values(), ids=BY_NAME.keys())
def test_every_version_is_known_to_get_and_post(version) -> None:
    assert asked("GET", f"{EVENTS}?api-version={version.name}").query == Poll(version)
    assert asked("POST", f"{EVENTS}?api-version={version.name}").query == Approve()


@pytest.mark.parametrize("version", ["", "latest", "{latest}", "2020-06-30", "2020-07-01x", "2016-01-01", "x"])
def test_any_other_version_is_refused_with_the_newest_ones(version: str) -> None:
    status, body = refusal("GET", f"{EVENTS}?api-version={version}")
    assert status == 400
    assert str(body["error"]).startswith("Bad request. api-version is invalid or was not specified in the request. ")
    assert body["newest-versions"] == ["2020-07-01", "2019-08-01", "2019-04-01"]
    assert refusal("GET", EVENTS) == (status, body)


def test_versions_of_the_future_are_404_for_events_and_can_be_made_400() -> None:
    options = MetadataOptions(newer_versions_400=True)
    future = f"{EVENTS}?api-version=2999-01-01"
    assert [refusal("GET", future)[0], refusal("GET", future, options=options)[0]] == [404, 400]
    assert refusal("GET", f"{INSTANCE}?api-version=2999-01-01")[0] == 400
    for version in ("2016-01-01", "latest", ""):
        assert refusal("GET", f"{EVENTS}?api-version={version}")[0] == 400
    assert asked("GET", f"{EVENTS}?api-version=2020-07-01", options=options).query == Poll(NEWEST)


@pytest.mark.parametrize("value", ["true", "True", "TRUE"])
def test_the_metadata_header_counts_in_any_case(value: str) -> None:
    assert asked("GET", f"{EVENTS}?api-version=2020-07-01", metadata=value).query == Poll(NEWEST)


@pytest.mark.parametrize("target", [f"{EVENTS}?api-version=2017-08-01", f"{INSTANCE}?api-version=2017-03-01", EVENTS])
def test_without_the_metadata_header_there_is_no_answer(target: str) -> None:
    assert refusal("GET", target, metadata=None) == (400, NO_HEADER)
    assert refusal("GET", target, metadata="false") == (400, NO_HEADER)
    assert refusal("GET", target, "Metadata: true") == (400, NO_HEADER)


def test_the_preview_version_does_not_ask_for_the_header() -> None:
    assert asked("POST", f"{EVENTS}?api-version=2017-03-01", metadata=None).query == Approve()
    assert asked("GET", f"{EVENTS}?api-version=2017-03-01", metadata=None).query == Poll(BY_NAME["2017-03-01"])


@pytest.mark.parametrize(
    "line",
    [
        "X-Forwarded-For: 1.2.3.4",
        "Forwarded: for=1.2.3.4",
        "x-real-ip: 1.2.3.4",
        "Via: 1.1 proxy",
        "Origin: http://evil",
        "Sec-Fetch-Mode: navigate",
        "Sec-Fetch-Site: none",
        "X-Forwarded-For:",
    ],
)
def test_relayed_requests_and_browsers_are_refused(line: str) -> None:
    status, body = refusal("GET", f"{EVENTS}?api-version=2020-07-01", line)
    assert (status, "Ask directly" in str(body)) == (400, True)


def test_the_fetch_of_node_is_no_browser() -> None:
    """It sends a mode and nothing else of what browsers send; with a site beside it, it is a browser."""
    target = f"{EVENTS}?api-version=2020-07-01"
    assert asked("GET", target, "Sec-Fetch-Mode: cors").query == Poll(BY_NAME["2020-07-01"])
    assert refusal("GET", target, "Sec-Fetch-Mode: cors", "Sec-Fetch-Site: same-origin")[0] == 400


def test_a_parameter_may_be_given_only_once_and_unknown_ones_are_ignored() -> None:
    assert refusal("GET", f"{EVENTS}?api-version=2020-07-01&API-Version=2020-07-01")[0] == 400
    assert refusal("GET", f"{EVENTS}?api-version=2020-07-01&x=1&x=2")[0] == 400
    assert asked("GET", f"{EVENTS}?api-version=2020-07-01&x=1").query == Poll(NEWEST)


def test_refusals_come_in_their_order() -> None:
    """Path, method, relayed, header, duplicates, version, and then what belongs to the path."""
    via, twice = "Via: x", "?api-version=x&api-version=y"
    assert refusal("PUT", "/x", via, metadata=None)[0] == 404
    assert refusal("PUT", EVENTS + twice, via, metadata=None)[0] == 405
    assert "Relayed" in str(refusal("GET", EVENTS + twice, via, metadata=None))
    assert refusal("GET", EVENTS + twice, metadata=None) == (400, NO_HEADER)
    assert "only once" in str(refusal("GET", EVENTS + twice))
    assert "api-version" in str(refusal("GET", EVENTS + "?api-version=x&wait=x"))
    assert "wait" in str(refusal("GET", EVENTS + "?api-version=2020-07-01&wait=x"))


@pytest.mark.parametrize(
    ("path", "allowed"), [(EVENTS, b"GET, POST"), (INSTANCE, b"GET"), ("/metadata/versions", b"GET")]
)
def test_other_methods_are_told_which_there_are(path: str, allowed: bytes) -> None:
    question = asked("PATCH", path).query
    assert isinstance(question, Answer)
    assert question.status == 405
    assert b"\r\nAllow: " + allowed + b"\r\n" in question.tail


def test_head_is_answered_without_a_body_but_with_its_length() -> None:
    with_body, without = asked("PUT", EVENTS).query, asked("HEAD", EVENTS).query
    assert isinstance(with_body, Answer)
    assert isinstance(without, Answer)
    assert with_body.tail.startswith(without.tail)
    assert without.tail.endswith(b"\r\n\r\n")


def test_a_poll_carries_what_the_client_has_and_how_long_it_waits() -> None:
    ask = asked("GET", f"{EVENTS}?api-version=2020-07-01&wait=30s", 'If-None-Match: W/"7"')
    assert ask.query == Poll(NEWEST, frozenset({"7"}), 30.0)
    assert ask.plain is None


def test_only_a_poll_that_wants_the_document_whatever_it_is_takes_the_short_way() -> None:
    assert asked("GET", f"{EVENTS}?api-version=2020-07-01").plain is NEWEST
    assert asked("GET", f"{EVENTS}?api-version=2020-07-01", "If-None-Match: 1").plain is None
    assert asked("POST", f"{EVENTS}?api-version=2020-07-01").plain is None


def test_how_the_connection_goes_on() -> None:
    target = f"{EVENTS}?api-version=2020-07-01"
    manners = [
        asked("GET", target),
        asked("GET", target, "Connection: close"),
        asked("GET", target, minor=0),
        asked("GET", target, "Connection: keep-alive", minor=0),
    ]
    assert [ask.closes for ask in manners] == [False, True, True, False]
    assert [ask.connection for ask in manners] == [b"", CLOSE, CLOSE, KEEP_ALIVE]


@pytest.mark.parametrize("version", INSTANCE_VERSIONS)
def test_a_vm_may_ask_about_itself_in_every_version(version: str) -> None:
    assert asked("GET", f"{INSTANCE}?api-version={version}").query == Describe()


def test_a_vm_may_ask_for_part_of_itself() -> None:
    target = f"{INSTANCE}/compute/name/?api-version=2019-08-01&format=TEXT"
    assert asked("GET", target).query == Describe(("compute", "name"), as_text=True)
    assert refusal("GET", f"{INSTANCE}?api-version=2019-08-01&format=xml")[0] == 400


def test_versions_can_be_asked_for_without_one() -> None:
    assert asked("GET", "/metadata/versions").query == ListVersions()
    assert refusal("GET", "/metadata/versions", metadata=None) == (400, NO_HEADER)
