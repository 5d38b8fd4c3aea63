"""The operating system: files that survive a loss of power, and what systemd is told."""

import errno
import fcntl
import os
import socket
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from duenotice.errors import Misconfigured, reason

LONGEST_SECRET = 64 * 1024
"""Bytes of a secret file; what is longer is not ours."""


def make_directory(directory: Path) -> None:
    """A directory for us alone, with its parents. What is made survives power loss: else all in it would go with it."""
    if not directory.is_dir():
        made = [directory, *(each for each in directory.parents if not each.exists())]
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for each in made:
            with suppress(PermissionError):  # somebody else's, which we may write to and not read
                sync_directory(each.parent)


def check_ours(directory: Path, *secrets: str) -> None:
    """Refuse a directory that others may write to, or that has something of theirs: what we believe stands in it.

    What is secret in it nobody else may read. Root may have put things there, and so may members of our own group if it
    is the group's: Kubernetes mounts volumes like that. What cannot be looked at is refused by who opens it.
    """
    with suppress(OSError):
        for path in (directory.resolve(), *sorted(directory.iterdir())):
            is_secret = path.name in secrets
            if wrong := open_for_others(path.lstat(), 0o777 if is_secret else 0o222):
                what, mode = ("used", "0600") if is_secret else ("changed", "go-w")
                raise Misconfigured(
                    f"{path} could be {what} by others: {wrong}.",
                    hint=f"If nobody else has changed anything there: chown it to user {os.geteuid()}, chmod {mode}. "
                    "Else use another data directory.",
                )


def open_for_others(found: os.stat_result, bits: int = 0o222) -> str:
    """How others may do this to a file, which usually is to write; empty when they may not."""
    is_open = found.st_mode & bits & _others(found) and not stat.S_ISLNK(found.st_mode)
    return _told(found) if is_open or not _has_our_owner(found) else ""


def _has_our_owner(found: os.stat_result) -> bool:
    return found.st_uid in (0, os.geteuid())


def _others(found: os.stat_result) -> int:
    """The bits of a mode that are about others than us."""
    return 0o007 if found.st_gid == os.getegid() else 0o077


def _told(found: os.stat_result) -> str:
    return f"user {found.st_uid}, mode {stat.S_IMODE(found.st_mode):04o}"


def read_whole(path: Path, longest: int = -1) -> bytes:
    """What is in a file. Anything else is an OSError: a pipe would be waited for for ever."""
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise OSError(errno.EINVAL, "It is not a regular file", str(path))
        with os.fdopen(file, "rb", closefd=False) as opened:
            return opened.read(longest)
    finally:
        os.close(file)


def sync_directory(directory: Path) -> None:
    """Make the names in a directory survive power loss (S5)."""
    file = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


class SecretFile:
    """A file that only we may read and write: mode 0600, ours, and no link. It is always whole."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def change(self, work: Callable[[str], str]) -> str:
        """Store what this makes of what is there, which is "" without a file; one process at a time."""
        try:
            directory = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(directory, fcntl.LOCK_EX)
                before = self._read()
                after = work(before)
                if after != before:
                    self._write(after)
                return after
            finally:
                os.close(directory)
        except (OSError, UnicodeDecodeError) as error:
            raise Misconfigured(
                f"{self._path} cannot be used: {reason(error)}.", hint="Look at its owner and mode, and at the disk."
            ) from None

    def close(self) -> None:
        """Nothing is kept open."""

    def _read(self) -> str:
        try:
            file = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return ""
        with os.fdopen(file, "rb") as opened:
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode) or not _has_our_owner(found) or found.st_mode & _others(found):
                raise Misconfigured(
                    f"{self._path} is not ours alone: {_told(found)}.",
                    hint=f"Do this as its owner. If nobody else has put it there: chown it to user {os.geteuid()}, "
                    "chmod 0600. Else remove it, and a new one is made.",
                )
            return opened.read(LONGEST_SECRET).decode()

    def _write(self, text: str) -> None:
        """Complete or not at all: a new file takes the place of the old one."""
        unfinished = self._path.with_name(f"{self._path.name}.new")
        unfinished.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with os.fdopen(os.open(unfinished, flags, 0o600), "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        unfinished.rename(self._path)
        sync_directory(self._path.parent)


_FIRST = 3
"""systemd hands over files from this number on."""


def sd_notify(*states: str) -> None:
    """`READY=1`, `WATCHDOG=1`, `STATUS=…`, `STOPPING=1`."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address.startswith(("/", "@")):
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out:
            out.sendto("\n".join(states).encode(), address.replace("@", "\0", 1) if address[0] == "@" else address)


def watchdog_seconds() -> float | None:
    """How often to say that we are alive: half of what systemd allows."""
    text = os.environ.get("WATCHDOG_USEC", "")
    return int(text) / 2e6 if text.isdecimal() and int(text) else None


def given_socket(address: tuple[str, int]) -> socket.socket | None:
    """The socket for HOST:PORT that a socket unit has opened, if any; also for a port that we may not take."""
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        return None  # none, or they are for the process that has started us
    count = os.environ.get("LISTEN_FDS", "")
    for number in range(_FIRST, _FIRST + int(count) if count.isdecimal() else _FIRST):
        try:
            given = socket.socket(fileno=number)
        except OSError:  # not a socket, or not open
            continue
        if given.type == socket.SOCK_STREAM and given.getsockname()[:2] == address:
            given.set_inheritable(False)
            return given
        given.detach()
    return None
