"""The answer to a request is opaque in the journal; those that older journals hold in parts are read as the same."""

import base64
import json
from datetime import timedelta

import pytest

from duenotice.domain.kept_answers import KeptAnswer
from duenotice.domain.transitions import Record, RequestAnswered
from duenotice.errors import Damaged
from duenotice.journal.codec import RECORDS, SNAPSHOTS, Row, checksum
from duenotice.testkit.journal_examples import NOON
from duenotice.wire.operator.from_domain import record
from duenotice.wire.stored_answer import StoredAnswer, unpacked

# As formats 2, 3 and 4 have written it. These rows must be readable for ever.
IN_PARTS = b"""{"position":7,"at":"2026-03-01T12:00:00Z","actor":"token/ci","transition":{"change":"request-answered",
"key":"k","fingerprint":"f","until":"2026-03-02T12:00:00Z","status":201,"body":"{\\"events\\":[]}","location":"/v1/events/E-1"}}"""
IN_BYTES = b"""{"position":7,"at":"2026-03-01T12:00:00Z","actor":"token/ci","transition":{"change":"request-answered",
"key":"k","fingerprint":"f","until":"2026-03-02T12:00:00Z",
"answer":"eyJzdGF0dXMiOjIwMSwiYm9keSI6IntcImV2ZW50c1wiOltdfSIsImxvY2F0aW9uIjoiL3YxL2V2ZW50cy9FLTEifQ=="}}"""
ANSWER = StoredAnswer(201, '{"events":[]}', "/v1/events/E-1")


def read(payload: bytes, format: int) -> Record:
    """The record in a row with a good checksum."""
    return RECORDS.unpack(Row(7, format, checksum(7, format, payload), payload))


@pytest.mark.parametrize(("payload", "format"), [(IN_PARTS, 2), (IN_PARTS, 3), (IN_BYTES, 4), (IN_BYTES, 7)])
def test_an_answer_of_every_format_is_read_as_it_was_given(payload: bytes, format: int) -> None:
    change = read(payload, format).transition
    assert isinstance(change, RequestAnswered)
    assert (change.key, change.fingerprint, change.until) == ("k", "f", NOON + timedelta(days=1))
    assert change.until_steady == 0  # nobody had written it down
    assert unpacked(change.answer) == ANSWER
    details = record(read(payload, format)).details
    assert (details.status, details.location) == (201, "/v1/events/E-1")


def test_an_answer_without_a_location_has_none_afterwards() -> None:
    """Such as that of a request that has made nothing."""
    bare = IN_PARTS.replace(b',"location":"/v1/events/E-1"', b"")
    change = read(bare, 3).transition
    assert isinstance(change, RequestAnswered)
    assert unpacked(change.answer) == StoredAnswer(201, '{"events":[]}')


def test_the_newest_format_holds_the_answer_as_one_value() -> None:
    change = RequestAnswered("k", "f", NOON + timedelta(days=1), ANSWER.packed(), 86_400_000_007)
    row = RECORDS.pack(Record(7, NOON, "token/ci", change))
    with_steady = IN_BYTES.replace(b"\n", b"").replace(b'"}}', b'","until_steady":86400000007},"steady":0}')
    assert (row.format, row.payload) == (12, with_steady)
    stored = json.loads(row.payload)["transition"]["answer"]
    assert unpacked(base64.b64decode(stored)) == ANSWER


def test_other_records_of_the_format_before_are_read_as_they_are() -> None:
    other = (
        b'{"position":7,"at":"2026-03-01T12:00:00Z","actor":"a","transition":{"change":"scope-enabled","scope":"vm/a"}}'
    )
    assert read(other, 3) == read(other, 4)


def test_a_snapshot_of_the_format_before_has_its_answers() -> None:
    payload = b"""{"position":7,"at":"2026-03-01T12:00:00Z",
"requests":[{"key":"k","fingerprint":"f","position":3,"until":"2026-03-02T12:00:00Z"}]}"""
    old = SNAPSHOTS.unpack(Row(7, 6, checksum(7, 6, payload), payload))
    assert old.requests == (KeptAnswer("k", "f", 3, NOON + timedelta(days=1), 0),)
    assert SNAPSHOTS.pack(old).format == 11


def test_an_answer_that_is_no_bytes_is_damage() -> None:
    with pytest.raises(Damaged, match="record 7 cannot be decoded"):
        read(IN_BYTES.replace(b"eyJ", b"?!?"), 4)
