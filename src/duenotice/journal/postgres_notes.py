"""What a node notes in its data directory about a journal that is elsewhere: which one, how far, and until when.

The database could tell most of it, but not what it has lost itself: it may be an older copy, put in place after this
node has shown more (S3). Nothing is synced: it survives kill -9; after a power loss it may be too old, which is safe.
"""

import os
from contextlib import suppress
from pathlib import Path
from threading import Lock

import msgspec
from msgspec import Struct, structs

from duenotice.clock import Alive
from duenotice.errors import Misconfigured
from duenotice.journal.lock import DirectoryLock

FILE = "database.notes"
_SIZE = 1024


class Known(Struct, frozen=True):
    """All that is noted. `life` was the last process here: it is gone, since this one holds the directory.

    It is surely gone if that was on this `boot`: a directory on a shared disk may be held on two machines.
    """

    cluster: str = ""
    life: str = ""
    position: int = 0
    crc: int = 0
    seen: int = 0
    alive: Alive | None = None
    floor: int = 0
    """The highest least incarnation that this node has ever known of, also in a journal that was lost since."""
    boot: str = ""


class Notes:
    """The notes of a data directory that no other process may use meanwhile; without a directory they are forgotten."""

    def __init__(self, data_dir: Path | None) -> None:
        self.known = Known()
        self._one_at_a_time = Lock()
        self._lock = None if data_dir is None else DirectoryLock(data_dir)
        self._file, self._path = -1, FILE if data_dir is None else str(data_dir / FILE)
        if data_dir is not None:
            try:
                self._open(data_dir / FILE)
            except OSError as error:
                self.close()
                raise Misconfigured(
                    f"{data_dir / FILE} cannot be used: {error.strerror}.", hint="Look at its owner and mode."
                ) from error

    def _open(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        with suppress(msgspec.MsgspecError):  # cut short by a power loss: as if there were none
            self.known = msgspec.json.decode(os.pread(self._file, _SIZE, 0), type=Known)

    def refuse_unless_of(self, cluster: str, where: str) -> None:
        """Raise when this directory belongs to another journal, or there is none ("")."""
        if self.known.cluster not in ("", cluster):
            another = "another journal than the one that this data directory belongs to"
            found = another if cluster else "no journal, but this data directory belongs to one"
            raise Misconfigured(
                f"{where} has {found}. Nothing was changed.",
                hint="Name the database of this cluster, or restore its backup. "
                f"To begin with another one on purpose, delete {self._path}.",
            )

    def note(self, **changes: object) -> None:
        """Remember something; an error does not reach the caller."""
        with self._one_at_a_time:
            self.known = structs.replace(self.known, **changes)
            if self._file >= 0:
                with suppress(OSError):
                    os.pwrite(self._file, msgspec.json.encode(self.known).ljust(_SIZE), 0)

    def close(self) -> None:
        """Release the directory."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        if self._lock is not None:
            self._lock.release()
