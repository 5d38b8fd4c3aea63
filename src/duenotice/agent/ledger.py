"""The agent's memory on disk: each record is one JSON line with a checksum, synced before anything is done about it.

kill -9 or power loss can only tear the last line. Nothing was done about it yet, so it is cut off. All other damage
stops the agent, because with a hole in its ledger it could approve early (S12), or leave a machine drained (S15). So a
line that ends as it should and is damaged was not torn, and the first line, which is written before the file has its
name, never is. The disk is used in a thread: it may take long, and the agent listens meanwhile.

`Recorder` is what others append to: into the ledger first, then to the log and the counters, so that all agree.
"""

import asyncio
import fcntl
import os
import time
import zlib
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from duenotice.agent.log import complain, log
from duenotice.agent.state import Events, LedgerRecord, apply, forget_old, snapshot
from duenotice.clock import wall
from duenotice.errors import Conflict, Damaged, DuenoticeError, Misconfigured
from duenotice.system import make_directory, read_whole, sync_directory

NAME = "agent.ledger"
COMPACT_ABOVE = 256 * 1024
LEAST_ROOM = 64 * 1024
"""Bytes that should be free on the disk: an event with all that is done about it is shorter."""
LOCK_TRIES = 40
"""Times 0.05 s: a reader holds the lock for a moment, and a hook of an agent that was killed until it is dead."""
BLOCK = 512
"""A disk writes blocks of this size, or multiples of it, in any order; one that a power cut has lost reads as zeros."""
_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(LedgerRecord)


class LedgerRead(NamedTuple):
    """What a ledger file says, how many of its bytes that is, and whether the last line still needs its line end."""

    records: list[LedgerRecord]
    size: int
    needs_end: bool = False


class Ledger:
    """One agent's open ledger: `append` is durable when it returns, `events` is the result of all records."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.events: Events = {}
        self.times_lost = 0
        """How often the file was gone or not ours any more, and was written again from memory."""
        self.shortage = ""
        """Why the next records may not fit, in words, when it was last looked after; empty when there is room."""
        self._file, self._size = -1, 0
        self._is_torn = self._is_moved = False
        self._one_at_a_time = asyncio.Lock()
        self.lock = _take_lock(directory)
        try:
            self._open()
        except OSError as error:
            os.close(self.lock)
            raise self._unusable(error) from None
        except BaseException:
            os.close(self.lock)
            raise

    def _open(self) -> None:
        path = self.directory / NAME
        if not path.exists():
            self._replace(encode(snapshot({})))
            sync_directory(self.directory)
            return
        self._file = os.open(path, os.O_RDWR | os.O_APPEND, 0o600)
        records, self._size, needs_end = read_ledger(path)
        os.ftruncate(self._file, self._size)  # nothing was done yet about a torn last line
        if needs_end:
            _write_all(self._file, b"\n")
            self._size += 1
        os.fsync(self._file)
        sync_directory(self.directory)
        for record in records:
            apply(self.events, record)
        forget_old(self.events)
        self._compact_above = max(COMPACT_ABOVE, 2 * self._size)

    async def append(self, *records: LedgerRecord) -> None:
        """Write and sync records; only then do they count. `events` change here only, and not while the thread is busy.

        One by one: of two lines that are synced together, a power cut may leave the second and damage the first.
        """
        async with self._one_at_a_time:
            for record in records:
                await _in_thread(partial(self._append, encode(record)))
                apply(self.events, record)
            forget_old(self.events)
            if self._size > self._compact_above:
                await _in_thread(self._compact)

    async def look_after(self, rewrite: bool = False) -> None:
        """See that the file is still there, and is ours; if not, or if asked to, write it again."""
        async with self._one_at_a_time:
            await _in_thread(partial(self._keep, rewrite))

    def _find_shortage(self) -> str:
        try:
            found = os.statvfs(self.directory)
        except OSError as error:
            return f"{self.directory} cannot be looked at: {error.strerror}."
        free = (found.f_bavail if os.geteuid() else found.f_bfree) * found.f_frsize
        if found.f_flag & os.ST_RDONLY:
            return f"The disk of {self.directory} is read-only."
        if free < LEAST_ROOM:
            return f"Only {free // 1024} KiB are left on the disk of {self.directory}."
        if found.f_files and not found.f_ffree:
            return f"The disk of {self.directory} takes no more files."
        return ""

    def _append(self, line: bytes) -> None:
        try:
            self._make_good()
            _write_all(self._file, line)
            os.fsync(self._file)
        except OSError as error:
            raise self._failed(error) from error
        self._size += len(line)

    def _make_good(self) -> None:
        """Before anything is written: do what a disk that failed has left to do, and see that the file is still ours.

        If it was moved, removed or changed, it is written again: memory has all that was in it.
        """
        self._keep_lock()
        mine, path = os.fstat(self._file), self.directory / NAME
        if self._is_torn and mine.st_size > self._size:
            os.ftruncate(self._file, self._size)
            mine = os.fstat(self._file)
        self._is_torn = False
        there = path.stat() if path.exists() else None
        if there is None or (there.st_dev, there.st_ino, there.st_size) != (mine.st_dev, mine.st_ino, self._size):
            self._replace(encode(snapshot(self.events)))
            self.times_lost += 1
        if self._is_moved:
            sync_directory(self.directory)
            self._is_moved = False

    def _keep_lock(self) -> None:
        """The lock is on a directory by its inode: if another one has its name now, that one must be locked too.

        Else a second agent could start on it, and both would act. If one has, this raises Conflict.
        """
        mine = os.fstat(self.lock)
        with suppress(FileNotFoundError):
            found = self.directory.stat()
            if (found.st_dev, found.st_ino) == (mine.st_dev, mine.st_ino):
                return
        lock = _take_lock(self.directory)
        os.close(self.lock)
        self.lock = lock

    def _keep(self, rewrite: bool) -> None:
        self.shortage = self._find_shortage()
        try:
            self._make_good()
            if rewrite:  # nothing else shows whether the disk takes what is written
                self._replace(encode(snapshot(self.events)))
                self._make_good()
        except OSError as error:
            raise self._unusable(error) from error

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
        """Replace all records by one line with their result."""
        try:
            self._replace(encode(snapshot(self.events)))
        except OSError:  # no room: the records are safe in the old file, which stays in use
            self._compact_above = 2 * self._size
            return
        with suppress(OSError):  # the old file has the same records, until the next one is written
            self._make_good()

    def _replace(self, line: bytes) -> None:
        """Begin a new file with this line; it replaces the old one in one step."""
        fresh = self.directory / f"{NAME}.new"
        file = -1
        try:
            file = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
            _write_all(file, line)
            os.fsync(file)
            fresh.replace(self.directory / NAME)
        except OSError:
            _drop(file, fresh)
            raise
        if self._file >= 0:
            os.close(self._file)
        self._file, self._size, self._is_moved, self._is_torn = file, len(line), True, False
        self._compact_above = max(COMPACT_ABOVE, 2 * self._size)

    async def close(self) -> None:
        """Release the directory, when all is written, so that another agent can use it."""
        async with self._one_at_a_time:
            os.close(self._file)
            os.close(self.lock)


def encode(record: LedgerRecord) -> bytes:
    """A line: checksum, blank, JSON."""
    body = _ENCODER.encode(record)
    return b"%08x %s\n" % (zlib.crc32(body), body)


def read_ledger(path: Path) -> LedgerRead:
    """All whole lines of a file; anybody may read, also while the agent writes."""
    try:
        data = read_whole(path)
    except FileNotFoundError:
        return LedgerRead([], 0)
    except OSError as error:
        raise Misconfigured(
            f"Cannot read {path}: {error.strerror}.", hint="Ask as root, or as the agent's user."
        ) from None
    *lines, end = data.split(b"\n")
    records: list[LedgerRecord] = []
    size = 0
    for number, line in enumerate(lines, start=1):
        if line[:1] == b"\0" and size % BLOCK == BLOCK - 1:
            # The line has only this byte in its first block. If a power cut has lost that block, nothing was done about
            # the record yet; if the byte was damaged later, something was. So the record counts in both cases (S15):
            # the byte is a digit of the checksum, and the rest of the line tells which one.
            line = _first_digit(line) + line[1:]
        record = _decode(line)
        if record is None:
            if 1 < number == len(lines) and _lost_a_block(data, size):
                return LedgerRead(records, size)
            raise _damaged(path, number)
        records.append(record)
        size += len(line) + 1
    for whole in (end, end[:-1]):  # all but its line end was written; or another byte stands there now
        if (record := _decode(whole)) is not None:
            return LedgerRead([*records, record], size + len(whole), needs_end=True)
    if not records:
        raise _damaged(path, 1)
    return LedgerRead(records, size)


def _damaged(path: Path, number: int) -> Damaged:
    return Damaged(
        f"{path}, line {number}: the line is damaged.",
        hint=f"Check the machine, put back by hand what is still drained, then move {path} away.",
    )


def _lost_a_block(data: bytes, start: int) -> bool:
    """Whether a block from `start` on is all zeros, as no line of ours is; a single zero may be a damaged byte."""
    parts = (data[max(at, start) : at + BLOCK] for at in range(start - start % BLOCK, len(data), BLOCK))
    return any(len(part) > 1 and not part.strip(b"\0") for part in parts)


def read_events(directory: Path) -> Events:
    """The events in the ledger of a directory; does not lock it."""
    events: Events = {}
    for record in read_ledger(directory / NAME).records:
        apply(events, record)
    return events


def is_taken(directory: Path) -> bool:
    """Whether an agent runs on this directory; permission to read there is enough."""
    try:
        file = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


async def _in_thread(work: Callable[[], None]) -> None:
    await asyncio.get_running_loop().run_in_executor(None, work)


def _decode(line: bytes) -> LedgerRecord | None:
    checksum, _, body = line.partition(b" ")
    if checksum != b"%08x" % zlib.crc32(body):
        return None
    try:
        return _DECODER.decode(body)
    except msgspec.MsgspecError:
        return None


def _first_digit(line: bytes) -> bytes:
    """The byte that a line should begin with; the other seven digits of its checksum still show other damage."""
    return (b"%08x" % zlib.crc32(line.partition(b" ")[2]))[:1]


def _write_all(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


def _drop(file: int, path: Path) -> None:
    with suppress(OSError):
        os.close(file)
        path.unlink(missing_ok=True)


def _take_lock(directory: Path) -> int:
    """The lock is on the directory itself: a file in it could be removed, and a second agent would have another one."""
    try:
        make_directory(directory)
        file = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise Misconfigured(
            f"{directory} cannot be used as the state directory: {error.strerror}.",
            hint="Name a directory on a local disk that this user may write to, with --state-dir.",
        ) from None
    for _ in range(LOCK_TRIES):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file
        except BlockingIOError:
            time.sleep(0.05)
    os.close(file)
    raise Conflict(f"Another agent runs on {directory}.", hint="Stop it, or give this one a --state-dir of its own.")


_LEVELS = {**dict.fromkeys(("failed", "stuck", "undone", "unprepared"), "error"), "skipped": "warning"}
OUTCOMES = ("prepared", "failed", "undone", "skipped", "recovered", "stuck")
"""What is counted for each handler."""
COUNTED = (*OUTCOMES, "approved", "unprepared")


class MemoryLedger:
    """A ledger for a dry run: it keeps records in memory and writes nothing."""

    times_lost = 0
    shortage = ""

    def __init__(self, events: Events) -> None:
        self.events = events

    async def append(self, *records: LedgerRecord) -> None:
        for record in records:
            apply(self.events, record)
        forget_old(self.events)

    async def look_after(self, rewrite: bool) -> None:
        """Nothing is on a disk."""


class Counters:
    """Counts records as they are written; labels are the handlers of the configuration, so there are few (S24)."""

    def __init__(self) -> None:
        self.records: Counter[tuple[str, str]] = Counter()
        self.poll_errors = 0
        self.documents = 0

    def count(self, record: LedgerRecord) -> None:
        if record.kind in COUNTED and not record.drill:
            self.records[record.kind, record.handler] += 1


class Recorder:
    """Every record of the agent passes here once."""

    def __init__(self, ledger: Ledger | MemoryLedger) -> None:
        self._ledger = ledger
        self.counters = Counters()
        self.times_lost = 0
        self.lost_at: datetime | None = None
        self.failure = ""
        """Why the ledger cannot be written now; empty when it can."""

    @property
    def events(self) -> Events:
        return self._ledger.events

    @property
    def shortage(self) -> str:
        """Why nothing more could be recorded soon: said before an event comes, when there is time to do something."""
        return self._ledger.shortage

    async def append(self, *records: LedgerRecord) -> None:
        """Durable when it returns. Who is cancelled meanwhile waits no longer; the records are written all the same."""
        if records:
            writing = asyncio.ensure_future(self._append(records))
            writing.add_done_callback(lambda done: done.cancelled() or done.exception())
            await asyncio.shield(writing)

    async def look_after(self) -> None:
        """See that the ledger is still there; if it could not be written, try to."""
        await self._watched(self._ledger.look_after(rewrite=bool(self.failure)))

    def _say_if_lost(self) -> None:
        if self._ledger.times_lost > self.times_lost:
            self.times_lost, self.lost_at = self._ledger.times_lost, wall()
            hint = "Nothing is lost. Find out who moves, removes or changes files in the state directory."
            log("ledger-lost", "error", error="The ledger was gone or changed; it was written again.", hint=hint)

    async def _watched(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something with the ledger, and note whether that is possible now (S32)."""
        try:
            await work
        except DuenoticeError as error:
            complain("ledger-failed", error)
            self.failure = f"{error.message} {error.hint}".strip()
            raise
        if self.failure:
            self.failure = ""
            log("ledger-works", note="The ledger can be written again.")
        self._say_if_lost()

    async def _append(self, records: tuple[LedgerRecord, ...]) -> None:
        await self._watched(self._ledger.append(*records))
        for record in records:
            self.counters.count(record)
            if record.kind != "note":  # a handler's notes may hold what a log must not show
                log(record.kind, _LEVELS.get(record.kind, "info"), **_fields(record))


def _fields(record: LedgerRecord) -> dict[str, Any]:
    fields: dict[str, Any] = {"event_id": record.event_id, "handler": record.handler, "reason": record.reason}
    fields["output"] = record.output
    if event := record.seen:
        fields |= {"type": event.type, "status": event.status, "resources": event.resources}
        fields |= {"not_before": event.not_before.isoformat() if event.not_before else ""}
    return {key: value for key, value in (fields | {"drill": record.drill}).items() if value}
