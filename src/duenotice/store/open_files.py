"""The files that a journal is in: are they still where they were opened, and ours alone? (S5, S21)

The kernel lets a process go on with files that were renamed, deleted or replaced. What is stored in them then is lost
with the process, and without the lock file a second service may begin beside us. So each commit looks first. Into files
with another mode or owner others can write.
"""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from duenotice.errors import Unavailable
from duenotice.system import open_for_others

HINT = (
    "Nothing can be stored until it is back. If it is gone, stop the service (not with kill -9): it leaves all that it "
    "has in the journal that it had opened. Then put that in place, or a backup, and start again."
)


CUT_SHORT = (
    "What was in it may be lost. Take a copy of the directory now, find out who has written to the file, and restore a "
    "backup if the next start refuses the journal."
)


class OpenFiles:
    """Some files as they are now, each by device and number, and by how short it may get."""

    def __init__(self, paths: Iterable[Path], least: Mapping[Path, int] | None = None) -> None:
        """`least` is how short a file may get that was longer; all others may not get shorter at all."""
        named = [os.fspath(path) for path in paths]
        # A link, and where it leads: SQLite looks for the log beside the second, so neither may change.
        self._identities = {path: _identity(path) for path in (*named, *map(os.path.realpath, named))}
        self._rights: dict[str, tuple[int, int, int]] = {}
        self._written: dict[str, int] = {}
        self.is_touched = False
        """Whether somebody else may have written into a file of which `wrote` is told."""
        self._least = {os.fspath(path): size for path, size in (least or {}).items()}
        self._sizes = dict.fromkeys(self._identities, 0)
        self.check()

    def check(self) -> None:
        """Raise what is wrong; each commit waits for this, in five microseconds."""
        for path, known in self._identities.items():
            try:
                found = os.lstat(path)  # each commit waits for this, and a Path takes twice as long
            except OSError as error:
                raise _displaced(path, error) from error
            if (found.st_dev, found.st_ino) != known:
                raise Unavailable(f"{path} is another file than the one that was opened.", hint=HINT)
            if (rights := (found.st_mode, found.st_uid, found.st_gid)) != self._rights.get(path):
                self._check_rights(path, found)
                self._rights[path] = rights
            if found.st_mtime_ns != self._written.get(path, found.st_mtime_ns):
                self.is_touched = True
            if (size := found.st_size) != (longest := self._sizes[path]):
                if size < min(longest, self._least.get(path, longest)):
                    raise Unavailable(f"{path} was cut short while the service runs.", hint=CUT_SHORT)
                self._sizes[path] = max(size, longest)

    def wrote(self, path: Path) -> None:
        """We have written into it. If it has changed later than that, it was not us."""
        with suppress(OSError):  # the next check says why
            self._written[os.fspath(path)] = os.lstat(path).st_mtime_ns

    def _check_rights(self, path: str, found: os.stat_result) -> None:
        """Refuse one that is open for others and was not when we opened it."""
        if path in self._rights and (wrong := open_for_others(found)):
            hint = f"Find out whether it was changed. If not: chown it to user {os.geteuid()}, chmod go-w."
            raise Unavailable(f"{path} can be changed by others since the service runs: {wrong}.", hint=hint)

    def is_ours(self, path: Path) -> bool:
        """Whether this one is where it was."""
        try:
            return self._identities.get(os.fspath(path)) == _identity(os.fspath(path))
        except OSError:
            return False


def _identity(path: str) -> tuple[int, int]:
    found = os.lstat(path)
    return found.st_dev, found.st_ino


def _displaced(path: str, error: OSError) -> Unavailable:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return Unavailable(f"{path} was renamed or deleted while the service runs.", hint=HINT)
    return Unavailable(f"{path} cannot be looked at: {error.strerror}.", hint=HINT)
