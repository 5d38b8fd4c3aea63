"""A document as each api-version shows it, to the byte, and back (section B, S8)."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duenotice.domain.document import EMPTY, Document
from duenotice.domain.event import Cause, Event, EventType, Phase, description_of
from duenotice.errors import Malformed
from duenotice.wire.api_versions import API_VERSIONS, BY_NAME, ApiVersion
from duenotice.wire.document_json import (
    RESOURCE_TYPE,
    SOURCE_NAMES,
    STATUS_NAMES,
    TYPE_NAMES,
    decode_document,
    encode_document,
    format_iso,
    format_rfc1123,
    parse_time,
)

MOMENT = datetime(2016, 9, 19, 18, 29, 47, tzinfo=UTC)
NEWEST = API_VERSIONS[-1]


def event(number: int, event_type: EventType, cause: Cause, *resources: str, **more: object) -> Event:
    """An event in a scope of its own words."""
    words = description_of(event_type, cause)
    return Event(f"ID-{number}", event_type, cause, "set/web", resources, MOMENT, 0.0, words).with_(**more)


DOCUMENT = Document(
    7,
    (
        event(1, EventType.FREEZE, Cause.MAINTENANCE, "web-0", "web-1", duration=9),
        event(2, EventType.REBOOT, Cause.USER, "web-2", phase=Phase.STARTED),
        event(3, EventType.REDEPLOY, Cause.DEGRADED_HOST, "FrontEnd_IN_0", scope="service/shop", duration=0),
        event(4, EventType.PREEMPT, Cause.EVICTION, "batch_0"),
        event(5, EventType.TERMINATE, Cause.DELETION, "batch_1", phase=Phase.STARTED),
    ),
)
"""Every type, both phases."""

AS_SEEN = {
    "2017-03-01": (
        b'{"DocumentIncarnation":7,"Events":['
        b'{"EventId":"ID-1","EventStatus":"Scheduled","EventType":"Freeze","ResourceType":"VirtualMachine",'
        b'"Resources":["_web-0","_web-1"],"NotBefore":"2016-09-19T18:29:47Z"},'
        b'{"EventId":"ID-2","EventStatus":"Started","EventType":"Reboot","ResourceType":"VirtualMachine",'
        b'"Resources":["_web-2"],"NotBefore":""},'
        b'{"EventId":"ID-3","EventStatus":"Scheduled","EventType":"Redeploy","ResourceType":"VirtualMachine",'
        b'"Resources":["FrontEnd_IN_0"],"NotBefore":"2016-09-19T18:29:47Z"}]}'
    ),
    "2017-08-01": (
        b'{"DocumentIncarnation":7,"Events":['
        b'{"EventId":"ID-1","EventStatus":"Scheduled","EventType":"Freeze","ResourceType":"VirtualMachine",'
        b'"Resources":["web-0","web-1"],"NotBefore":"Mon, 19 Sep 2016 18:29:47 GMT"},'
        b'{"EventId":"ID-2","EventStatus":"Started","EventType":"Reboot","ResourceType":"VirtualMachine",'
        b'"Resources":["web-2"],"NotBefore":""},'
        b'{"EventId":"ID-3","EventStatus":"Scheduled","EventType":"Redeploy","ResourceType":"VirtualMachine",'
        b'"Resources":["FrontEnd_IN_0"],"NotBefore":"Mon, 19 Sep 2016 18:29:47 GMT"}]}'
    ),
    "2017-11-01": (
        b'{"DocumentIncarnation":7,"Events":['
        b'{"EventId":"ID-1","EventStatus":"Scheduled","EventType":"Freeze","ResourceType":"VirtualMachine",'
        b'"Resources":["web-0","web-1"],"NotBefore":"Mon, 19 Sep 2016 18:29:47 GMT"},'
        b'{"EventId":"ID-2","EventStatus":"Started","EventType":"Reboot","ResourceType":"VirtualMachine",'
        b'"Resources":["web-2"],"NotBefore":""},'
        b'{"EventId":"ID-3","EventStatus":"Scheduled","EventType":"Redeploy","ResourceType":"VirtualMachine",'
        b'"Resources":["FrontEnd_IN_0"],"NotBefore":"Mon, 19 Sep 2016 18:29:47 GMT"},'
        b'{"EventId":"ID-4","EventStatus":"Scheduled","EventType":"Preempt","ResourceType":"VirtualMachine",'
        b'"Resources":["batch_0"],"NotBefore":"Mon, 19 Sep 2016 18:29:47 GMT"}]}'
    ),
    "2019-01-01": (
        b'{"DocumentIncarnation":7,"Events":['
        b'{"EventId":"ID-1","EventStatus":"Scheduled","EventType":"Freeze","ResourceType":"VirtualMachine",'
        b'"Resources":["web-0","web-1"],"NotBefore":"Mon, 19 Sep 2016 18:29:47 GMT"},'
        b'{"EventId":"ID-2","EventStatus":"Started","EventType":"Reboot","ResourceType":"VirtualMachine",'
        b'"Resources":["web-2"],"NotBefore":""},'
        b'{"EventId":"ID-3","EventStatus":"Scheduled","EventType":"Redeploy","ResourceType":"VirtualMachine",'
        b'"Resources":["FrontEnd_IN_0"],"NotBefore":"Mon, 19 Sep 2016 18:29:47 GMT"},'
        b'{"EventId":"ID-4","EventStatus":"Scheduled","EventType":"Preempt","ResourceType":"VirtualMachine",'
        b'"Resources":["batch_0"],"NotBefore":"Mon, 19 Sep 2016 18:29:47 GMT"},'
        b'{"EventId":"ID-5","EventStatus":"Started","EventType":"Terminate","ResourceType":"VirtualMachine",'
        b'"Resources":["batch_1"],"NotBefore":""}]}'
    ),
    "2019-04-01": (
        b'{"DocumentIncarnation":7,"Events":['
        b'{"EventId":"ID-1","EventStatus":"Scheduled","EventType":"Freeze","ResourceType":"VirtualMachine",'
        b'"Resources":["web-0","web-1"],"NotBefore":"Mon, 19 Sep 2016 18:29:47 GMT",'
        b'"Description":"Host server is undergoing maintenance."},'
        b'{"EventId":"ID-2","EventStatus":"Started","EventType":"Reboot","ResourceType":"VirtualMachine",'
        b'"Resources":["web-2"],"NotBefore":"",'
        b'"Description":"Virtual machine is going to be restarted as requested by authorized user."},'
        b'{"EventId":"ID-3","EventStatus":"Scheduled","EventType":"Redeploy","ResourceType":"VirtualMachine",'
        b'"Resources":["FrontEnd_IN_0"],"NotBefore":"Mon, 19 Sep 2016 18:29:47 GMT",'
        b'"Description":"Host server is undergoing maintenance."},'
        b'{"EventId":"ID-4","EventStatus":"Scheduled","EventType":"Preempt","ResourceType":"VirtualMachine",'
        b'"Resources":["batch_0"],"NotBefore":"Mon, 19 Sep 2016 18:29:47 GMT","Description":""},'
        b'{"EventId":"ID-5","EventStatus":"Started","EventType":"Terminate","ResourceType":"VirtualMachine",'
        b'"Resources":["batch_1"],"NotBefore":"",'
        b'"Description":"Virtual machine is going to be deleted as requested by authorized user."}]}'
    ),
    "2019-08-01": (
        b'{"DocumentIncarnation":7,"Events":['
        b'{"EventId":"ID-1","EventStatus":"Scheduled","EventType":"Freeze","ResourceType":"VirtualMachine",'
        b'"Resources":["web-0","web-1"],"NotBefore":"Mon, 19 Sep 2016 18:29:47 GMT",'
        b'"Description":"Host server is undergoing maintenance.","EventSource":"Platform"},'
        b'{"EventId":"ID-2","EventStatus":"Started","EventType":"Reboot","ResourceType":"VirtualMachine",'
        b'"Resources":["web-2"],"NotBefore":"",'
        b'"Description":"Virtual machine is going to be restarted as requested by authorized user.",'
        b'"EventSource":"User"},'
        b'{"EventId":"ID-3","EventStatus":"Scheduled","EventType":"Redeploy","ResourceType":"VirtualMachine",'
        b'"Resources":["FrontEnd_IN_0"],"NotBefore":"Mon, 19 Sep 2016 18:29:47 GMT",'
        b'"Description":"Host server is undergoing maintenance.","EventSource":"Platform"},'
        b'{"EventId":"ID-4","EventStatus":"Scheduled","EventType":"Preempt","ResourceType":"VirtualMachine",'
        b'"Resources":["batch_0"],"NotBefore":"Mon, 19 Sep 2016 18:29:47 GMT","Description":"",'
        b'"EventSource":"Platform"},'
        b'{"EventId":"ID-5","EventStatus":"Started","EventType":"Terminate","ResourceType":"VirtualMachine",'
        b'"Resources":["batch_1"],"NotBefore":"",'
        b'"Description":"Virtual machine is going to be deleted as requested by authorized user.",'
        b'"EventSource":"User"}]}'
    ),
    "2020-07-01": (
        b'{"DocumentIncarnation":7,"Events":['
        b'{"EventId":"ID-1","EventStatus":"Scheduled","EventType":"Freeze","ResourceType":"VirtualMachine",'
        b'"Resources":["web-0","web-1"],"NotBefore":"Mon, 19 Sep 2016 18:29:47 GMT",'
        b'"Description":"Host server is undergoing maintenance.","EventSource":"Platform","DurationInSeconds":9},'
        b'{"EventId":"ID-2","EventStatus":"Started","EventType":"Reboot","ResourceType":"VirtualMachine",'
        b'"Resources":["web-2"],"NotBefore":"",'
        b'"Description":"Virtual machine is going to be restarted as requested by authorized user.",'
        b'"EventSource":"User","DurationInSeconds":-1},'
        b'{"EventId":"ID-3","EventStatus":"Scheduled","EventType":"Redeploy","ResourceType":"VirtualMachine",'
        b'"Resources":["FrontEnd_IN_0"],"NotBefore":"Mon, 19 Sep 2016 18:29:47 GMT",'
        b'"Description":"Host server is undergoing maintenance.","EventSource":"Platform","DurationInSeconds":0},'
        b'{"EventId":"ID-4","EventStatus":"Scheduled","EventType":"Preempt","ResourceType":"VirtualMachine",'
        b'"Resources":["batch_0"],"NotBefore":"Mon, 19 Sep 2016 18:29:47 GMT","Description":"",'
        b'"EventSource":"Platform","DurationInSeconds":-1},'
        b'{"EventId":"ID-5","EventStatus":"Started","EventType":"Terminate","ResourceType":"VirtualMachine",'
        b'"Resources":["batch_1"],"NotBefore":"",'
        b'"Description":"Virtual machine is going to be deleted as requested by authorized user.",'
        b'"EventSource":"User","DurationInSeconds":-1}]}'
    ),
}


@pytest.mark.parametrize("version", API_VERSIONS, ids=lambda version: version.name)
class TestEveryVersion:
    """What holds for each api-version."""

    def test_shows_exactly_its_fields_types_and_formats(self, version: ApiVersion) -> None:
        """S8, to the byte: compact, keys in the order of the contract."""
        assert encode_document(DOCUMENT, version) == AS_SEEN[version.name]

    def test_shows_an_empty_list_when_nothing_is_scheduled(self, version: ApiVersion) -> None:
        assert encode_document(EMPTY, version) == b'{"DocumentIncarnation":0,"Events":[]}'
        assert encode_document(Document(4), version) == b'{"DocumentIncarnation":4,"Events":[]}'

    def test_is_read_back_as_it_was_written(self, version: ApiVersion) -> None:
        """Server and client use the same code."""
        seen = decode_document(encode_document(DOCUMENT, version))
        shown = [event for event in DOCUMENT.events if event.type in version.types]
        assert seen.document_incarnation == 7
        assert len(seen.events) == len(shown)
        for read, written in zip(seen.events, shown, strict=True):
            assert read.event_id == written.id
            assert read.event_status == STATUS_NAMES[written.phase]
            assert read.event_type == TYPE_NAMES[written.type]
            assert read.resource_type == RESOURCE_TYPE
            assert read.starts_after == (MOMENT if written.phase is Phase.SCHEDULED else None)
            assert read.description == (written.description if version.description else "")
            assert read.event_source == (SOURCE_NAMES[written.source] if version.source else "Platform")
            assert read.duration_in_seconds == (written.duration if version.duration else -1)


def test_what_old_clients_do_not_know_they_never_meet() -> None:
    """B10: neither key nor type."""
    old = json.loads(encode_document(DOCUMENT, BY_NAME["2017-03-01"]))
    assert {name for shown in old["Events"] for name in shown} == {
        "EventId",
        "EventStatus",
        "EventType",
        "ResourceType",
        "Resources",
        "NotBefore",
    }
    assert {shown["EventType"] for shown in old["Events"]} == {"Freeze", "Reboot", "Redeploy"}


@pytest.mark.parametrize(
    ("scope", "name", "shown"),
    [
        ("vm/db-0", "db-0", "_db-0"),
        ("set/web", "web-0", "_web-0"),
        ("scale-set/batch/0", "batch_0", "_batch_0"),
        ("service/shop", "FrontEnd_IN_0", "FrontEnd_IN_0"),
        ("vm/Odd_IN_0", "Odd_IN_0", "_Odd_IN_0"),  # a VM with the name of a role instance
    ],
)
def test_the_preview_puts_an_underscore_before_names_but_not_before_role_instances(
    scope: str, name: str, shown: str
) -> None:
    document = Document(1, (event(1, EventType.REBOOT, Cause.USER, name, scope=scope),))
    assert json.loads(encode_document(document, BY_NAME["2017-03-01"]))["Events"][0]["Resources"] == [shown]
    assert json.loads(encode_document(document, NEWEST))["Events"][0]["Resources"] == [name]


def test_words_of_an_operator_are_escaped_as_json_wants_it() -> None:
    """S23: any input yields a valid document."""
    words = 'quotes " and \\ and\nlines, ünïcödé, \x00 and 🚧'
    document = Document(1, (event(1, EventType.REBOOT, Cause.USER, "web-0", description=words),))
    assert decode_document(encode_document(document, NEWEST)).events[0].description == words


class TestDates:
    """NotBefore in two formats (B08)."""

    @pytest.fixture(params=["UTC", "Asia/Tokyo", "America/New_York"], autouse=True)
    def _wherever_the_machine_is(
        self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[None]:
        monkeypatch.setenv("TZ", request.param)
        time.tzset()
        yield
        monkeypatch.undo()
        time.tzset()

    def test_rfc_1123_is_in_english_with_two_digits_and_gmt(self) -> None:
        assert format_rfc1123(MOMENT) == "Mon, 19 Sep 2016 18:29:47 GMT"
        assert format_rfc1123(datetime(2026, 2, 1, 3, 4, 5, tzinfo=UTC)) == "Sun, 01 Feb 2026 03:04:05 GMT"

    def test_iso_8601_ends_with_a_z(self) -> None:
        assert format_iso(MOMENT) == "2016-09-19T18:29:47Z"
        assert format_iso(datetime(987, 1, 2, tzinfo=UTC)) == "0987-01-02T00:00:00Z"

    @pytest.mark.parametrize(
        "text",
        [
            "Mon, 19 Sep 2016 18:29:47 GMT",
            "Mon, 19 Sep 2016 18:29:47 +0000",
            "Mon, 19 Sep 2016 18:29:47 -0000",
            "Mon, 19 Sep 2016 20:29:47 +0200",
            "2016-09-19T18:29:47Z",
            "2016-09-19T20:29:47+02:00",
            "2016-09-19T18:29:47",
        ],
    )
    def test_either_is_read_and_without_an_offset_it_is_utc(self, text: str) -> None:
        assert parse_time(text) == MOMENT
        assert parse_time(text).tzinfo is UTC

    @pytest.mark.parametrize(
        "text", ["", "soon", "Mon, 99 Sep 2016 18:29:47 GMT", "2016-13-01", "0001-01-01T00:00:00+23:00", "9" * 50]
    )
    def test_anything_else_is_malformed(self, text: str) -> None:
        with pytest.raises(Malformed, match="is not a time"):
            parse_time(text)


@given(st.integers(0, 253_402_300_799))
def test_every_second_from_1970_to_9999_survives_both_formats(seconds: int) -> None:
    moment = datetime.fromtimestamp(seconds, UTC)
    assert parse_time(format_rfc1123(moment)) == moment
    assert parse_time(format_iso(moment)) == moment


@given(st.text())
def test_any_text_is_a_time_or_malformed(text: str) -> None:
    try:
        assert parse_time(text).tzinfo is UTC
    except Malformed as error:
        assert error.hint


class TestReading:
    """What a client takes for a document (H06, S14)."""

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"{}",
            b"[]",
            b"null",
            b"<html>502 Bad Gateway</html>",
            b'{"DocumentIncarnation":1}',
            b'{"Events":[]}',
            b'{"DocumentIncarnation":1,"Events":null}',
            b'{"DocumentIncarnation":1,"Events":[{}]}',
            b'{"DocumentIncarnation":1,"Events":[{"EventId":"A"',
            b'{"DocumentIncarnation":1,"Events":[]} trailing',
            b'{"DocumentIncarnation":"x","Events":[]}',
            b'{"DocumentIncarnation":1,"Events":[{"EventId":"\xff"}]}',
            b'{"error":"Bad request. Required metadata header not specified"}',
            b'{"x":' + b"[" * 100_000,
        ],
        ids=lambda body: body[:40].decode("latin-1"),
    )
    def test_anything_that_is_no_document_is_an_error_and_never_no_events(self, body: bytes) -> None:
        with pytest.raises(Malformed, match="not a Scheduled Events document"):
            decode_document(body)

    def test_unknown_keys_of_newer_servers_are_no_matter(self) -> None:
        assert decode_document(b'{"DocumentIncarnation":3,"Events":[],"New":{"a":[1]}}').document_incarnation == 3

    def test_an_incarnation_written_as_text_is_a_number_all_the_same(self) -> None:
        assert decode_document(b'{"DocumentIncarnation":"3","Events":[]}').document_incarnation == 3

    @given(st.binary())
    def test_any_bytes_are_a_document_or_malformed(self, body: bytes) -> None:
        with pytest.raises(Malformed):
            decode_document(body)
