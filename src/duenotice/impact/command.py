"""The driver that runs a command for each event: never twice, never forgotten, whenever we are killed.

The command runs under a wrapper in a session of its own (see `wrapper`), which goes on without us and leaves notes.
Waiting for a command that we started and for one that a process before us started is the same: look at the notes.
They tell whether it is not begun, running, ended, or lost.
"""

import asyncio
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import msgspec
import structlog

from duenotice.domain.event import Event
from duenotice.errors import Misconfigured, Unavailable
from duenotice.impact import wrapper
from duenotice.impact.driver import OUTPUT_KEPT, AttemptEnd, AttemptOutcome
from duenotice.impact.wrapper import BEGUN, EXIT, boot_id, start_time
from duenotice.system import SecretFile, make_directory
from duenotice.wire.api_versions import SOURCE_NAMES, TYPE_NAMES
from duenotice.wire.operator import from_domain
from duenotice.wire.spans import format_iso

_OURS = "DUENOTICE_"
_LONGEST_VALUE = 100_000
"""Linux does not start a program that has a string over 128 KiB in its environment."""

log = structlog.get_logger()
DIRECTORY_NAME = "directory.name"
_NOTE = re.compile(r"(?P<event>[^.]+)\.(?P<attempt>\d+)\..*")


class NotBegun(NamedTuple):
    """Nobody has run it."""


class Running(NamedTuple):
    """Its wrapper is alive."""

    pid: int


class CommandEnded(msgspec.Struct, frozen=True):
    """It is over; `status` is negative for a signal, as in `subprocess`."""

    status: int
    timed_out: bool
    output: str


class Lost(NamedTuple):
    """It was begun, and nobody can know how it ended."""

    reason: str


RunStatus = NotBegun | Running | CommandEnded | Lost


class _Begun(msgspec.Struct, frozen=True):
    boot: str
    pid: int
    started: int


class RunRecords:
    """The notes of all commands, in one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def name(self) -> str:
        """Tells this directory from others, also from one that another process of the same node uses (N12)."""
        with self._made():
            return SecretFile(self.directory / DIRECTORY_NAME).change(lambda found: found or str(uuid4()))

    def place(self, event_id: str, attempt: int) -> Path:
        """Where the notes of an attempt are, without their suffix."""
        return self.directory / f"{event_id}.{attempt}"

    def look(self, place: Path) -> RunStatus:
        """What is known of an attempt."""
        begun = _read(place, BEGUN)
        if begun is None:
            return NotBegun()
        try:
            # In this order: otherwise a command that ends while we look would seem lost.
            found = _running(begun)
            ended = _read(place, EXIT)
            return found if ended is None else msgspec.json.decode(ended, type=CommandEnded)
        except msgspec.MsgspecError as error:
            return Lost(f"The notes of the command are damaged: {error}.")

    def forget(self, event_id: str, attempt: int) -> None:
        """Remove the notes of an attempt; `begun` last, so that it may never seem not begun."""
        for suffix in (EXIT, BEGUN):
            _note(self.place(event_id, attempt), suffix).unlink(missing_ok=True)

    def sweep(self, live: Mapping[str, Event]) -> None:
        """Make the directory, and remove notes that are no longer needed."""
        with self._made():
            for path in list(self.directory.iterdir()):
                name = _NOTE.fullmatch(path.name)
                if name is not None and not _is_wanted(name, live):
                    path.unlink(missing_ok=True)

    @contextmanager
    def _made(self) -> Iterator[None]:
        """The directory is there, and what goes wrong in it is a mistake in the settings."""
        try:
            make_directory(self.directory)
            yield
        except OSError as error:
            raise Misconfigured(
                f"Commands cannot leave notes in {self.directory}: {error.strerror}.", hint="Make it writable for us."
            ) from error


def _is_wanted(name: re.Match[str], live: Mapping[str, Event]) -> bool:
    event = live.get(name["event"])
    return event is not None and int(name["attempt"]) > event.failed_attempts


def _running(begun: bytes) -> Running | Lost:
    note = msgspec.json.decode(begun, type=_Begun)
    if note.boot != boot_id():
        return Lost("The machine was restarted while the command ran; nobody knows how far it came.")
    if start_time(note.pid) != note.started:
        return Lost("The command's wrapper was killed; nobody knows how far the command came.")
    return Running(note.pid)


def _read(place: Path, suffix: str) -> bytes | None:
    with suppress(FileNotFoundError):
        return _note(place, suffix).read_bytes()
    return None


def _note(place: Path, suffix: str) -> Path:
    return place.with_name(place.name + suffix)


class CommandDriver:
    """Runs `command`, without a shell.

    `lost_is_final` says whether a command whose end is unknown has failed for good.
    """

    name = "command"

    def __init__(self, command: Sequence[str], records: Path, timeout: float, lost_is_final: bool = True) -> None:
        self._command = list(command)
        self._records = RunRecords(records)
        self._timeout = timeout
        self._lost = AttemptEnd.HOPELESS if lost_is_final else AttemptEnd.FAILED

    async def run(self, event: Event, attempt: int) -> AttemptOutcome:
        """Begin it unless it has begun, wait for its end, and return the result."""
        place = self._records.place(event.id, attempt)
        if isinstance(self._records.look(place), NotBegun):
            await self._begin(event, attempt, place)
        while isinstance(found := self._records.look(place), Running):
            await _end_of(found.pid)
        match found:
            case CommandEnded(status, _, output):
                log.info("command ended", action="command-ended", event_id=event.id, status=status, output=output)
                return self._outcome(found)
            case Lost(reason):
                return AttemptOutcome(self._lost, reason)
            case NotBegun():
                raise Unavailable("The command could not be begun.", hint=f"Is {place.parent} writable?")

    def directory(self) -> str:
        """Where the notes are."""
        return self._records.name()

    def lost(self, node: str) -> AttemptOutcome:
        """Only that node has the notes."""
        return AttemptOutcome(
            self._lost, f"The node {node} was lost while the command ran; nobody knows how far it came."
        )

    def forget(self, event_id: str, attempt: int) -> None:
        """Its notes are no longer needed."""
        self._records.forget(event_id, attempt)

    def sweep(self, live: Mapping[str, Event]) -> None:
        """Keep the notes of live events only."""
        self._records.sweep(live)

    async def close(self) -> None:
        """Nothing to release: commands go on, and the next start finds them."""

    async def _begin(self, event: Event, attempt: int, place: Path) -> None:
        pid = await asyncio.to_thread(self._spawn, event, attempt, place)
        await _end_of(pid)
        _, status = os.waitpid(pid, 0)  # noqa: ASYNC222 (it has ended)
        if error := os.waitstatus_to_exitcode(status):
            what = os.strerror(error) if error > 0 else f"killed by signal {-error}"
            log.error("wrapper failed", action="wrapper-failed", event_id=event.id, error=what)

    def _spawn(self, event: Event, attempt: int, place: Path) -> int:
        task = {
            "place": str(place.absolute()),
            "command": self._command,
            "input": json.dumps(msgspec.to_builtins(from_domain.event(event))) + "\n",
            "timeout": self._timeout,
            "output_kept": OUTPUT_KEPT,
        }
        # Written before the wrapper starts: if we are killed in between, no half-written task can begin.
        descriptor = wrapper.holding(json.dumps(task).encode())
        try:
            return _spawn_wrapper(descriptor, environment_of(event, attempt))
        finally:
            os.close(descriptor)

    def _outcome(self, ended: CommandEnded) -> AttemptOutcome:
        if ended.timed_out:  # what it wrote while it was killed
            return _failed(f"Not over after {self._timeout:g} seconds; killed", ended)
        if ended.status == 0:
            return AttemptOutcome(AttemptEnd.DONE)
        return _failed(f"Killed by signal {-ended.status}" if ended.status < 0 else f"Exit {ended.status}", ended)


def environment_of(event: Event, attempt: int) -> dict[str, str]:
    """What a command finds in its environment; a value that is too long to be there is only on standard input."""
    values = {
        "ID": event.id,
        "TYPE": TYPE_NAMES[event.type],
        "STATUS": "Started",
        "NOT_BEFORE": format_iso(event.not_before),
        "RESOURCES": ",".join(event.resources),
        "SOURCE": SOURCE_NAMES[event.source],
        "DESCRIPTION": event.description,
        "DURATION": str(event.duration),
        "CAUSE": event.cause.value,
        "ATTEMPT": str(attempt),
    }
    plain = {f"{_OURS}EVENT_{name}": value.replace("\0", "") for name, value in values.items()}
    return {name: value for name, value in plain.items() if len(value.encode()) <= _LONGEST_VALUE}


def _spawn_wrapper(stdin: int, environment: dict[str, str]) -> int:
    """Start the wrapper, without our own settings and tokens."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(_OURS)}
    silent = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_WRONLY, 0) for stream in (1, 2)]
    arguments = [sys.executable, "-I", "-S", str(Path(wrapper.__file__).absolute())]
    return os.posix_spawn(
        sys.executable, arguments, kept | environment, file_actions=[(os.POSIX_SPAWN_DUP2, stdin, 0), *silent]
    )


async def _end_of(pid: int) -> None:
    """Wait until a process has ended, ours or not."""
    descriptor = open_process(pid)
    if descriptor is None:
        return
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def _failed(how: str, ended: CommandEnded) -> AttemptOutcome:
    output = ended.output.strip()
    return AttemptOutcome(AttemptEnd.FAILED, f"{how}: {output}" if output else f"{how}.")


def open_process(pid: int) -> int | None:
    """A descriptor that becomes readable when a process ends; None when it has."""
    with suppress(ProcessLookupError):
        return os.pidfd_open(pid)
    return None
