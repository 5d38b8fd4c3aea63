"""What survives power loss: the names in a directory are synced, and nothing stays open."""

import os
from pathlib import Path

import pytest

from duenotice.files import sync_directory

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
