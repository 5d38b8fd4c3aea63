"""What a node notes in its data directory about a journal that is elsewhere; damage of it does no harm."""

from pathlib import Path

import pytest

from duenotice.clock import Alive
from duenotice.errors import Conflict, Misconfigured
from duenotice.store.data_dir import CHECKPOINT_FILE, CheckpointFile, LocalCheckpoint


def test_what_was_noted_is_known_to_the_next_process(tmp_path: Path) -> None:
    notes = CheckpointFile(tmp_path)
    notes.note(cluster="c", life="l", position=7, crc=1)
    notes.note(seen=6, alive=Alive("boot", 12))
    notes.close()
    again = CheckpointFile(tmp_path)
    assert again.latest == LocalCheckpoint("c", "l", 7, 1, 6, Alive("boot", 12))
    again.close()


def test_the_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    CheckpointFile(tmp_path).close()
    assert (tmp_path / CHECKPOINT_FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("damage", [b"", b"\0" * 1024, b'{"cluster": "c", "position"', b"[]", b"\xff"])
def test_notes_that_cannot_be_read_count_as_none(tmp_path: Path, damage: bytes) -> None:
    """After a power loss anything may be there."""
    (tmp_path / CHECKPOINT_FILE).write_bytes(damage)
    notes = CheckpointFile(tmp_path)
    assert notes.latest == LocalCheckpoint()
    notes.note(position=3)
    notes.close()
    again = CheckpointFile(tmp_path)
    assert again.latest.position == 3
    again.close()


def test_without_a_directory_nothing_is_kept() -> None:
    notes = CheckpointFile(None)
    notes.note(position=3)
    assert notes.latest.position == 3
    notes.close()
    notes.close()


def test_one_process_at_a_time_has_the_directory(tmp_path: Path) -> None:
    notes = CheckpointFile(tmp_path)
    with pytest.raises(Conflict, match="is in use by process"):
        CheckpointFile(tmp_path)
    notes.close()
    CheckpointFile(tmp_path).close()


def test_a_file_that_cannot_be_used_is_told_and_lets_the_directory_go(tmp_path: Path) -> None:
    (tmp_path / CHECKPOINT_FILE).mkdir()
    with pytest.raises(Misconfigured, match="cannot be used"):
        CheckpointFile(tmp_path)
    (tmp_path / CHECKPOINT_FILE).rmdir()
    CheckpointFile(tmp_path).close()


def test_a_directory_belongs_to_the_journal_that_it_was_used_with(tmp_path: Path) -> None:
    notes = CheckpointFile(tmp_path)
    notes.refuse_unless_of("mine", "the database")
    notes.note(cluster="mine")
    notes.refuse_unless_of("mine", "the database")
    with pytest.raises(Misconfigured, match="the database has another journal"):
        notes.refuse_unless_of("another", "the database")
    notes.close()
