"""What files need to survive power loss, beyond what Python does by itself; and files that only we may read."""

import fcntl
import os
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
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
                raise Misconfigured(
                    f"{self._path} is not ours alone: user {found.st_uid}, mode {stat.S_IMODE(found.st_mode):04o}.",
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
