"""The data directory: one process at a time, and a note of how far the journal had come."""

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from duenotice.clock import Alive
from duenotice.errors import Conflict, Misconfigured
from duenotice.store.data_dir import DataDirectory

HOLD = "import sys, pathlib; from duenotice.store.data_dir import DataDirectory; \
lock = DataDirectory(pathlib.Path(sys.argv[1])); print(flush=True); sys.stdin.read()"


def test_a_second_process_is_told_who_is_there(tmp_path: Path) -> None:
    """The refusal names the directory and the process, and says what to do; when that process ends, all is free."""
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdin and other.stdout and other.stdout.readline()
        with pytest.raises(Conflict) as caught:
            DataDirectory(tmp_path)
        assert caught.value.message == f"the data directory {tmp_path} is in use by process {other.pid}"
        assert "Stop that process" in caught.value.hint
        other.kill()
    DataDirectory(tmp_path).release()


def test_a_second_lock_in_the_same_process_is_refused(tmp_path: Path) -> None:
    """Two engines in one process are two as well."""
    lock = DataDirectory(tmp_path)
    with pytest.raises(Conflict, match=f"process {os.getpid()}"):
        DataDirectory(tmp_path)
    lock.release()


def test_a_lock_file_that_names_nobody(tmp_path: Path) -> None:
    """The kernel holds the lock, not the text: an emptied file still refuses."""
    lock = DataDirectory(tmp_path)
    (tmp_path / "journal.lock").write_bytes(b"")
    with pytest.raises(Conflict, match="in use by another process"):
        DataDirectory(tmp_path)
    lock.release()


def test_how_far_the_journal_had_come_is_remembered(tmp_path: Path) -> None:
    """A fresh directory knows of no journal; later ones know the last note, and a person can read it."""
    lock = DataDirectory(tmp_path)
    assert lock.reached is None
    lock.note(9, 8)
    lock.note(12, 11)
    lock.release()
    assert "journal.db has reached position 00000000000000000012\n" in (tmp_path / "journal.lock").read_text()
    again = DataDirectory(tmp_path)
    assert again.reached == 12
    again.release()


def test_how_far_readers_have_seen_it_is_another_note(tmp_path: Path) -> None:
    """Neither note is taken for the other."""
    lock = DataDirectory(tmp_path)
    assert lock.seen is None
    lock.note(12, 9)
    lock.release()
    lock = DataDirectory(tmp_path)
    assert (lock.reached, lock.seen) == (12, 9)
    lock.release()


def test_until_when_vms_could_be_answered_is_a_third_note(tmp_path: Path) -> None:
    """A person can read it too, and the other notes stay as they are."""
    lock = DataDirectory(tmp_path)
    assert lock.alive is None
    lock.note(12, 9)
    lock.note_alive(Alive("boot-1", 1_000_000))
    lock.note_alive(Alive("boot-1", 2_000_000))
    lock.release()
    text = (tmp_path / "journal.lock").read_text()
    assert "VMs could be answered until 00000000000002000000 on boot boot-1 " in text
    again = DataDirectory(tmp_path)
    assert (again.reached, again.seen, again.alive) == (12, 9, Alive("boot-1", 2_000_000))
    again.release()


@pytest.mark.parametrize("boot_id", ["", " "])
def test_where_the_kernel_names_no_boot_the_note_is_none(tmp_path: Path, boot_id: str) -> None:
    lock = DataDirectory(tmp_path)
    lock.note_alive(Alive(boot_id, 1_000_000))
    lock.release()
    again = DataDirectory(tmp_path)
    assert again.alive is None
    again.release()


def test_a_note_that_cannot_be_read_still_says_there_was_a_journal(tmp_path: Path) -> None:
    """Garbage in the note is not taken for a fresh directory."""
    (tmp_path / "journal.lock").write_bytes(b"\x00" * 80)
    lock = DataDirectory(tmp_path)
    assert lock.reached == 0
    lock.release()


def test_only_the_owner_may_look(tmp_path: Path) -> None:
    """Directory and file are made for their owner alone."""
    lock = DataDirectory(tmp_path / "deep" / "data")
    assert (tmp_path / "deep" / "data").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "deep" / "data" / "journal.lock").stat().st_mode & 0o777 == 0o600
    lock.release()


def test_a_directory_that_cannot_be_used(tmp_path: Path) -> None:
    """A data directory that is a file is a wrong setting, told in one line."""
    (tmp_path / "file").touch()
    with pytest.raises(Misconfigured, match="cannot be used as the data directory: File exists") as caught:
        DataDirectory(tmp_path / "file")
    assert "may write to" in caught.value.hint


def test_a_disk_that_cannot_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some network disks cannot lock; there two processes could not be told apart, so we do not begin."""

    def no_locks(_file: int, _operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(Misconfigured, match="No locks available"):
        DataDirectory(tmp_path)
