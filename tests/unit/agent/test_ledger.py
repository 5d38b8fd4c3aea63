"""The ledger on disk: durable lines, torn ends, damage, one agent at a time, and a size that does not grow."""

import asyncio
import os
import threading
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from duenotice.agent.ledger import BLOCK, COMPACT_ABOVE, NAME, Ledger, encode, is_taken, read_events, read_ledger
from duenotice.agent.state import snapshot
from duenotice.errors import Conflict, Damaged, Misconfigured
from tests.unit.agent.build import ID, append, event, record, seen

RECORDS = (
    seen(),
    record("preparing", "a"),
    record("note", "a", key="units", value=["web", "db"]),
    record("prepared", "a"),
)


def written(directory: Path) -> Path:
    ledger = Ledger(directory)
    append(ledger, *RECORDS)
    asyncio.run(ledger.close())
    return directory / NAME


def test_what_was_appended_is_there_after_a_restart(tmp_path: Path):
    """Events, notes and states come back as they were."""
    written(tmp_path)
    ledger = Ledger(tmp_path)
    work = ledger.events[ID].runs["a"]
    assert (ledger.events[ID].seen, work.state, work.notes) == (event(), "prepared", {"units": ["web", "db"]})
    asyncio.run(ledger.close())


def test_a_line_torn_at_any_byte_is_cut_off(tmp_path: Path):
    """Nobody acted on a record that was not whole; the others stand, and writing goes on."""
    whole = written(tmp_path / "whole").read_bytes()
    lines = whole.splitlines(keepends=True)
    for cut in range(2, len(lines[-1])):
        directory = tmp_path / str(cut)
        directory.mkdir()
        (directory / NAME).write_bytes(whole[:-cut])
        ledger = Ledger(directory)
        assert ledger.events[ID].runs["a"].state == "preparing"
        append(ledger, RECORDS[-1])
        asyncio.run(ledger.close())
        assert (directory / NAME).read_bytes() == whole


def test_a_last_line_without_one_of_its_blocks_is_cut_off(tmp_path: Path):
    """After power loss a block may be missing although a later one is there."""
    file = written(tmp_path)
    size = len(file.read_bytes())
    to_the_next_block = -size % BLOCK + BLOCK
    file.write_bytes(file.read_bytes() + b"\0" * to_the_next_block + b"rest of it\n")
    assert read_ledger(file)[1:] == (size, False)


def lines_of_which_the_last_begins_at(place: int) -> list[bytes]:
    """The place is one in a block of the disk."""
    first = (snapshot({}), seen(), record("preparing", "a"))
    before = sum(len(encode(each)) for each in (*first, record("note", "a", key="filler", value="")))
    filler = record("note", "a", key="filler", value="x" * ((place - before) % BLOCK))
    return [encode(each) for each in (*first, filler, record("note", "a", key="last", value="y" * 300))]


def test_whichever_blocks_of_the_last_line_a_power_cut_loses_the_ledger_can_be_read(tmp_path: Path):
    """The line counts or is cut off; it counts if one byte is missing, because that could also be damage (S15)."""
    file = tmp_path / NAME
    for place in range(BLOCK):
        lines = lines_of_which_the_last_begins_at(place)
        start, whole = sum(map(len, lines[:-1])), b"".join(lines)
        assert start % BLOCK == place
        file.write_bytes(whole)
        records = read_ledger(file).records
        blocks = range(start - place, len(whole), BLOCK)
        for lost in (each for count in range(1, len(blocks) + 1) for each in combinations(blocks, count)):
            torn = bytearray(whole)
            for at in lost:
                first, end = max(at, start), min(at + BLOCK, len(whole))
                torn[first:end] = bytes(end - first)
            missing = sum(byte != there for byte, there in zip(whole, torn, strict=True))
            for left in (bytes(torn), torn.rstrip(b"\0")):
                file.write_bytes(left)
                assert read_ledger(file).records == (records if missing == 1 else records[:-1]), (place, lost)


def test_a_line_whose_first_byte_was_lost_with_its_block_is_still_read_when_others_follow_it(tmp_path: Path):
    """The agent goes on behind it, and starts again later; all other damage is still noticed (S12)."""
    file = tmp_path / NAME
    *before, last = lines_of_which_the_last_begins_at(BLOCK - 1)
    file.write_bytes(b"".join(before) + b"\0" + last[1:])
    for handler in ("b", "c"):
        ledger = Ledger(tmp_path)
        assert ledger.events[ID].runs["a"].notes["last"] == "y" * 300
        append(ledger, record("preparing", handler))
        asyncio.run(ledger.close())
    assert set(read_events(tmp_path)[ID].runs) == {"a", "b", "c"}
    whole, start = file.read_bytes(), sum(map(len, before))
    for at in range(start, start + len(last)):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(Damaged, match="line 5"):
            read_ledger(file)
    elsewhere = len(before[0])
    file.write_bytes(whole[:elsewhere] + b"\0" + whole[elsewhere + 1 :])
    with pytest.raises(Damaged, match="line 2"):
        read_ledger(file)


def test_a_last_line_that_misses_only_its_line_end_counts(tmp_path: Path):
    """All of it is there; what is written next begins a line of its own."""
    file = written(tmp_path)
    whole = file.read_bytes()
    for end in (b"", b"\x0b"):
        file.write_bytes(whole[:-1] + end)
        asyncio.run(Ledger(tmp_path).close())
        assert file.read_bytes() == whole


def of_50_records(directory: Path) -> Path:
    ledger = Ledger(directory)
    for number in range(48):
        append(ledger, record("note", "a", key="step", value=number) if number else seen())
    append(ledger, record("preparing", "a"), record("prepared", "a"))
    asyncio.run(ledger.close())
    return directory / NAME


def compacted(directory: Path) -> Path:
    ledger = Ledger(directory)
    append(ledger, *RECORDS)
    ledger._compact()
    asyncio.run(ledger.close())
    assert (directory / NAME).read_bytes().count(b"\n") == 1
    return directory / NAME


@pytest.mark.parametrize("made", [of_50_records, compacted])
def test_one_damaged_byte_anywhere_is_noticed_or_does_no_harm(made: Callable[[Path], Path], tmp_path: Path):
    """Never is a ledger shorter without a word: the machine would stay drained (S12, S15)."""
    file = made(tmp_path)
    whole, records = file.read_bytes(), read_ledger(file).records
    assert len(records) in (51, 1)
    refused, last_line = 0, whole.rindex(b"\n", 0, -1) if len(records) > 1 else 0
    for at, byte in enumerate(whole):
        for other in {byte ^ (1 << at % 8)} | ({0, 10} - {byte} if at >= last_line else set()):
            file.write_bytes(whole[:at] + bytes([other]) + whole[at + 1 :])
            try:
                assert read_ledger(file).records == records, (at, other)
            except Damaged:
                refused += 1
    assert refused >= (len(whole) - len(records) - 1)


def test_an_empty_file_is_no_ledger(tmp_path: Path):
    """The agent gives a file its name when the first line is in it."""
    (tmp_path / NAME).write_bytes(b"")
    with pytest.raises(Damaged, match="line 1"):
        Ledger(tmp_path)


@pytest.mark.parametrize("line", [0, 1, 2, 3, 4])
def test_a_damaged_line_stops_the_agent(tmp_path: Path, line: int):
    """A ledger with a hole could approve early, so a person must look (S12)."""
    file = written(tmp_path)
    lines = file.read_bytes().splitlines(keepends=True)
    lines[line] = lines[line].replace(b"2026", b"2027").replace(b"1970", b"1971")  # still good JSON
    file.write_bytes(b"".join(lines))
    with pytest.raises(Damaged, match=f"line {line + 1}") as caught:
        Ledger(tmp_path)
    assert "by hand" in caught.value.hint
    assert not is_taken(tmp_path)


def test_one_agent_at_a_time(tmp_path: Path):
    """A second one is refused while the first lives, and only then."""
    ledger = Ledger(tmp_path)
    assert is_taken(tmp_path)
    with pytest.raises(Conflict, match="Another agent"):
        Ledger(tmp_path)
    asyncio.run(ledger.close())
    assert not is_taken(tmp_path)
    asyncio.run(Ledger(tmp_path).close())


def test_one_agent_at_a_time_whatever_is_removed(tmp_path: Path):
    """The lock is on the directory; no file in it can be taken away to get past it (S12)."""
    ledger = Ledger(tmp_path)
    for file in tmp_path.iterdir():
        file.unlink()
    with pytest.raises(Conflict, match="Another agent"):
        Ledger(tmp_path)
    asyncio.run(ledger.close())


@pytest.mark.parametrize(
    "harm",
    [
        lambda file: file.unlink(),
        lambda file: file.rename(file.with_name("elsewhere")),
        lambda file: file.write_bytes(b""),
        lambda file: file.write_bytes(file.read_bytes() + b"x"),
        lambda file: (file.unlink(), file.write_bytes(b"somebody else's")),
    ],
)
@pytest.mark.parametrize("looked_after", [True, False])
def test_a_ledger_that_is_lost_while_the_agent_runs_is_written_anew(
    harm: Callable[[Path], Any], looked_after: bool, tmp_path: Path
):
    """The agent knows what was in it; no record goes where nobody will find it (S13, S15, S32)."""
    ledger, file = Ledger(tmp_path), tmp_path / NAME
    append(ledger, *RECORDS[:2])
    harm(file)
    if looked_after:
        asyncio.run(ledger.look_after())
        assert read_events(tmp_path) == ledger.events
    append(ledger, *RECORDS[2:])
    asyncio.run(ledger.look_after())
    assert ledger.times_lost == 1
    asyncio.run(ledger.close())
    assert read_events(tmp_path)[ID].runs["a"].state == "prepared"


def test_a_state_directory_that_was_moved_is_locked_and_written_again_where_it_should_be(tmp_path: Path):
    """A second agent could start there otherwise, and both would act (S12)."""
    state = tmp_path / "state"
    ledger = Ledger(state)
    append(ledger, *RECORDS)
    for number, put_another in enumerate((False, True), start=1):
        state.rename(tmp_path / f"old-{number}")
        if put_another:
            state.mkdir()
        asyncio.run(ledger.look_after())
        assert is_taken(state) and read_events(state) == ledger.events and ledger.times_lost == number
    asyncio.run(ledger.close())


def test_a_state_directory_that_another_agent_has_now_is_not_written_to(tmp_path: Path):
    """Of two agents that would act, one must end (S12)."""
    state = tmp_path / "state"
    ledger = Ledger(state)
    state.rename(tmp_path / "old")
    other = Ledger(state)
    for use in (ledger.look_after(), ledger.append(RECORDS[0])):
        with pytest.raises(Conflict, match="Another agent runs"):
            asyncio.run(use)
    assert read_events(state) == {}
    asyncio.run(other.close())
    asyncio.run(ledger.close())


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, ""),
        ({"f_bfree": 15, "f_bavail": 15}, "Only 60 KiB are left"),
        ({"f_bfree": 16, "f_bavail": 16}, ""),
        ({"f_flag": os.ST_RDONLY}, "is read-only"),
        ({"f_files": 9, "f_ffree": 0}, "takes no more files"),
    ],
)
def test_a_disk_that_will_be_full_is_noticed_before_there_is_something_to_record(
    changed: dict[str, int], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Then there is time to make room (S32)."""
    usual = {"f_bfree": 99, "f_bavail": 99, "f_frsize": 4096, "f_files": 0, "f_ffree": 0, "f_flag": 0}
    ledger = Ledger(tmp_path)
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(**usual | changed))
    asyncio.run(ledger.look_after())
    assert said in ledger.shortage and bool(said) == bool(ledger.shortage)
    asyncio.run(ledger.close())


def test_a_slow_disk_holds_up_nothing_but_what_waits_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The loop goes on with polls, ports and the timeouts of hooks."""
    sync, may_end = os.fsync, threading.Event()

    def slow(file: int) -> None:
        assert may_end.wait(60)
        sync(file)

    async def scene() -> None:
        ledger = Ledger(tmp_path)
        monkeypatch.setattr(os, "fsync", slow)
        writing = asyncio.ensure_future(ledger.append(seen()))
        await asyncio.sleep(0.05)  # the loop turns
        assert not ledger.events and not writing.done()
        may_end.set()
        await writing
        assert list(ledger.events) == [ID]
        await ledger.close()

    asyncio.run(scene())


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path):
    """With what to do about it."""
    (tmp_path / "file").write_text("")
    with pytest.raises(Misconfigured, match="state directory"):
        Ledger(tmp_path / "file" / "state")


def test_a_full_disk_loses_nothing_that_was_promised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The record that found no room counts for nothing; when there is room again it can be written."""
    ledger = Ledger(tmp_path)
    append(ledger, RECORDS[0])

    write, room = os.write, [10]

    def full(file: int, data: bytes) -> int:
        if not room:
            raise OSError(28, "No space left on device")
        return write(file, data[: room.pop()])

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        with pytest.raises(Misconfigured, match="No space left"):
            append(ledger, RECORDS[1])
    assert ledger.events[ID].runs == {}
    append(ledger, RECORDS[1])
    asyncio.run(ledger.close())
    assert read_events(tmp_path)[ID].runs["a"].state == "preparing"


def test_a_disk_that_becomes_read_only_in_the_middle_of_a_line_leaves_no_hole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Half a line cannot even be taken back; that is done before the next one is written (S12)."""
    ledger = Ledger(tmp_path)
    append(ledger, seen())
    write = os.write

    def half(file: int, data: bytes) -> int:
        if len(data) < 50:
            raise OSError(30, "Read-only file system")
        return write(file, data[: len(data) - 20])

    def refuse(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", half)
        patched.setattr(os, "ftruncate", refuse)
        with pytest.raises(Misconfigured, match="Read-only"):
            append(ledger, record("preparing", "a"))
    append(ledger, record("preparing", "b"))
    asyncio.run(ledger.close())
    assert [each.handler for each in read_ledger(tmp_path / NAME).records] == ["", "", "b"]


def test_a_long_life_stays_small(tmp_path: Path):
    """It is written anew, as what it all adds up to, before it grows without bound (S24)."""
    ledger = Ledger(tmp_path)
    append(ledger, *RECORDS)
    for number in range(300):
        append(ledger, record("note", "a", key="progress", value=f"{number:04}" * 500))
    before = dict(ledger.events)
    asyncio.run(ledger.close())
    assert (tmp_path / NAME).stat().st_size < COMPACT_ABOVE + 4096
    assert read_events(tmp_path) == before
    assert not list(tmp_path.glob("*.new"))


def test_no_room_to_write_it_anew_is_no_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The old file goes on, and every record counts."""
    ledger = Ledger(tmp_path)
    append(ledger, seen(), record("preparing", "a"))
    write = os.write

    def full(file: int, data: bytes) -> int:
        if Path(f"/proc/self/fd/{file}").readlink().suffix == ".new":
            raise OSError(28, "No space left on device")
        return write(file, data)

    monkeypatch.setattr(os, "write", full)
    for number in range(200):
        append(ledger, record("note", "a", key="progress", value=f"{number:04}" * 500))
    before = dict(ledger.events)
    asyncio.run(ledger.close())
    assert (tmp_path / NAME).stat().st_size > COMPACT_ABOVE
    assert read_events(tmp_path) == before and not list(tmp_path.glob("*.new"))


def test_closed_cases_are_forgotten_in_time(tmp_path: Path):
    """A person sees the last ones; the open one stays, however old (S24)."""
    ledger = Ledger(tmp_path)
    append(ledger, seen(), record("preparing", "a"))
    for number in range(60):
        other = event(event_id=f"E{number}")
        append(ledger, seen(other), record("returning", of=other, reason="gone"))
    assert ID in ledger.events and "E59" in ledger.events and "E0" not in ledger.events
    assert len(ledger.events) < 30
    asyncio.run(ledger.close())


def test_only_its_owner_can_read_it(tmp_path: Path):
    """Notes may hold what a handler would not say aloud."""
    assert written(tmp_path).stat().st_mode & 0o077 == 0
