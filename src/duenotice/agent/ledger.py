"""The agent's memory on disk: each record is one JSON line with a checksum, synced before anything is done about it.

kill -9 or power loss can only tear the last line. Nothing was done about it yet, so it is cut off. Damage anywhere
else stops the agent, because with a hole in its ledger it could approve early (S12). Must not decide anything.
"""

import fcntl
import os
import time
import zlib
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from duenotice.agent.cases import Cases, LedgerRecord, apply, forget_old, snapshot
from duenotice.errors import Conflict, Damaged, Misconfigured
from duenotice.files import make_directory, sync_directory

NAME = "agent.ledger"
LOCK = "agent.lock"
COMPACT_ABOVE = 256 * 1024
LOCK_TRIES = 5
_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(LedgerRecord)


class LedgerRead(NamedTuple):
    """What a ledger file says, and how many of its bytes are whole lines."""

    records: list[LedgerRecord]
    size: int


class Ledger:
    """One agent's open ledger: `append` is durable when it returns, `cases` is the result of all records."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.cases: Cases = {}
        self._is_torn = self._is_moved = False
        self._lock = _take_lock(directory)
        try:
            self._open()
        except OSError as error:
            os.close(self._lock)
            raise self._unusable(error) from None
        except BaseException:
            os.close(self._lock)
            raise

    def _open(self) -> None:
        path = self.directory / NAME
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        records, self._size = read_ledger(path)
        os.ftruncate(self._file, self._size)  # nothing was done yet about a torn last line
        os.fsync(self._file)
        sync_directory(self.directory)
        for record in records:
            apply(self.cases, record)
        forget_old(self.cases)
        self._compact_above = max(COMPACT_ABOVE, 2 * self._size)

    def append(self, *records: LedgerRecord) -> None:
        """Write and sync records; only then do they count.

        One by one: of two lines that are synced together, a power cut may leave the second and damage the first.
        """
        for record in records:
            self._append(record)
        forget_old(self.cases)
        if self._size > self._compact_above:
            self._compact()

    def _append(self, record: LedgerRecord) -> None:
        line = encode(record)
        try:
            self._make_good()
            _write_all(self._file, line)
            os.fsync(self._file)
        except OSError as error:
            raise self._failed(error) from error
        self._size += len(line)
        apply(self.cases, record)

    def _make_good(self) -> None:
        """Do what a disk that failed has left to do, before anything is written behind it."""
        if self._is_torn:
            os.ftruncate(self._file, self._size)
            self._is_torn = False
        if self._is_moved:
            sync_directory(self.directory)
            self._is_moved = False

    def _failed(self, error: OSError) -> Misconfigured:
        self._is_torn = True
        with suppress(OSError):  # a disk that has become read-only: before the next record
            self._make_good()
        return self._unusable(error)

    def _unusable(self, error: OSError) -> Misconfigured:
        return Misconfigured(
            f"The ledger in {self.directory} cannot be written: {error.strerror}.",
            hint="Make room on the disk; the agent does nothing that it cannot record.",
        )

    def _compact(self) -> None:
        """Replace all records by one line with their result; the new file replaces the old one in one step."""
        fresh, line = self.directory / f"{NAME}.new", encode(snapshot(self.cases))
        file = -1
        try:
            file = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
            _write_all(file, line)
            os.fsync(file)
            fresh.replace(self.directory / NAME)
        except OSError:  # no room: the records are safe in the old file, which stays in use
            self._compact_above = 2 * self._size
            _drop(file, fresh)
            return
        os.close(self._file)
        self._file, self._size, self._is_moved = file, len(line), True
        self._compact_above = max(COMPACT_ABOVE, 2 * self._size)
        with suppress(OSError):  # the old file has the same records, until the next one is written
            self._make_good()

    def close(self) -> None:
        """Release the directory, so that another agent can use it."""
        os.close(self._file)
        os.close(self._lock)


def encode(record: LedgerRecord) -> bytes:
    """A line: checksum, blank, JSON."""
    body = _ENCODER.encode(record)
    return b"%08x %s\n" % (zlib.crc32(body), body)


def read_ledger(path: Path) -> LedgerRead:
    """All whole lines of a file; anybody may read, also while the agent writes."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return LedgerRead([], 0)
    except OSError as error:
        raise Misconfigured(
            f"Cannot read {path}: {error.strerror}.", hint="Ask as root, or as the agent's user."
        ) from None
    lines = data.split(b"\n")
    torn = lines.pop()  # what follows the last line end: nothing, or a line whose writing was cut off
    records: list[LedgerRecord] = []
    for number, line in enumerate(lines, start=1):
        record = _decode(line)
        if record is None:
            if number == len(lines):  # the last one: its bytes came to the disk out of order
                return LedgerRead(records, len(data) - len(torn) - len(line) - 1)
            raise Damaged(
                f"{path}, line {number}: the line is damaged.",
                hint=f"Check the machine, put back by hand what is still drained, then move {path} away.",
            )
        records.append(record)
    return LedgerRead(records, len(data) - len(torn))


def read_cases(directory: Path) -> Cases:
    """The cases in the ledger of a directory; does not lock it."""
    cases: Cases = {}
    for record in read_ledger(directory / NAME).records:
        apply(cases, record)
    return cases


def is_taken(directory: Path) -> bool:
    """Whether an agent runs on this directory; permission to read there is enough."""
    try:
        file = os.open(directory / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def _decode(line: bytes) -> LedgerRecord | None:
    checksum, _, body = line.partition(b" ")
    if checksum != b"%08x" % zlib.crc32(body):
        return None
    try:
        return _DECODER.decode(body)
    except msgspec.MsgspecError:
        return None


def _write_all(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


def _drop(file: int, path: Path) -> None:
    with suppress(OSError):
        os.close(file)
        path.unlink(missing_ok=True)


def _take_lock(directory: Path) -> int:
    try:
        make_directory(directory)
        file = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Misconfigured(
            f"{directory} cannot be used as the state directory: {error.strerror}.",
            hint="Name a directory on a local disk that this user may write to, with --state-dir.",
        ) from None
    for _ in range(LOCK_TRIES):  # a reader may hold the lock for a moment
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file
        except BlockingIOError:
            time.sleep(0.05)
    os.close(file)
    raise Conflict(f"Another agent runs on {directory}.", hint="Stop it, or give this one a --state-dir of its own.")
