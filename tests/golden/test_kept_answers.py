"""What is kept of a request with an Idempotency-Key, so that it gets the same answer again."""

from datetime import timedelta

from duenotice.domain.records import Record, RequestAnswered
from duenotice.domain.snapshot import Snapshot
from duenotice.domain.state import IdempotencyRecord
from duenotice.store.codec import RECORDS, SNAPSHOTS
from duenotice.wire.operator.service import StoredAnswer, unpacked
from tests.golden.compare import assert_golden, assert_same_as_golden, golden
from tests.golden.examples import NOON
from tests.golden.rows import Block, block_of_row, blocks_of, page, row_of

FILE = "kept_answers.txt"
HEAD = "Answers to requests with a key: as they are packed, in a record of the journal, and in a snapshot."
DIGEST = "2f7d" * 16
ANSWERS = {
    "an event was created": StoredAnswer(201, '{"events":[{"id":"E-1","description":"\\"é\\""}]}', "/v1/events/E-1"),
    "nothing was raised": StoredAnswer(200, '{"events":[]}'),
}
UNTIL = NOON + timedelta(days=1)
CHANGE = RequestAnswered(DIGEST, DIGEST[::-1], UNTIL, ANSWERS["an event was created"].packed(), 86_400_000_000)
RECORD = Record(7, NOON, "token/ann", CHANGE)
SNAPSHOT = Snapshot(7, NOON, idempotency=(IdempotencyRecord(DIGEST, DIGEST[::-1], 7, UNTIL, 86_400_000_000),))
IN_RECORD, IN_SNAPSHOT = "its record", "where it is kept, in a snapshot"


def test_an_answer_is_kept_as_it_was() -> None:
    """Status, body and place; opaque in the journal."""
    blocks = [Block(title, "packed", answer.packed().decode(), answer) for title, answer in ANSWERS.items()]
    blocks += [block_of_row(IN_RECORD, RECORDS.pack(RECORD), RECORD)]
    blocks += [block_of_row(IN_SNAPSHOT, SNAPSHOTS.pack(SNAPSHOT), SNAPSHOT)]
    assert_golden(FILE, page(HEAD, blocks))


def test_an_answer_that_was_kept_is_read_as_it_was() -> None:
    """From its record to its bytes."""
    read = {block.title: block for block in blocks_of(golden(FILE))}
    found = [read[title]._replace(value=unpacked(read[title].stored.encode())) for title in ANSWERS]
    record = RECORDS.unpack(row_of(read[IN_RECORD]))
    snapshot = SNAPSHOTS.unpack(row_of(read[IN_SNAPSHOT]))
    blocks = [*found, read[IN_RECORD]._replace(value=record), read[IN_SNAPSHOT]._replace(value=snapshot)]
    assert_same_as_golden(FILE, page(HEAD, blocks))
    assert isinstance(record.transition, RequestAnswered)
    assert unpacked(record.transition.answer) == ANSWERS["an event was created"]
