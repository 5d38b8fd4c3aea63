"""Writes down all that is done to the files under a directory: through SQLite (as a VFS of APSW), and by ourselves.

The shared memory of SQLite's write-ahead log is left out: a cut of the power always takes it away.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import apsw

from simulator.power.disk import Act, Image, Mark, Name, Resize, Sync, SyncNames, Unname, Write, parent

_SYNCS_ITS_NAME = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL
"""Files whose directory SQLite's VFS for Unix syncs at their first sync, if it may have made them."""


class Recorder:
    """The acts under `root`, in order. Syncs of files that end like one of `deaf` do nothing: the disk lies."""

    def __init__(self, root: Path, image: Image, deaf: tuple[str, ...] = ()) -> None:
        self.root, self.deaf = root, deaf
        self.acts: list[Act] = []
        self._files: dict[str, int] = {
            path: number for number, (path, content) in enumerate(image.items()) if content is not None
        }
        self._next = len(image)

    def mark(self, what: object) -> None:
        """Something that somebody outside knows from this moment on."""
        self.acts.append(Mark(what))

    def inside(self, path: str | os.PathLike[str]) -> str | None:
        """The path under our root; None if it is elsewhere."""
        whole = os.fspath(path)
        return whole.removeprefix(f"{self.root}/") if whole.startswith(f"{self.root}/") else None

    def opened(self, path: str) -> int:
        """The file of this name, which may be new."""
        if path not in self._files:
            self._files[path] = self._next
            self.acts.append(Name(path, self._next))
            self._next += 1
        return self._files[path]

    def made_directory(self, path: str) -> None:
        """A directory."""
        self.acts.append(Name(path, None))

    def removed(self, path: str) -> None:
        """A name is gone, if it was there."""
        if self._files.pop(path, None) is not None:
            self.acts.append(Unname(path))

    def renamed(self, old: str, new: str) -> None:
        """A file has another name."""
        self._files[new] = self._files.pop(old)
        self.acts.append(Name(new, self._files[new], instead_of=old))

    def synced(self, path: str, act: Sync | SyncNames) -> None:
        """A sync has returned."""
        if not path.endswith(self.deaf):
            self.acts.append(act)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Listen while this goes on; one at a time in a process."""
        with ExitStack() as undo:
            undo.callback(apsw.randomness, 0)  # SQLite begins anew to choose at random, each time by the VFS of then
            undo.callback(_RecordingVfs(self).unregister)
            apsw.randomness(0)
            for name, replacement in _Listening(self).functions().items():
                undo.enter_context(patch.object(os, name, replacement))
            yield


class _RecordingVfs(apsw.VFS):
    """SQLite's own VFS, overheard; it is the default one meanwhile."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        super().__init__("duenotice-recording", "unix", makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        path = None if name is None else self._recorder.inside(_plain(name))
        if path is None:
            return apsw.VFSFile("unix", name, flags)
        return _RecordingFile(self._recorder, path, name, flags)

    def xRandomness(self, count: int) -> bytes:  # noqa: N802
        """The same numbers each time: the same seed makes the same files."""
        return bytes(count)

    def xDelete(self, name: str, sync_directory: bool) -> None:  # noqa: N802
        super().xDelete(name, sync_directory)
        if (path := self._recorder.inside(name)) is not None:
            self._recorder.removed(path)
            if sync_directory:
                self._recorder.synced(parent(path), SyncNames(parent(path)))


def _plain(name: Any) -> str:
    return name.filename() if isinstance(name, apsw.URIFilename) else str(name)


class _RecordingFile(apsw.VFSFile):
    """A file of SQLite's."""

    def __init__(self, recorder: Recorder, path: str, name: Any, flags: list[int]) -> None:
        asked = flags[0]
        super().__init__("unix", name, flags)
        self._recorder, self._path = recorder, path
        self._file = recorder.opened(path)
        self._syncs_its_name = bool(asked & _SYNCS_ITS_NAME and asked & apsw.SQLITE_OPEN_CREATE)

    def xWrite(self, data: Any, offset: int) -> None:  # noqa: N802
        self._recorder.acts.append(Write(self._file, offset, bytes(data)))
        super().xWrite(data, offset)

    def xTruncate(self, size: int) -> None:  # noqa: N802
        self._recorder.acts.append(Resize(self._file, size))
        super().xTruncate(size)

    def xSync(self, flags: int) -> None:  # noqa: N802
        super().xSync(flags)
        self._recorder.synced(self._path, Sync(self._file))
        if self._syncs_its_name:
            self._recorder.synced(parent(self._path), SyncNames(parent(self._path)))
            self._syncs_its_name = False


class _Listening:
    """What our own code does with files: the functions of `os` that it uses."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder, self._real = recorder, {name: getattr(os, name) for name in _FUNCTIONS}
        self._files: dict[int, tuple[str, int]] = {}
        self._directories: dict[int, str] = {}

    def functions(self) -> dict[str, Any]:
        """By the names in `os`."""
        return {name: getattr(self, name) for name in _FUNCTIONS}

    def open(self, path: Any, flags: int, *rest: Any, **more: Any) -> int:
        number: int = self._real["open"](path, flags, *rest, **more)
        inside = self._recorder.inside(path)
        if flags & os.O_DIRECTORY:
            where = "" if os.fspath(path) == os.fspath(self._recorder.root) else inside
            if where is not None:
                self._directories[number] = where
        elif inside is not None:
            self._files[number] = inside, self._recorder.opened(inside)
        return number

    def close(self, number: int) -> None:
        self._files.pop(number, None)
        self._directories.pop(number, None)
        self._real["close"](number)

    def pwrite(self, number: int, data: bytes, offset: int) -> int:
        written: int = self._real["pwrite"](number, data, offset)
        if number in self._files:
            self._recorder.acts.append(Write(self._files[number][1], offset, bytes(data[:written])))
        return written

    def ftruncate(self, number: int, size: int) -> None:
        self._real["ftruncate"](number, size)
        if number in self._files:
            self._recorder.acts.append(Resize(self._files[number][1], size))

    def fsync(self, number: int) -> None:
        self._real["fsync"](number)
        if number in self._files:
            path, file = self._files[number]
            self._recorder.synced(path, Sync(file))
        elif number in self._directories:
            self._recorder.synced(self._directories[number], SyncNames(self._directories[number]))

    def unlink(self, path: Any, **more: Any) -> None:
        self._real["unlink"](path, **more)
        if (inside := self._recorder.inside(path)) is not None:
            self._recorder.removed(inside)

    def rename(self, old: Any, new: Any, **more: Any) -> None:
        self._real["rename"](old, new, **more)
        before, after = self._recorder.inside(old), self._recorder.inside(new)
        if before is not None and after is not None:
            self._recorder.renamed(before, after)

    def mkdir(self, path: Any, *rest: Any, **more: Any) -> None:
        self._real["mkdir"](path, *rest, **more)
        if (inside := self._recorder.inside(path)) is not None:
            self._recorder.made_directory(inside)


_FUNCTIONS = ("open", "close", "pwrite", "ftruncate", "fsync", "unlink", "rename", "mkdir")
