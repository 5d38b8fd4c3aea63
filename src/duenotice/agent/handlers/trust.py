"""Which files the agent may run or use: it is root, so only those that nobody but root (or its user) can change."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from duenotice.agent.handlers.base import HandlerFailed

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def distrust(path: str) -> str | None:
    """Why this program must not be run; None when it may be. Checked at every run, not only at the start."""
    if not Path(path).is_absolute():
        return f"{path!r} is not an absolute path"
    try:
        real = os.path.realpath(path, strict=True)
        if not Path(real).is_file() or not os.access(real, os.X_OK):
            return f"{path} is not an executable file"
        return next(filter(None, map(_loose, _on_the_way(Path(path)))), None)
    except (OSError, ValueError) as error:
        return f"{path} cannot be checked: {getattr(error, 'strerror', None) or error}"


def require_trusted(path: str) -> None:
    """Refuse to run a program that somebody else could have written."""
    if reason := distrust(path):
        raise HandlerFailed(
            f"This program is not run: {reason}.", hint="Use chown root and chmod go-w on the file and its folders."
        )


def _on_the_way(path: Path) -> Iterator[Path]:
    """Everything that the path depends on: the file, its folders, and the same for each link among them."""
    for each in (path, *path.parents):
        yield each
        if each.is_symlink():
            yield from _on_the_way(each.parent / each.readlink())


def _loose(path: Path) -> str | None:
    found = path.lstat()
    if found.st_uid not in (0, os.geteuid()):
        return f"{path} belongs to user {found.st_uid}, not to root"
    if stat.S_ISLNK(found.st_mode):  # only the owner counts; a link has no mode
        return None
    # In a sticky folder such as /tmp others may write, but not replace what is ours.
    sticky = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
    return f"{path} can be written by others" if found.st_mode & _OTHERS_WRITE and not sticky else None
