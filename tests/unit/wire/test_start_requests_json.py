"""The body of an approval (C01, C03, B03)."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duenotice.errors import Malformed
from duenotice.wire.documents import canonical_id, decode_start_requests
from duenotice.wire.seen_documents import encode_start_requests

ID = "F020BA2E-3BC0-4C40-A10B-86575A9EABD5"
OTHER = "602D9444-D2CD-49C7-8624-8643E7171297"


def test_one_event_is_approved() -> None:
    assert decode_start_requests(f'{{"StartRequests":[{{"EventId":"{ID}"}}]}}'.encode()) == (ID,)


def test_several_are_approved_in_their_order() -> None:
    body = {"StartRequests": [{"EventId": ID}, {"EventId": OTHER}, {"EventId": ID}]}
    assert decode_start_requests(json.dumps(body).encode()) == (ID, OTHER, ID)


@pytest.mark.parametrize("incarnation", [2, "2", None, 2.5, [], {"deep": ["er"]}])
def test_a_document_incarnation_may_be_there_and_is_ignored(incarnation: object) -> None:
    """Old clients send it, as text or as a number."""
    body = {"DocumentIncarnation": incarnation, "StartRequests": [{"EventId": ID}]}
    assert decode_start_requests(json.dumps(body).encode()) == (ID,)


def test_unknown_keys_are_ignored_everywhere() -> None:
    body = {"x": 1, "StartRequests": [{"EventId": ID, "EventType": "Reboot"}]}
    assert decode_start_requests(json.dumps(body).encode()) == (ID,)


@pytest.mark.parametrize("text", [ID, ID.lower(), ID.title(), ID.replace("-", ""), "{" + ID + "}"])
def test_an_id_is_taken_in_any_case_and_written_in_one(text: str) -> None:
    assert decode_start_requests(encode_start_requests((text,))) == (ID,)


@pytest.mark.parametrize("text", ["", "x", "not-a-guid", ID + "0", "é" * 36])
def test_what_is_no_guid_stays_as_it_is_and_will_be_unknown(text: str) -> None:
    """An unknown id and a foreign one are answered alike, so it is not refused here (C03)."""
    assert decode_start_requests(encode_start_requests((text,))) == (text,)
    assert canonical_id(text) == text


@pytest.mark.parametrize(
    "body",
    [
        b'\xef\xbb\xbf{"StartRequests":[{"EventId":"x"}]}',  # PowerShell and its byte order mark
        b' \r\n{ "StartRequests" : [ { "EventId" : "x" } ] }\r\n',
        b'{"StartRequests":[{"EventId":"\\u0078"}]}',
    ],
)
def test_what_json_allows_is_taken(body: bytes) -> None:
    assert decode_start_requests(body) == ("x",)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"StartRequests=x",
        b"{",
        b"{}",
        b"[]",
        b"null",
        b'"x"',
        b'{"StartRequests":null}',
        b'{"StartRequests":{}}',
        b'{"StartRequests":"x"}',
        b'{"StartRequests":[]}',
        b'{"StartRequests":[{}]}',
        b'{"StartRequests":["x"]}',
        b'{"StartRequests":[{"EventId":null}]}',
        b'{"StartRequests":[{"EventId":1}]}',
        b'{"StartRequests":[{"EventId":"x"},{}]}',
        b'{"startrequests":[{"EventId":"x"}]}',
        b'{"StartRequests":[{"EventId":"x"}]} and more',
        b'{"StartRequests":[{"EventId":"\xff"}]}',
        b'{"StartRequests":[{"EventId":"\\ud800"}]}',
        b'{"x":' + b"[" * 60_000,
    ],
    ids=lambda body: body[:40].decode("latin-1"),
)
def test_anything_else_is_malformed_and_told_what_to_send(body: bytes) -> None:
    """C03; the last one nests deeper than any stack."""
    with pytest.raises(Malformed) as error:
        decode_start_requests(body)
    assert '{"StartRequests":[{"EventId":"…"}]}' in error.value.hint


@given(st.lists(st.uuids(), min_size=1))
def test_what_a_client_writes_the_server_reads(ids) -> None:
    written = tuple(str(each).upper() for each in ids)
    assert decode_start_requests(encode_start_requests(written)) == written


@given(st.binary())
def test_any_bytes_are_an_approval_or_malformed(body: bytes) -> None:
    with pytest.raises(Malformed):
        decode_start_requests(body)
