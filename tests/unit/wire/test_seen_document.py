"""What a VM takes for a document, and what it sends back (H06, S14)."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duenotice.domain.event import EventType
from duenotice.errors import Malformed
from duenotice.wire import api_versions
from duenotice.wire.seen_documents import (
    ADVICE,
    SeenDocument,
    SeenEvent,
    encode_start_requests,
    event_from_json,
    event_to_json,
    read_document,
)

MOMENT = datetime(2016, 9, 19, 18, 29, 47, tzinfo=UTC)
EVENT = SeenEvent("ID-1", "Scheduled", "Reboot", ("web-0", "web-1"), MOMENT)
SHOWN = {
    "EventId": "ID-1",
    "EventStatus": "Scheduled",
    "EventType": "Reboot",
    "Resources": ["web-0", "web-1"],
    "NotBefore": "Mon, 19 Sep 2016 18:29:47 GMT",
}


def body(*events: object, incarnation: object = 3) -> bytes:
    """A document as bytes."""
    return json.dumps({"DocumentIncarnation": incarnation, "Events": list(events)}).encode()


def test_what_an_old_version_does_not_show_is_at_its_default() -> None:
    """B09, B10."""
    assert read_document(body(SHOWN)) == SeenDocument(3, (EVENT,))
    seen = read_document(body(SHOWN)).events[0]
    assert (seen.description, seen.source, seen.duration, seen.resource_type) == ("", "Platform", -1, "VirtualMachine")


@pytest.mark.parametrize("key", ["NotBefore", "Description", "EventSource", "DurationInSeconds", "ResourceType"])
def test_null_says_no_more_than_a_key_left_out(key: str) -> None:
    without = {name: value for name, value in SHOWN.items() if name != key}
    assert read_document(body({**SHOWN, key: None})) == read_document(body(without))


def test_keys_types_and_statuses_of_newer_servers_are_let_through() -> None:
    seen = read_document(body({**SHOWN, "EventType": "Melt", "EventStatus": "Paused", "New": {"a": [1.5]}}))
    assert (seen.events[0].type, seen.events[0].status) == ("Melt", "Paused")


def test_the_id_is_upper_case_whatever_came() -> None:
    """B03."""
    assert read_document(body({**SHOWN, "EventId": "ab-1"})).events[0].event_id == "AB-1"


def test_an_empty_not_before_is_no_moment() -> None:
    """B08: the trap that real clients crash on."""
    assert read_document(body({**SHOWN, "NotBefore": ""})).events[0].not_before is None


def test_numbers_written_as_text_are_numbers_all_the_same() -> None:
    seen = read_document(body({**SHOWN, "DurationInSeconds": "-1"}, incarnation="30"))
    assert (seen.incarnation, seen.events[0].duration) == (30, -1)


def test_a_byte_order_mark_is_passed_over() -> None:
    assert read_document(b"\xef\xbb\xbf" + body()) == SeenDocument(3, ())


def test_the_first_vm_hit_leads() -> None:
    """H03."""
    assert EVENT.leader == "web-0"
    assert SeenEvent("ID-1", "Started", "Freeze", (), None).leader is None


def test_an_event_hits_those_it_names_and_nobody_whose_name_is_alike() -> None:
    """H01."""
    assert EVENT.hits("web-0") and EVENT.hits("web-1")
    assert not any(EVENT.hits(name) for name in ("web", "web-", "WEB-0", "_web-0", "web-00", ""))


def test_the_underscore_of_the_preview_is_taken_off_once_and_only_when_told() -> None:
    """B10: our own service may have a VM that is really called so."""
    odd = body({**SHOWN, "Resources": ["_web-0", "__web-1", "Front_IN_0"]})
    assert read_document(odd, underscore=True).events[0].resources == ("web-0", "_web-1", "Front_IN_0")
    assert read_document(odd).events[0].resources == ("_web-0", "__web-1", "Front_IN_0")


def test_only_started_is_started() -> None:
    assert SeenEvent("ID-1", "Started", "Freeze", (), None).started
    assert not EVENT.started


@pytest.mark.parametrize(
    "wrong",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"<html>502 Bad Gateway</html>",
        b'{"DocumentIncarnation":1}',
        b'{"Events":[]}',
        b'{"DocumentIncarnation":1,"Events":null}',
        b'{"DocumentIncarnation":1,"Events":{}}',
        b'{"DocumentIncarnation":1,"Events":["ID-1"]}',
        b'{"DocumentIncarnation":1,"Events":[{}]}',
        b'{"DocumentIncarnation":1,"Events":[{"EventId":"A"',
        b'{"DocumentIncarnation":1,"Events":[]} trailing',
        b'{"DocumentIncarnation":"x","Events":[]}',
        b'{"DocumentIncarnation":"","Events":[]}',
        b'{"DocumentIncarnation":null,"Events":[]}',
        b'{"DocumentIncarnation":true,"Events":[]}',
        b'{"DocumentIncarnation":1.0,"Events":[]}',
        b'{"DocumentIncarnation":NaN,"Events":[]}',
        b'{"DocumentIncarnation":-1,"Events":[]}',
        b'{"DocumentIncarnation":' + b"9" * 5000 + b',"Events":[]}',
        b'{"DocumentIncarnation":1,"Events":[],"Events":[]}',
        b'{"documentincarnation":1,"events":[]}',
        b'{"DocumentIncarnation":1,"Events":[{"EventId":"\xff"}]}',
        '{"DocumentIncarnation":1,"Events":[]}'.encode("utf-16"),
        b'{"error":"Bad request. Required metadata header not specified"}',
        b'{"x":' + b"[" * 100_000,
        body({**SHOWN, "EventId": ""}),
        body({**SHOWN, "EventId": 7}),
        body({**SHOWN, "EventStatus": None}),
        body({**SHOWN, "EventType": ["Reboot"]}),
        body({**SHOWN, "Resources": "web-0"}),
        body({**SHOWN, "Resources": ["web-0", None]}),
        body({**SHOWN, "NotBefore": "soon"}),
        body({**SHOWN, "NotBefore": 1474309787}),
        body({**SHOWN, "DurationInSeconds": 9.5}),
        body({**SHOWN, "Description": "\ud800"}),
        body(SHOWN, {**SHOWN, "EventId": "id-1"}),
    ],
    ids=lambda wrong: wrong[-60:].decode("latin-1"),
)
def test_anything_that_is_no_document_is_an_error_and_never_no_events(wrong: bytes) -> None:
    with pytest.raises(Malformed, match=r"(?m)^This is not a Scheduled Events document: .*[^.]\.$") as error:
        read_document(wrong)
    assert error.value.hint


@given(st.binary())
def test_any_bytes_are_a_document_or_malformed(wrong: bytes) -> None:
    with pytest.raises(Malformed):
        read_document(wrong)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys((*SHOWN, "Description", "DurationInSeconds"), JSON)))
def test_any_event_is_read_or_malformed(shown: dict[str, object]) -> None:
    try:
        assert len(read_document(body({**SHOWN, **shown})).events) == 1
    except Malformed as error:
        assert error.hint


EVENTS = st.builds(
    SeenEvent,
    st.uuids().map(lambda each: str(each).upper()),
    st.sampled_from(["Scheduled", "Started"]),
    st.sampled_from(["Freeze", "Reboot", "Melt"]),
    st.lists(TEXTS).map(tuple),
    st.none() | st.datetimes(datetime(1970, 1, 1)).map(lambda at: at.replace(microsecond=0, tzinfo=UTC)),  # noqa: DTZ001
    TEXTS,
    TEXTS,
    st.integers(-1, 10**6),
)


@given(EVENTS)
def test_an_event_survives_the_way_through_json(event: SeenEvent) -> None:
    """Names with quotes, newlines and NUL too."""
    assert event_from_json(json.loads(json.dumps(event_to_json(event)))) == event


def test_an_event_is_written_under_the_keys_of_the_contract_in_their_order() -> None:
    assert list(event_to_json(EVENT).items()) == [
        ("EventId", "ID-1"),
        ("EventStatus", "Scheduled"),
        ("EventType", "Reboot"),
        ("ResourceType", "VirtualMachine"),
        ("Resources", ["web-0", "web-1"]),
        ("NotBefore", "Mon, 19 Sep 2016 18:29:47 GMT"),
        ("Description", ""),
        ("EventSource", "Platform"),
        ("DurationInSeconds", -1),
    ]


@pytest.mark.parametrize("wrong", [None, [], {}, {**SHOWN, "NotBefore": "soon"}])
def test_what_is_no_event_is_malformed(wrong: object) -> None:
    with pytest.raises(Malformed, match="This is not an event"):
        event_from_json(wrong)


def test_an_approval_is_compact_json() -> None:
    """C01."""
    assert encode_start_requests(["A", 'B"']) == b'{"StartRequests":[{"EventId":"A"},{"EventId":"B\\""}]}'


def test_the_type_that_is_advice_has_one_name_on_both_sides() -> None:
    assert ADVICE == api_versions.ADVICE == api_versions.TYPE_NAMES[EventType.SPOT_REBALANCE_RECOMMENDATION]
