"""Which files the agent runs, reads or obeys: it is root, so only those that nobody but root (or its user) can change.

A path is walked from `/` by descriptors: each folder, link and file on it is opened and looked at, and the next one is
opened inside of it. So what was checked is what is read, also if somebody renames folders meanwhile (S33). A program is
started by its path, which only root can lead elsewhere once all on it has been checked.
"""

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from duenotice.agent.handlers.base import HandlerFailed
from duenotice.errors import LookAt

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_MOST_LINKS = 40
_LONGEST_SHEBANG = 256
_DEEPEST = 4
"""Interpreters of interpreters: as many as the kernel follows."""

_HINT = "Use chown root and chmod go-w on the file and its folders."


class Distrusted(HandlerFailed):
    """Somebody else could have written this file."""

    def __init__(self, message: str = "", *, hint: str = _HINT, look_at: LookAt | None = None) -> None:
        super().__init__(message, hint=hint, look_at=look_at)


def distrust(argv: Sequence[str]) -> str | None:
    """Why this program must not be run; None when it may be. Checked at every run, not only at the start."""
    try:
        _check_program(argv)
    except Distrusted as error:
        return error.message
    return None


def distrust_files(paths: Iterable[str | Path]) -> list[str]:
    """Why these must not be used, those that are there. Only a root that obeys them is in danger."""
    found = []
    for path in paths:
        try:
            if os.geteuid() == 0 and path and Path(path).exists():
                with _walked(str(Path(path).absolute())):
                    pass
        except Distrusted as error:
            if Path(path).exists():  # else it has just been removed
                found.append(error.message)
    return found


def require_trusted(argv: Sequence[str]) -> None:
    """Refuse to run a program that somebody else could have written."""
    if reason := distrust(argv):
        raise Distrusted(f"This program is not run: {reason}.")


def require_trusted_files(*paths: str | Path) -> None:
    """Refuse files and folders that somebody else could have written."""
    if reasons := distrust_files(paths):
        raise Distrusted(f"This is not used: {reasons[0]}.")


def read_trusted(path: str | Path, longest: int = -1) -> bytes:
    """What is in a file, or OSError. What was checked is what is read."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
    if os.geteuid() == 0:
        try:
            walked = _walk(str(Path(path).absolute()))
        except Distrusted as error:
            raise Distrusted(f"This is not used: {error.message}.") from None
        file = os.open(f"/proc/self/fd/{walked}", flags)
        os.close(walked)
    else:
        file = os.open(path, flags)
    with os.fdopen(file, "rb") as opened:
        return opened.read(longest)


def _check_program(argv: Sequence[str]) -> None:
    """The program, what runs it if it is a script, and the files that it is given: an interpreter obeys them."""
    if not Path(argv[0]).is_absolute():
        raise Distrusted(f"{argv[0]!r} is not an absolute path")
    with _walked(argv[0]) as file:
        if not stat.S_ISREG(os.fstat(file).st_mode) or not os.access(f"/proc/self/fd/{file}", os.X_OK):
            raise Distrusted(f"{argv[0]} is not an executable file")
    for word in argv:
        path = word if word.startswith("/") else word.partition("=")[2]  # also --file=/etc/x
        with suppress(ValueError):  # a text that can be no path
            if path.startswith("/") and Path(path).is_file():
                _check_script(path, _DEEPEST)


def _check_script(path: str, depth: int) -> None:
    """The file, and the interpreter that it names, if it is a script."""
    with _walked(path) as file:
        interpreter = _interpreter(file)
    if interpreter and depth:
        _check_script(interpreter, depth - 1)


def _interpreter(file: int) -> str:
    with suppress(OSError), open(f"/proc/self/fd/{file}", "rb") as opened:  # noqa: PTH123 # a descriptor
        first = opened.read(_LONGEST_SHEBANG)
        if first.startswith(b"#!") and (words := first[2:].partition(b"\n")[0].split()):
            return os.fsdecode(words[0])
    return ""


@contextmanager
def _walked(path: str) -> Iterator[int]:
    """A descriptor (O_PATH) of what is there; all that the path depends on was found to be root's, or our own."""
    try:
        file = _walk(path)
    except (OSError, ValueError) as error:
        raise Distrusted(f"{path} cannot be checked: {getattr(error, 'strerror', None) or error}") from None
    try:
        yield file
    finally:
        os.close(file)


def _walk(path: str) -> int:
    left, links = _parts(path), 0
    here, shown = _opened("/", None), "/"
    try:
        while left:
            name = left.pop()
            there = _opened(name, here)
            try:
                found = os.fstat(there)
                _check(found, os.path.normpath(f"{shown.rstrip('/')}/{name}"))
                target = os.readlink("", dir_fd=there) if stat.S_ISLNK(found.st_mode) else None
                if target is None:
                    here, there, shown = there, here, os.path.normpath(f"{shown.rstrip('/')}/{name}")
            finally:
                os.close(there)
            if target is not None:
                links += 1
                if links > _MOST_LINKS:
                    raise OSError(0, "Too many levels of symbolic links")
                left += _parts(target)
                if target.startswith("/"):
                    os.close(here)
                    here, shown = _opened("/", None), "/"
    except BaseException:
        os.close(here)
        raise
    return here


def _opened(name: str, folder: int | None) -> int:
    return os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)


def _parts(path: str) -> list[str]:
    """Its names, the first one last."""
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]


def _check(found: os.stat_result, shown: str) -> None:
    if found.st_uid not in (0, os.geteuid()):
        raise Distrusted(f"{shown} belongs to user {found.st_uid}, not to root")
    if stat.S_ISLNK(found.st_mode):  # only the owner counts; a link has no mode
        return
    # In a sticky folder such as /tmp others may write, but not replace what is ours.
    sticky = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
    if found.st_mode & _OTHERS_WRITE and not sticky:
        raise Distrusted(f"{shown} can be written by others")
