"""What the agent keeps in its state directory: the ledger, and the small files beside it."""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args

import pytest
from msgspec import structs

from duenotice.agent.drill import Drill, current, inject
from duenotice.agent.ledger import NAME, encode, read_events, read_ledger
from duenotice.agent.state import Events, HandlerRun, LedgerRecord, RecordKind, TrackedEvent, apply, snapshot
from duenotice.wire.seen_documents import SeenEvent
from tests.golden.compare import assert_golden, assert_same_as_golden, golden
from tests.golden.examples import NOON, bare, full, left_out, reached
from tests.golden.rows import Block, blocks_of, page

LEDGER_FILE, BESIDE_FILE = "agent_ledger.txt", "agent_files.txt"
HEAD = "Lines of agent.ledger: a checksum, a blank, a record. The last one stands for all before it."

ID = "805C2F53-88EE-4045-95F8-788FD1634F66"
EVENT = SeenEvent(
    ID,
    "Scheduled",
    "Reboot",
    ("web-0", "web-1"),
    NOON + timedelta(minutes=15),
    'Words "é"',
    "User",
    9,
    "VirtualMachine",
)
DRILLED = SeenEvent("DRILL-1", "Started", "Freeze", ("web-0",), None)
CONTENT = "0123456789abcdef0123456789abcdef"
STORY = [
    LedgerRecord("seen", ID, NOON, "boot-1", seen=EVENT),
    LedgerRecord("preparing", ID, NOON, "boot-1", "units", CONTENT),
    LedgerRecord("note", ID, NOON, "boot-1", "units", key="stopped", value=["web.service", 1, 2.5, True, None]),
    LedgerRecord("prepared", ID, NOON, "boot-1", "units", CONTENT),
    LedgerRecord("preparing", ID, NOON, "boot-1", "hook", CONTENT),
    LedgerRecord("failed", ID, NOON, "boot-1", "hook", CONTENT, "exit 1"),
    LedgerRecord("undone", ID, NOON, "boot-1", "units", reason="web.service was started"),
    LedgerRecord("again", ID, NOON, "boot-1", "hook", CONTENT),
    LedgerRecord("skipped", ID, NOON, "boot-1", "hook", CONTENT, "a person has asked for it"),
    LedgerRecord("unprepared", ID, NOON, "boot-1", reason="units was undone."),
    LedgerRecord("approved", ID, NOON, "boot-1", revision=CONTENT),
    LedgerRecord("returning", ID, NOON, "boot-2", reason="rebooted"),
    LedgerRecord("recovering", ID, NOON, "boot-2", "hook", CONTENT),
    LedgerRecord("stuck", ID, NOON, "boot-2", "hook", CONTENT, "exit 2"),
    LedgerRecord("recovered", ID, NOON, "boot-2", "units", CONTENT),
    LedgerRecord("seen", "DRILL-1", NOON, "boot-2", seen=DRILLED, drill=True),
]
"""The fields of each record are those that the agent fills."""


def records() -> Iterator[tuple[str, LedgerRecord]]:
    """The story, a record with each field, and what the story adds up to."""
    yield "each field there is", EVERYTHING
    yield "a case with nothing but what it needs", bare_case()
    yield from ((record.kind, record) for record in STORY)
    yield "snapshot, of all that is above from `seen` on", snapshot(events(STORY))


def events(story: list[LedgerRecord]) -> Events:
    made: Events = {}
    for record in story:
        apply(made, record)
    return made


EVERYTHING: LedgerRecord = full(LedgerRecord)


def bare_case() -> LedgerRecord:
    """A case and a work with nothing but what they need."""
    tracked: TrackedEvent = bare(TrackedEvent)
    return LedgerRecord("snapshot", "", NOON, events={"x": structs.replace(tracked, runs={"y": bare(HandlerRun)})})


def test_each_kind_of_record_is_a_line_as_it_was() -> None:
    """Its checksum and its JSON, and how it is read."""
    blocks = [Block(title, "", encode(record).decode().rstrip("\n"), record) for title, record in records()]
    assert_golden(LEDGER_FILE, page(HEAD, blocks))


def test_the_story_has_each_kind_of_record() -> None:
    """A new one has to be told here."""
    assert {record.kind for _, record in records()} == set(get_args(RecordKind))
    assert {block.title.partition(",")[0] for block in blocks_of(golden(LEDGER_FILE))} >= set(get_args(RecordKind))


@pytest.mark.parametrize("kind", reached(LedgerRecord), ids=lambda kind: str(kind.__name__))
def test_the_examples_leave_no_field_out(kind: type[Any]) -> None:
    """A field that has only its default is not stored, so that its name would not be seen."""
    assert left_out(kind) == []


def test_a_ledger_that_was_written_is_read_as_it_was(tmp_path: Path) -> None:
    """Line by line, and as what it adds up to: the same as its snapshot says."""
    blocks = list(blocks_of(golden(LEDGER_FILE)))
    path = tmp_path / NAME
    path.write_text("".join(f"{block.stored}\n" for block in blocks))
    found = read_ledger(path).records
    read = [block._replace(value=record) for block, record in zip(blocks, found, strict=True)]
    assert_same_as_golden(LEDGER_FILE, page(HEAD, read))
    assert read_events(tmp_path) == events(STORY)


def beside(path: Path) -> dict[str, str]:
    """The small files, as the agent writes them."""
    inject(path, DRILL)
    return {file.name: file.read_text() for file in sorted(path.iterdir())}


DRILL: Drill = structs.replace(full(Drill), event_id="DRILL-1")


def test_the_files_beside_the_ledger_are_those_that_were(tmp_path: Path) -> None:
    """The drill that is asked for."""
    assert_golden(BESIDE_FILE, "".join(f"{name} {text}\n" for name, text in beside(tmp_path).items()))


def test_files_that_were_written_are_read_as_they_were(tmp_path: Path) -> None:
    for line in golden(BESIDE_FILE).splitlines():
        name, _, text = line.partition(" ")
        (tmp_path / name).write_text(text)
    assert current(tmp_path, {}) == DRILL
    assert json.loads((tmp_path / "drill.json").read_text())["event_id"] == DRILL.event_id
