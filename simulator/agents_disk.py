"""A simulated disk for one machine: what is synced, what a power cut may leave, and what goes wrong with it.

The ledger's own code runs on it unchanged: `SystemCalls` has the few calls of `os` and `fcntl` that it makes.
"""

import errno
import os
from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any

BLOCK = 512
"""A disk writes blocks of this size in any order between two syncs."""


class DiskFile:
    """A file: its bytes as programs read them, and those that are sure to survive a power cut."""

    __slots__ = ("data", "synced")

    def __init__(self, data: bytes = b"") -> None:
        self.data, self.synced = data, data


def status_of(file: DiskFile) -> SimpleNamespace:
    return SimpleNamespace(st_dev=0, st_ino=id(file), st_size=len(file.data))


class Disk:
    """Files by name. The faults are switched by the world."""

    def __init__(self) -> None:
        self.names: dict[str, DiskFile] = {}
        self.durable_names: dict[str, DiskFile] = {}
        self.folder = DiskFile()
        self.full = self.fsync_fails = self.read_only = False
        self.room = 0
        """Bytes that still fit when the disk is full."""
        self.before_write: Callable[[str, bytes], int | None] = lambda name, data: None
        """Called before each write; how many bytes are written before the writer is killed, None: it is not."""
        self.after_sync: Callable[[str], None] = lambda name: None

    def __truediv__(self, name: str) -> "DiskPath":
        return DiskPath(self, name)

    def write(self, name: str, file: DiskFile, data: bytes) -> int:
        """Append; as much as fits."""
        if self.read_only:
            raise _error(errno.EROFS)
        if self.full:
            if self.room <= 0:
                raise _error(errno.ENOSPC)
            data = data[: self.room]
            self.room -= len(data)
        file.data += data
        return len(data)

    def sync(self, file: DiskFile) -> None:
        if self.fsync_fails or self.read_only:
            raise _error(errno.EIO)
        file.synced = file.data

    def sync_names(self) -> None:
        if self.fsync_fails:
            raise _error(errno.EIO)
        self.durable_names = dict(self.names)

    def cut_power(self, dice: Random) -> None:
        """What is left: all that was synced, and of the rest anything."""
        self.names = dict(self.durable_names if dice.random() < 0.5 else self.names)
        for file in {id(each): each for each in self.names.values()}.values():
            file.data = file.synced = _left(file.synced, file.data, dice)
        self.durable_names = dict(self.names)


def _left(synced: bytes, data: bytes, dice: Random) -> bytes:
    """Each block written since the last sync is there or not; where one is missing that has others behind it is 0."""
    if data == synced:
        return data
    if not data.startswith(synced):
        return data if dice.random() < 0.5 else synced
    first = len(synced) - len(synced) % BLOCK
    blocks = [data[at : at + BLOCK] for at in range(first, len(data), BLOCK)]
    kept = [block if dice.random() < 0.5 else None for block in blocks]
    while kept and kept[-1] is None:
        kept.pop()
    raw = data[:first] + b"".join(bytes(len(blocks[at])) if each is None else each for at, each in enumerate(kept))
    return synced + raw[len(synced) :]


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


class DiskPath:
    """A path on a simulated disk, with what the agent uses of `pathlib.Path`."""

    __slots__ = ("disk", "key")

    def __init__(self, disk: Disk, key: str) -> None:
        self.disk, self.key = disk, key

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]

    @property
    def parent(self) -> "DiskPath":
        return DiskPath(self.disk, self.key.rpartition("/")[0])

    def with_name(self, name: str) -> "DiskPath":
        return self.parent / name

    def absolute(self) -> "DiskPath":
        return self

    def iterdir(self) -> "list[DiskPath]":
        return [DiskPath(self.disk, key) for key in self.disk.names if key.startswith(f"{self.key}/")]

    def __truediv__(self, name: str) -> "DiskPath":
        return DiskPath(self.disk, f"{self.key}/{name}" if self.key else name)

    def __str__(self) -> str:
        return f"/{self.key}"

    def mkdir(self, **_: Any) -> None:
        """Folders need not be made."""

    def stat(self) -> SimpleNamespace:
        file = self.disk.names.get(self.key) or (None if "/" in self.key else self.disk.folder)
        if file is None:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")
        return status_of(file)

    def is_dir(self) -> bool:
        return True

    def exists(self) -> bool:
        return self.key in self.disk.names

    def with_suffix(self, suffix: str) -> "DiskPath":
        return DiskPath(self.disk, self.key.rpartition(".")[0] + suffix)

    def read_bytes(self) -> bytes:
        file = self.disk.names.get(self.key)
        if file is None:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")
        return file.data

    def read_text(self) -> str:
        return self.read_bytes().decode()

    def write_bytes(self, data: bytes) -> None:
        self.disk.names[self.key] = file = DiskFile()
        if self.disk.write(self.key, file, data) < len(data):
            raise _error(errno.ENOSPC)

    def write_text(self, text: str) -> None:
        self.write_bytes(text.encode())

    def replace(self, other: "DiskPath") -> None:
        if self.disk.read_only:
            raise _error(errno.EROFS)
        self.disk.names[other.key] = self.disk.names.pop(self.key)

    def unlink(self, missing_ok: bool = False) -> None:
        if self.disk.names.pop(self.key, None) is None and not missing_ok:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")


class SystemCalls:
    """The part of `os`, `fcntl` and `time` that the ledger uses, for the process that calls it."""

    O_RDWR, O_CREAT, O_APPEND, O_TRUNC = os.O_RDWR, os.O_CREAT, os.O_APPEND, os.O_TRUNC
    O_CLOEXEC, O_RDONLY, O_DIRECTORY = os.O_CLOEXEC, os.O_RDONLY, os.O_DIRECTORY
    ST_RDONLY, geteuid, strerror = os.ST_RDONLY, os.geteuid, os.strerror
    LOCK_EX, LOCK_NB, LOCK_SH = 2, 4, 1

    def __init__(self, check_alive: Callable[[], None]) -> None:
        self._alive = check_alive
        self._open: dict[int, tuple[Disk, str, DiskFile]] = {}
        self._next = 100

    def open(self, path: DiskPath, flags: int, mode: int = 0o777) -> int:
        self._alive()
        disk = path.disk
        if disk.read_only and flags & os.O_RDWR:
            raise _error(errno.EROFS)
        if flags & os.O_DIRECTORY:
            self._next += 1
            self._open[self._next] = disk, path.key, disk.folder
            return self._next
        if path.key not in disk.names:
            if not flags & os.O_CREAT:
                raise FileNotFoundError(errno.ENOENT, "No such file or directory")
            disk.names[path.key] = DiskFile()
        file = disk.names[path.key]
        if flags & os.O_TRUNC:
            file.data = b""
        self._next += 1
        self._open[self._next] = disk, path.key, file
        return self._next

    def _file(self, number: int) -> tuple[Disk, str, DiskFile]:
        self._alive()
        if number not in self._open:
            raise _error(errno.EBADF)
        return self._open[number]

    def write(self, number: int, data: bytes) -> int:
        disk, name, file = self._file(number)
        cut = disk.before_write(name, data)
        if cut is None:
            return disk.write(name, file, data)
        file.data += data[:cut]
        self._alive()
        return cut

    def fsync(self, number: int) -> None:
        disk, name, file = self._file(number)
        disk.sync(file)
        disk.after_sync(name)
        self._alive()

    def ftruncate(self, number: int, size: int) -> None:
        disk, _, file = self._file(number)
        if disk.read_only:
            raise _error(errno.EROFS)
        file.data = file.data[:size].ljust(size, b"\0")

    def fstat(self, number: int) -> SimpleNamespace:
        return status_of(self._file(number)[2])

    def statvfs(self, path: DiskPath) -> SimpleNamespace:
        self._alive()
        disk = path.disk
        free = disk.room if disk.full else 1 << 30
        flag = os.ST_RDONLY if disk.read_only else 0
        return SimpleNamespace(f_bfree=free, f_bavail=free, f_frsize=1, f_files=0, f_ffree=0, f_flag=flag)

    def close(self, number: int) -> None:
        self._file(number)
        del self._open[number]

    def flock(self, number: int, how: int) -> None:
        """Each machine runs one agent at a time."""
        self._file(number)

    def sleep(self, seconds: float) -> None:
        """Never needed: nobody else has the lock."""

    def read_whole(self, path: DiskPath) -> bytes:
        self._alive()
        return path.read_bytes()

    def sync_directory(self, directory: DiskPath) -> None:
        self._alive()
        directory.disk.sync_names()
