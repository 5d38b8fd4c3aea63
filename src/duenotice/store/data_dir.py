"""The data directory: one process at a time (S21), and notes beside the journal of how far it has come (S2, S5, S25).

`journal.lock` is held. SQLite does not notice when the write-ahead log has lost its end, or is gone. So the file also
says how far the journal had come; a journal that ends before that has lost records. A journal without that note was put
in place from a backup. Before incarnations are lifted in one, the note says with which record: so a start after a kill
knows whether that was done. And it says how far readers have seen it, since what was stored but never seen has given
nobody notice; and until when VMs could be answered, since time in which nobody could be told is not notice.

`database.notes` is beside a journal that is elsewhere: which one, how far, and until when. The database could tell most
of it, but not what it has lost itself: it may be an older copy, put in place after this node has shown more (S3).
Nothing is synced: it survives kill -9; after a power loss it may be too old, which is safe.
"""

import fcntl
import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import msgspec
from msgspec import Struct, structs

from duenotice.clock import Alive
from duenotice.errors import Conflict, Misconfigured
from duenotice.store.codec import Mark
from duenotice.system import make_directory

CHECKPOINT_FILE = "database.notes"
_CHECKPOINT_SIZE = 1024

_HOLDER = b"process %010d\n"
_REACHED = b"journal.db has reached position %020d\n"
_LIFTED = b"journal.db lifted with position %020d checksum %010d\n"
_SEEN = b"readers have seen position %020d\n"
_ALIVE = b"VMs could be answered until %020d on boot %-64.64b\n"
_REACHED_AT = len(_HOLDER % 0)
_BOTH = _REACHED + _SEEN
_ALIVE_AT = _REACHED_AT + len(_BOTH % (0, 0))
_LOCK_SIZE = 4096


class DataDirectory:
    """Holds `journal.lock`; the kernel lets go of it when the process ends, however it ends."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.path = directory, directory / "journal.lock"
        self._file = _open(directory)
        try:
            self._take()
            notes = os.pread(self._file, _LOCK_SIZE, _REACHED_AT)
            self.reached, self.lifted_with = _reached(notes), _lifted_with(notes)
            self.seen, self.alive = _position(rb"seen", notes), _alive(notes)
            os.pwrite(self._file, _HOLDER % os.getpid(), 0)
        except OSError as error:
            self.release()
            raise _unusable(directory, error) from error
        except BaseException:
            self.release()
            raise

    def _take(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise self._taken() from error
        except OSError as error:
            raise _unusable(self.directory, error) from error

    def _taken(self) -> Conflict:
        holder = re.search(rb"\d+", os.pread(self._file, _REACHED_AT, 0))
        process = f"process {int(holder[0])}" if holder else "another process"
        return Conflict(
            f"the data directory {self.directory} is in use by {process}",
            hint="Stop that process, or give this one a data directory of its own.",
        )

    def note(self, reached: int, seen: int) -> None:
        """Write down how far the journal has come, and how far readers have seen it.

        Not synced: it survives kill -9, and after a power loss it is at worst too low, which is safe. For the same
        reason an error here fails nothing.
        """
        try:  # noqa: SIM105 - each commit waits for this, and `suppress` takes as long as the rest
            os.pwrite(self._file, _BOTH % (reached, seen), _REACHED_AT)
        except OSError:
            pass

    def note_lift(self, lift: Mark) -> None:
        """Write down, before the commit, which record lifts the incarnations of a journal that was put in place (S3).

        It stands where `note` will stand: until then the journal counts as put in place, unless it has that record.
        Another copy may have another lift at that position.
        """
        with suppress(OSError):
            os.pwrite(self._file, _LIFTED % lift, _REACHED_AT)

    def note_alive(self, alive: Alive) -> None:
        """Write down that VMs can be answered now; like `note`, at worst too low while this boot lasts."""
        with suppress(OSError):
            os.pwrite(self._file, _ALIVE % (alive.steady, alive.boot_id.encode()), _ALIVE_AT)

    def sync(self) -> None:
        """Make the note survive power loss too."""
        with suppress(OSError):
            os.fsync(self._file)

    def release(self) -> None:
        """Release the lock. The file stays: it says that there was a journal."""
        if self._file >= 0:
            self.sync()
            os.close(self._file)
        self._file = -1


def _open(directory: Path) -> int:
    try:
        make_directory(directory)
        return os.open(directory / "journal.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise _unusable(directory, error) from error


def _unusable(directory: Path, error: OSError) -> Misconfigured:
    return Misconfigured(
        f"{directory} cannot be used as the data directory: {error.strerror}",
        hint="Name a directory on a local disk that this user may write to.",
    )


def _reached(note: bytes) -> int | None:
    """How far a journal had come here; None when there never was one, or none but one put in place."""
    number = _position(rb"reached", note)
    # A note that cannot be read still says that there was a journal.
    return number if number is not None or not note or b"lifted with" in note else 0


def _lifted_with(notes: bytes) -> Mark | None:
    found = re.search(rb"lifted with position (\d{20}) checksum (\d{10})\n", notes)
    return (int(found[1]), int(found[2])) if found else None


def _position(what: bytes, notes: bytes) -> int | None:
    number = re.search(what + rb" position (\d{20})\n", notes)
    return int(number[1]) if number else None


def _alive(notes: bytes) -> Alive | None:
    found = re.search(rb"until (\d{20}) on boot (\S+) *\n", notes)
    return Alive(found[2].decode(errors="replace"), int(found[1])) if found else None


class RestoreCheck(NamedTuple):
    """What a journal is when it is opened.

    `restored`: an older copy, whose incarnations are not lifted yet (S3). `seen`: how far readers have seen it.
    """

    restored: bool
    seen: int


def restore_check(
    newest: int, reached: int | None, seen: int | None, lifted_with: Mark | None, holds: Callable[[Mark], bool]
) -> RestoreCheck:
    """By its newest position, by its notes, and by whether it holds the record that a note names.

    A process may have lifted the incarnations, and been killed before it could note that. Once is enough: another lift
    in the same second would have to be far ahead of the time of day, and the next one behind it. Nobody was answered
    since; followers of the life before may still answer, so they are waited for (N05).
    """
    was_put_in_place = reached is None and newest > 0
    if was_put_in_place and lifted_with is not None and holds(lifted_with):
        return RestoreCheck(restored=False, seen=lifted_with[0] - 1)
    # Without a note nobody can know; then everything counts as seen.
    return RestoreCheck(was_put_in_place, newest if seen is None else min(seen, newest))


class LocalCheckpoint(Struct, frozen=True):
    """What a node knows of a journal that is elsewhere.

    `life` was the last process here: it is gone, since this one holds the directory. It is surely gone if that was on
    this `boot`: a directory on a shared disk may be held on two machines.
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


class CheckpointFile:
    """`database.notes` in a data directory that no other process may use meanwhile; without one, all is forgotten."""

    def __init__(self, data_dir: Path | None) -> None:
        self.latest = LocalCheckpoint()
        self._one_at_a_time = Lock()
        self._directory = None if data_dir is None else DataDirectory(data_dir)
        self._file, self._path = -1, CHECKPOINT_FILE if data_dir is None else str(data_dir / CHECKPOINT_FILE)
        if data_dir is not None:
            try:
                self._open(data_dir / CHECKPOINT_FILE)
            except OSError as error:
                self.close()
                raise Misconfigured(
                    f"{data_dir / CHECKPOINT_FILE} cannot be used: {error.strerror}.",
                    hint="Look at its owner and mode.",
                ) from error

    def _open(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        with suppress(msgspec.MsgspecError):  # cut short by a power loss: as if there were none
            self.latest = msgspec.json.decode(os.pread(self._file, _CHECKPOINT_SIZE, 0), type=LocalCheckpoint)

    def refuse_unless_of(self, cluster: str, where: str) -> None:
        """Raise when this directory belongs to another journal, or there is none ("")."""
        if self.latest.cluster not in ("", cluster):
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
            self.latest = structs.replace(self.latest, **changes)
            if self._file >= 0:
                with suppress(OSError):
                    os.pwrite(self._file, msgspec.json.encode(self.latest).ljust(_CHECKPOINT_SIZE), 0)

    def close(self) -> None:
        """Release the directory."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        if self._directory is not None:
            self._directory.release()
