"""A call of the operator's API as bytes."""

from datetime import UTC, datetime, timedelta
from types import NoneType

import pytest

from duenotice import __version__
from duenotice.client.operator.request import OperatorRequest, delete, format_span, get, post, probe, put, target
from duenotice.errors import Malformed
from duenotice.http.http1 import encode
from duenotice.wire.operator import CancelRequest, Clock, Event, FleetChange, Health, NewToken, TokenRequest


@pytest.mark.parametrize(
    ("path", "query", "written"),
    [
        (("vms",), {}, "/v1/vms"),
        (("vms", "a/b c"), {}, "/v1/vms/a%2Fb%20c"),
        (("vms", "\udc80"), {}, "/v1/vms/%3F"),
        (("vms",), {"group": "set/web", "host": "", "limit": 0, "cursor": None}, "/v1/vms?group=set%2Fweb&limit=0"),
        (("vms", "a", "document"), {"api_version": "2020-07-01"}, "/v1/vms/a/document?api-version=2020-07-01"),
        (("timeline",), {"to": datetime(2026, 1, 2, tzinfo=UTC), "from_": "x"},
         "/v1/timeline?to=2026-01-02T00%3A00%3A00%2B00%3A00&from=x"),
        (("fleet",), {"dry_run": False}, "/v1/fleet?dry_run=false"),
    ],
)  # fmt: skip
def test_a_target_is_made_of_parts_and_a_query(path: tuple[str, ...], query: dict[str, str], written: str) -> None:
    """What is empty is left out."""
    assert target(*path, **query) == written


def test_a_get_has_no_body_and_no_length() -> None:
    assert encode(get(Clock, "clock").to_http("dn_x"), "h:1", keep=True) == (
        b"GET /v1/clock HTTP/1.1\r\nHost: h:1\r\nAccept-Encoding: identity\r\nAuthorization: Bearer dn_x\r\n"
        b"User-Agent: duenotice/%b\r\n\r\n" % __version__.encode()
    )
    assert probe(Health, "/readyz", verbose="1").target == "/readyz?verbose=1"


def test_a_post_has_json_and_its_length() -> None:
    request = post(Event, "events", "A", "cancel", body=CancelRequest("no need")).to_http("t")
    data = encode(request, "h", keep=True)
    head, _, body = data.partition(b"\r\n\r\n")
    assert body == b'{"reason":"no need"}'
    assert b"\r\nContent-Type: application/json" in head and b"\r\nContent-Length: 20" in head


def test_a_post_without_a_body_says_that_it_is_empty() -> None:
    """Some proxies refuse one that does not."""
    data = encode(post(Event, "events", "A", "approve").to_http("t"), "h", keep=True)
    assert data.endswith(b"\r\nContent-Length: 0\r\n\r\n")


def test_a_fleet_is_sent_as_the_toml_it_is() -> None:
    request = put(FleetChange, "fleet", toml="[[vms]]", dry_run=True)
    assert (request.target, request.body, request.media) == ("/v1/fleet?dry_run=true", b"[[vms]]", "application/toml")


def test_without_a_token_none_is_sent() -> None:
    assert "Authorization" not in get(Clock, "clock").to_http("").headers


@pytest.mark.parametrize(
    ("request_", "may"),
    [
        (get(Clock, "clock"), True),
        (post(Event, "events", "A", "approve"), False),
        (OperatorRequest("POST", "/v1/events", Event, takes_key=True, key="k"), True),
        (post(NewToken, "tokens", body=TokenRequest("a", "viewer"), once=True), False),
        (put(FleetChange, "fleet", toml=""), False),
        (delete("tokens", "A"), False),
    ],
)
def test_only_a_get_or_what_has_a_key_may_be_repeated(request_: OperatorRequest[object], may: bool) -> None:
    """The service does what has the same key once (S6)."""
    assert request_.may_be_repeated is may


def test_what_is_removed_has_no_answer() -> None:
    assert delete("vms", "a", "fault").kind is NoneType


def test_spans_are_written_with_their_unit() -> None:
    assert (format_span("1h30m"), format_span(timedelta(seconds=1.5))) == ("1h30m", "1.500000s")


def test_what_is_not_text_is_not_sent() -> None:
    """Python reads bytes of a shell that are not text as halves of characters."""
    with pytest.raises(Malformed, match="not Unicode"):
        post(Event, "events", "A", "cancel", body=CancelRequest("\udc80"))
