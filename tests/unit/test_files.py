"""What survives power loss: the names in a directory are synced, and nothing stays open."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from duenotice.system import make_directory, read_whole, sync_directory

OPEN = Path("/proc/self/fd")


def test_the_directory_itself_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is synced alone may be there without its name."""
    synced: list[Path] = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append((OPEN / str(file)).readlink()))
    before = sorted(path.name for path in OPEN.iterdir())
    sync_directory(tmp_path)
    assert synced == [tmp_path]
    assert sorted(path.name for path in OPEN.iterdir()) == before


def test_what_is_not_a_directory_is_refused(tmp_path: Path) -> None:
    """Before anything is said to be safe."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(NotADirectoryError):
        sync_directory(tmp_path / "file")


def test_a_new_directory_is_synced_into_each_that_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a power cut could take it away with all that was answered (S5)."""
    synced: list[Path] = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append((OPEN / str(file)).readlink()))
    make_directory(tmp_path / "var" / "data")
    assert synced == [tmp_path / "var", tmp_path]
    assert (tmp_path / "var" / "data").stat().st_mode & 0o777 == 0o700
    make_directory(tmp_path / "var" / "data")
    assert len(synced) == 2


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path: Path, make: Callable[[Path], None]) -> None:
    """A pipe that nobody writes to would keep its reader for ever."""
    make(tmp_path / "it")
    before = len(list(OPEN.iterdir()))
    with pytest.raises(OSError, match="not a regular file"):
        read_whole(tmp_path / "it")
    assert len(list(OPEN.iterdir())) == before
