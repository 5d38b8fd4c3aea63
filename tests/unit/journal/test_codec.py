"""Rows: readable, versioned, checked."""

import json
import sqlite3
import tracemalloc
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from duenotice.domain.transitions import EventRaised, Record
from duenotice.errors import Damaged, Misconfigured
from duenotice.journal.codec import RECORDS, SNAPSHOTS, Codec, Plain, Row, checksum
from duenotice.journal.sqlite import SqliteJournal
from duenotice.testkit.journal_examples import record, snapshot

# Written by format 1. These rows must be readable for ever: if this test fails, the stored shape has changed.
OLD_RECORD = b"""{"position":7,"at":"2026-03-01T12:00:00Z","actor":"alice","transition":{"change":"event-raised",
"event":{"id":"E-1","type":"reboot","cause":"maintenance","scope":"set/web","resources":["web-0"],
"not_before":"2026-03-01T12:15:00Z","notice_ends":900.0}}}"""
OLD_SNAPSHOT = b"""{"position":7,"at":"2026-03-01T12:00:00Z","digest":"d","site":{},"hosts":[{"name":"host-1"}],
"groups":[{"kind":"set","name":"web"}],"vms":[{"name":"web-0","address":"127.0.0.1","group":"set/web"}],
"scopes":[{"key":"set/web","incarnation":3,"enabled":true}],"events":[],
"departures":[{"vm":"web-1","scope":"set/web","incarnation":2}],"forgotten":1,
"mark":["2026-03-01T12:00:00Z",12.5,"boot",99.0]}"""


def row(payload: bytes, position: int = 7, format: int = 1) -> Row:
    """A row with a good checksum, whatever is in it."""
    return Row(position, format, checksum(position, format, payload), payload)


def who_to_actor(old: Plain) -> Plain:
    """Format 1 of a made-up past had `who`."""
    return {("actor" if key == "who" else key): value for key, value in old.items()}


def shout(old: Plain) -> Plain:
    """Format 2 of a made-up past had the actor in small letters."""
    return old | {"actor": old["actor"].upper()}


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


def test_old_records_stay_readable() -> None:
    """A record written by format 1 is read by every later duenotice."""
    old = RECORDS.unpack(row(OLD_RECORD))
    assert isinstance(old.transition, EventRaised)
    assert (old.actor, old.transition.event.resources) == ("alice", ("web-0",))


def test_old_snapshots_stay_readable() -> None:
    """A snapshot written by format 1 is read by every later duenotice."""
    old = SNAPSHOTS.unpack(row(OLD_SNAPSHOT))
    assert old.mark is not None
    assert (old.vms[0].name, old.scopes[0].incarnation, old.mark.boot_id) == ("web-0", 3, "boot")


def test_old_formats_are_lifted_step_by_step() -> None:
    """A row of format 1 goes through every upcaster, one of format 2 through the rest, a new one through none."""
    codec = Codec(Record, [who_to_actor, shout])
    first = row(RECORDS.pack(record(7)).payload.replace(b'"actor"', b'"who"'))
    second = row(RECORDS.pack(record(7)).payload, format=2)
    third = codec.pack(record(7))
    assert [codec.unpack(r).actor for r in (first, second, third)] == ["OPERATOR", "OPERATOR", "operator"]
    assert third.format == 3


def test_lifting_keeps_every_type() -> None:
    """A lifted row has the same times, enums and tuples as one that needed no lifting."""
    new = OLD_RECORD.replace(b"900.0", b"900000000")
    assert RECORDS.unpack(row(OLD_RECORD)) == RECORDS.unpack(row(new, format=RECORDS.format))


def test_a_newer_format_is_refused_with_what_to_do() -> None:
    """A row that only a newer duenotice understands names both versions and says to upgrade."""
    newer = Codec(Record, [dict] * 12).pack(record(7))
    with pytest.raises(Misconfigured, match=r"record 7 .* newer duenotice \(format 13, this one knows 12\)") as caught:
        RECORDS.unpack(newer)
    assert not isinstance(caught.value, Damaged)
    assert "Upgrade duenotice" in caught.value.hint


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
        OLD_RECORD.replace(b"event-raised", b"event-unheard-of"),
        OLD_RECORD.replace(b"900.0", b'"soon"'),
        OLD_RECORD.replace(b"900.0", b"[]"),
        OLD_RECORD.replace(b"900.0", b"1e999"),
        OLD_RECORD.replace(b'"event":{', b'"event":[],"other":{'),
    ],
)
def test_what_cannot_be_decoded_is_damage(payload: bytes) -> None:
    """Bytes that are no record are damage even if their checksum is right, also when they need lifting first."""
    with pytest.raises(Damaged, match="record 7 cannot be decoded"):
        RECORDS.unpack(row(payload))
    with pytest.raises(Damaged, match="record 7 cannot be decoded"):
        Codec(Record, [shout]).unpack(row(payload))


def test_a_row_in_the_wrong_place_is_damage() -> None:
    """A payload that says another position than its row is not believed."""
    with pytest.raises(Damaged, match="record 8 says it is at position 7"):
        RECORDS.unpack(row(OLD_RECORD, position=8))


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
