"""The ledger on disk: durable lines, torn ends, damage, one agent at a time, and a size that does not grow."""

import os
from pathlib import Path

import pytest

from duenotice.agent.ledger import COMPACT_ABOVE, NAME, Ledger, is_taken, read_cases, read_ledger
from duenotice.errors import Conflict, Damaged, Misconfigured
from tests.unit.agent.build import ID, event, record, seen

RECORDS = (
    seen(),
    record("preparing", "a"),
    record("note", "a", key="units", value=["web", "db"]),
    record("prepared", "a"),
)


def written(directory: Path) -> Path:
    ledger = Ledger(directory)
    ledger.append(*RECORDS)
    ledger.close()
    return directory / NAME


def test_what_was_appended_is_there_after_a_restart(tmp_path: Path):
    """Events, notes and states come back as they were."""
    written(tmp_path)
    ledger = Ledger(tmp_path)
    work = ledger.cases[ID].works["a"]
    assert (ledger.cases[ID].event, work.state, work.notes) == (event(), "prepared", {"units": ["web", "db"]})
    ledger.close()


def test_a_line_torn_at_any_byte_is_cut_off(tmp_path: Path):
    """Nobody acted on a record that was not whole; the others stand, and writing goes on."""
    whole = written(tmp_path / "whole").read_bytes()
    lines = whole.splitlines(keepends=True)
    for cut in range(1, len(lines[-1])):
        directory = tmp_path / str(cut)
        directory.mkdir()
        (directory / NAME).write_bytes(whole[:-cut])
        ledger = Ledger(directory)
        assert ledger.cases[ID].works["a"].state == "preparing"
        ledger.append(RECORDS[-1])
        ledger.close()
        assert (directory / NAME).read_bytes() == whole


def test_a_last_line_of_garbage_is_cut_off(tmp_path: Path):
    """After power loss a block may be there with other bytes than were written."""
    file = written(tmp_path)
    file.write_bytes(file.read_bytes() + b"\0" * 40 + b"\n")
    assert len(read_ledger(file).records) == len(RECORDS)


@pytest.mark.parametrize("line", [0, 1, 2])
def test_damage_in_the_middle_stops_the_agent(tmp_path: Path, line: int):
    """A ledger with a hole could approve early, so a person must look (S12)."""
    file = written(tmp_path)
    lines = file.read_bytes().splitlines(keepends=True)
    lines[line] = lines[line].replace(b"805C2F53", b"905C2F53")  # still good JSON
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
    ledger.close()
    assert not is_taken(tmp_path)
    Ledger(tmp_path).close()


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path):
    """With what to do about it."""
    (tmp_path / "file").write_text("")
    with pytest.raises(Misconfigured, match="state directory"):
        Ledger(tmp_path / "file" / "state")


def test_a_full_disk_loses_nothing_that_was_promised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The record that found no room counts for nothing; when there is room again it can be written."""
    ledger = Ledger(tmp_path)
    ledger.append(RECORDS[0])

    write, room = os.write, [10]

    def full(file: int, data: bytes) -> int:
        if not room:
            raise OSError(28, "No space left on device")
        return write(file, data[: room.pop()])

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        with pytest.raises(Misconfigured, match="No space left"):
            ledger.append(RECORDS[1])
    assert ledger.cases[ID].works == {}
    ledger.append(RECORDS[1])
    ledger.close()
    assert read_cases(tmp_path)[ID].works["a"].state == "preparing"


def test_a_disk_that_becomes_read_only_in_the_middle_of_a_line_leaves_no_hole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Half a line cannot even be taken back; that is done before the next one is written (S12)."""
    ledger = Ledger(tmp_path)
    ledger.append(seen())
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
            ledger.append(record("preparing", "a"))
    ledger.append(record("preparing", "b"))
    ledger.close()
    assert [each.handler for each in read_ledger(tmp_path / NAME).records] == ["", "b"]


def test_a_long_life_stays_small(tmp_path: Path):
    """It is written anew, as what it all adds up to, before it grows without bound (S24)."""
    ledger = Ledger(tmp_path)
    ledger.append(*RECORDS)
    for number in range(300):
        ledger.append(record("note", "a", key="progress", value=f"{number:04}" * 500))
    before = dict(ledger.cases)
    ledger.close()
    assert (tmp_path / NAME).stat().st_size < COMPACT_ABOVE + 4096
    assert read_cases(tmp_path) == before
    assert not list(tmp_path.glob("*.new"))


def test_no_room_to_write_it_anew_is_no_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The old file goes on, and every record counts."""
    ledger = Ledger(tmp_path)
    ledger.append(seen(), record("preparing", "a"))
    write = os.write

    def full(file: int, data: bytes) -> int:
        if Path(f"/proc/self/fd/{file}").readlink().suffix == ".new":
            raise OSError(28, "No space left on device")
        return write(file, data)

    monkeypatch.setattr(os, "write", full)
    for number in range(200):
        ledger.append(record("note", "a", key="progress", value=f"{number:04}" * 500))
    before = dict(ledger.cases)
    ledger.close()
    assert (tmp_path / NAME).stat().st_size > COMPACT_ABOVE
    assert read_cases(tmp_path) == before and not list(tmp_path.glob("*.new"))


def test_closed_cases_are_forgotten_in_time(tmp_path: Path):
    """A person sees the last ones; the open one stays, however old (S24)."""
    ledger = Ledger(tmp_path)
    ledger.append(seen(), record("preparing", "a"))
    for number in range(60):
        other = event(event_id=f"E{number}")
        ledger.append(seen(other), record("returning", of=other, reason="gone"))
    assert ID in ledger.cases and "E59" in ledger.cases and "E0" not in ledger.cases
    assert len(ledger.cases) < 30
    ledger.close()


def test_only_its_owner_can_read_it(tmp_path: Path):
    """Notes may hold what a handler would not say aloud."""
    assert written(tmp_path).stat().st_mode & 0o077 == 0
