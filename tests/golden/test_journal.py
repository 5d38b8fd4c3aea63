"""The rows of the journal: every kind of record and a snapshot, as SQLite and PostgreSQL have them.

What the tables around these rows are is in test_data_directory.py.
"""

from collections.abc import Iterator
from typing import Any, get_args
from zlib import crc32

import pytest

from duenotice.domain.records import Change, Record, Transition
from duenotice.domain.snapshot import Snapshot
from duenotice.store.codec import RECORDS, SNAPSHOTS, Codec
from tests.golden.compare import assert_golden, assert_same_as_golden, golden
from tests.golden.examples import NOON, bare, full, left_out, reached, words
from tests.golden.rows import block_of_row, blocks_of, page, row_of

KINDS: tuple[type[Change], ...] = get_args(Transition)
RECORD_FILE, SNAPSHOT_FILE, WORD_FILE = "journal_records.txt", "journal_snapshots.txt", "journal_words.txt"
ALL, LEAST = "all fields", "least fields"
ACTOR = 'token/ann "é" \x1b'


def tag(kind: type[Change]) -> str:
    return str(kind.__struct_config__.tag)


def records() -> Iterator[tuple[str, Record]]:
    """Two of each kind, by name: where a kind stands in its union says nothing about what is stored."""
    for kind in sorted(KINDS, key=tag):
        for title, change in ((ALL, full(kind)), (LEAST, bare(kind))):
            if title == ALL or change != full(kind):
                position = 1 + crc32(f"{tag(kind)} {title}".encode()) % 1_000_000
                yield f"{tag(kind)}, {title}", Record(position, NOON, ACTOR, change)


def snapshots() -> Iterator[tuple[str, Snapshot]]:
    yield ALL, full(Snapshot)
    yield LEAST, bare(Snapshot)


def all_words() -> Iterator[str]:
    known: set[Any] = set()
    yield from words(Snapshot, "snapshot", known)
    for kind in sorted(KINDS, key=tag):
        yield from words(kind, tag(kind), known)


def test_every_kind_of_record_is_stored_as_it_was() -> None:
    """Its bytes, format and checksum; one that is new has no block yet, one that is gone has a block too many."""
    blocks = [block_of_row(title, RECORDS.pack(record), record) for title, record in records()]
    assert_golden(RECORD_FILE, page("Rows of the table `records`.", blocks))


def test_a_snapshot_is_stored_as_it_was() -> None:
    """With each form of each field."""
    blocks = [block_of_row(title, SNAPSHOTS.pack(snapshot), snapshot) for title, snapshot in snapshots()]
    assert_golden(SNAPSHOT_FILE, page("Rows of the table `snapshots`.", blocks))


def test_the_words_that_are_stored_are_those_that_were() -> None:
    """Also those that no row of these files has, because they are the default."""
    assert_golden(WORD_FILE, "\n".join(["Words in rows of the journal, where they are first.", "", *all_words()]))


@pytest.mark.parametrize(("file", "codec"), [(RECORD_FILE, RECORDS), (SNAPSHOT_FILE, SNAPSHOTS)])
def test_what_was_stored_is_read_as_it_was(file: str, codec: Codec[Any]) -> None:
    """From the bytes in the file, with the defaults of all fields that these do not have."""
    read = [block._replace(value=codec.unpack(row_of(block))) for block in blocks_of(golden(file))]
    assert read
    assert_same_as_golden(file, page(golden(file).split("\n\n")[0], read))


def test_every_kind_has_its_rows() -> None:
    """Derived from the union, so that none can be forgotten."""
    titled = {block.title.partition(",")[0] for block in blocks_of(golden(RECORD_FILE))}
    assert titled == {tag(kind) for kind in KINDS}


@pytest.mark.parametrize(
    "kind",
    dict.fromkeys([*reached(Record), *reached(Snapshot)]),
    ids=lambda kind: str(kind.__name__),
)
def test_the_examples_leave_no_field_out(kind: type[Any]) -> None:
    """A field that has only its default is not stored, so that its name would not be seen."""
    assert left_out(kind) == []
