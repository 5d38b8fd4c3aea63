"""Which files the agent may run or obey: it is root, so only those that nobody but root (or itself) can change."""

import os
import stat
from pathlib import Path

from duenotice.agent.handlers.base import HandlerFailed

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def distrust(path: str) -> str | None:
    """Why this program must not be run; None when it may. Asked at every run, not only at the start."""
    if not Path(path).is_absolute():
        return f"{path!r} is not an absolute path"
    try:
        real = Path(path).resolve(strict=True)
        if not real.is_file() or not os.access(real, os.X_OK):
            return f"{path} is not an executable file"
        return next(filter(None, (_loose(each) for each in (real, *real.parents))), None)
    except (OSError, ValueError) as error:
        return f"{path} cannot be looked at: {getattr(error, 'strerror', None) or error}"


def require_trusted(path: str) -> None:
    """Refuse to run a program that somebody else could have written."""
    if reason := distrust(path):
        raise HandlerFailed(f"Will not run it: {reason}.", hint="chown root and chmod go-w the file and its folders.")


def _loose(path: Path) -> str | None:
    found = path.stat()
    if found.st_uid not in (0, os.geteuid()):
        return f"{path} belongs to user {found.st_uid}, not to root"
    # In a sticky folder such as /tmp others may write, but not replace what is ours.
    sticky = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
    return f"{path} can be written by others" if found.st_mode & _OTHERS_WRITE and not sticky else None
