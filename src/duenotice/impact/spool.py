"""What the notes of wrappers tell about commands: not begun, running, ended, or lost."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import msgspec

from duenotice.domain.event import Event
from duenotice.errors import Misconfigured
from duenotice.impact.wrapper import BEGUN, EXIT, boot_id, start_time
from duenotice.system import SecretFile, make_directory

NAME = "directory.name"
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


Sight = NotBegun | Running | CommandEnded | Lost


class _Begun(msgspec.Struct, frozen=True):
    boot: str
    pid: int
    started: int


class Spool:
    """The notes of all commands, in one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def name(self) -> str:
        """Tells this directory from others, also from one that another process of the same node uses (N12)."""
        with self._made():
            return SecretFile(self.directory / NAME).change(lambda found: found or str(uuid4()))

    def place(self, event_id: str, attempt: int) -> Path:
        """Where the notes of an attempt are, without their suffix."""
        return self.directory / f"{event_id}.{attempt}"

    def look(self, place: Path) -> Sight:
        """What is known of an attempt."""
        begun = _read(place, BEGUN)
        if begun is None:
            return NotBegun()
        try:
            # In this order: otherwise a command that ends while we look would seem lost.
            sight = _running(begun)
            ended = _read(place, EXIT)
            return sight if ended is None else msgspec.json.decode(ended, type=CommandEnded)
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


def open_process(pid: int) -> int | None:
    """A descriptor that becomes readable when a process ends; None when it has."""
    with suppress(ProcessLookupError):
        return os.pidfd_open(pid)
    return None
