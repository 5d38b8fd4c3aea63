"""What SQLite's errors mean: stored data that cannot be trusted, or a disk that fails for now."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from duenotice.errors import Damaged, Misconfigured, Unavailable

# SQLError and after: if our statements fail on the file, it is not what we wrote.
_NOT_TO_BE_TRUSTED = (
    apsw.CorruptError,
    apsw.NotADBError,
    apsw.FormatError,
    apsw.SQLError,
    apsw.ConstraintError,
    apsw.MismatchError,
    UnicodeDecodeError,
)


@contextmanager
def told_plainly(path: Path) -> Iterator[None]:
    """Turns every SQLite error into one of ours that names the file and what to do. Must not be nested."""
    try:
        yield
    except Damaged as error:
        raise _damaged(path, error.message, error.hint) from error
    except Misconfigured as error:
        raise Misconfigured(f"{path}: {error.message}", hint=error.hint) from error
    except _NOT_TO_BE_TRUSTED as error:
        raise _damaged(path, str(error)) from error
    except (apsw.Error, OSError) as error:
        raise _unavailable(path, error) from error


def _damaged(path: Path, what: str, hint: str = "") -> Damaged:
    rescue = f"Keep a copy of {path.parent}, then restore a backup; `sqlite3 {path} .recover` may save the rest."
    return Damaged(f"{path} is damaged: {what}", hint=hint or rescue)


def _unavailable(path: Path, error: Exception) -> Unavailable:
    if isinstance(error, apsw.FullError):
        hint = f"Free some space on the disk that holds {path.parent}; nothing was lost."
        return Unavailable(f"{path} cannot be written: the disk is full", hint=hint)
    hint = f"Look at the disk that holds {path.parent}, its mount and its limits; nothing was lost."
    return Unavailable(f"{path} cannot be used right now: {error}", hint=hint)
