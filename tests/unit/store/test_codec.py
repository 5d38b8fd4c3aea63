"""Rows: readable, versioned, checked."""

import json
import sqlite3
import tracemalloc
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from duenotice.domain.records import Record
from duenotice.errors import Damaged, Misconfigured
from duenotice.store.codec import RECORDS, SNAPSHOTS, Codec, Row, checksum
from duenotice.store.sqlite import SqliteJournal
from duenotice.testkit.journal_contract import record, snapshot

STORED = b"""{"position":7,"at":"2026-03-01T12:00:00Z","actor":"alice","transition":{"change":"event-raised",
"event":{"id":"E-1","type":"reboot","cause":"maintenance","scope":"set/web","resources":["web-0"],
"not_before":"2026-03-01T12:15:00Z","notice_ends":900000000}}}"""


def row(payload: bytes, position: int = 7, format: int = RECORDS.format) -> Row:
    """A row with a good checksum, whatever is in it."""
    return Row(position, format, checksum(position, format, payload), payload)


def test_a_row_can_be_read_by_a_person() -> None:
    """The payload is plain JSON, with the kind of change in `change`."""
    stored = json.loads(RECORDS.pack(record(3)).payload)
    assert stored == {
        "position": 3,
        "at": "2026-03-01T12:00:00Z",
        "actor": "operator",
        "transition": {"change": "scope-enabled", "scope": "vm/db-0/3"},
        "steady": 0,
    }


@pytest.mark.parametrize(
    ("more", "told", "hint"),
    [
        (1, "was written by a newer duenotice", "Upgrade duenotice"),
        (-1, "was written by a duenotice before the first release", "Begin with an empty data directory"),
    ],
)
def test_another_format_is_refused_with_what_to_do(more: int, told: str, hint: str) -> None:
    """The message names both formats; a row of another version is not damage."""
    of_another = Codec(Record, RECORDS.format + more, 1).pack(record(7))
    known = rf"\(format {RECORDS.format + more}, this one knows {RECORDS.format}\)"
    with pytest.raises(Misconfigured, match=f"record 7 {told} {known}") as caught:
        RECORDS.unpack(of_another)
    assert not isinstance(caught.value, Damaged)
    assert hint in caught.value.hint


def test_a_version_that_only_adds_fields_reads_the_formats_before_it() -> None:
    """So nodes of two versions go on with one journal (N16)."""
    assert Codec(Record, RECORDS.format + 1, RECORDS.format).unpack(RECORDS.pack(record(7))) == record(7)


@pytest.mark.parametrize("field", ["position", "format", "crc"])
def test_a_changed_number_is_damage(field: str) -> None:
    """The checksum covers the position and the format, so a wrong one is never taken for a newer version."""
    good = RECORDS.pack(record(7))
    bad = good._replace(**{field: getattr(good, field) + 1})
    with pytest.raises(Damaged, match="does not match its checksum"):
        RECORDS.unpack(bad)


@pytest.mark.parametrize("field", ["format", "crc", "payload"])
def test_a_missing_value_is_damage(field: str) -> None:
    """A damaged file may give nothing where a value was."""
    nothing: dict[str, Any] = {field: None}
    with pytest.raises(Damaged, match="does not match its checksum"):
        RECORDS.unpack(RECORDS.pack(record(7))._replace(**nothing))


def test_every_changed_byte_is_damage() -> None:
    """No single changed byte of a payload goes unseen."""
    good = SNAPSHOTS.pack(snapshot(7, vms=3))
    for place in range(len(good.payload)):
        changed = bytearray(good.payload)
        changed[place] ^= 0x20
        with pytest.raises(Damaged):
            SNAPSHOTS.unpack(good._replace(payload=bytes(changed)))


@pytest.mark.parametrize(
    "payload",
    [
        *(b"", b"{", b"[]", b"\xff\xfe", b'{"position":7}', b'{"transition":7}', b'{"transition":{}}'),
        STORED.replace(b"event-raised", b"event-unheard-of"),
        STORED.replace(b"900000000", b'"soon"'),
        STORED.replace(b"900000000", b"[]"),
        STORED.replace(b"900000000", b"1e999"),
        STORED.replace(b'"event":{', b'"event":[],"other":{'),
    ],
)
def test_what_cannot_be_decoded_is_damage(payload: bytes) -> None:
    """Bytes that are not a record are damage even if their checksum is right."""
    with pytest.raises(Damaged, match="record 7 cannot be decoded"):
        RECORDS.unpack(row(payload))


def test_a_row_in_the_wrong_place_is_damage() -> None:
    """A payload that says another position than its row is not believed."""
    with pytest.raises(Damaged, match="record 8 says it is at position 7"):
        RECORDS.unpack(row(STORED, position=8))


def test_a_big_snapshot_is_written_in_pieces_and_never_copied_as_a_whole() -> None:
    """The bytes are those of one call; a copy of all of them at once would stop all other threads (S26)."""
    big = snapshot(7, vms=40_000)
    tracemalloc.start()
    try:
        payload = SNAPSHOTS.pack(big).payload
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert payload == msgspec.json.encode(big)
    assert most < 1.5 * len(payload)


def test_a_snapshot_is_stored_as_text_that_a_person_can_read(tmp_path: Path) -> None:
    """However it gets into the database."""
    journal = SqliteJournal(tmp_path)
    journal.append([record(1)])
    journal.save_snapshot(snapshot(1, vms=2))
    journal.close()
    with closing(sqlite3.connect(tmp_path / "journal.db")) as file:
        ((kind, text),) = file.execute("SELECT typeof(payload), payload FROM snapshots")
    assert (kind, text.encode()) == ("text", SNAPSHOTS.pack(snapshot(1, vms=2)).payload)
