"""`checkpoint`: tells a program to save its state, by signal or command, and waits until the file is written."""

import os
import signal
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from duenotice.agent.handlers.base import Argv, Handler, HandlerContext, HandlerFailed, SpanSeconds, until
from duenotice.agent.handlers.processes import run_hook
from duenotice.agent.handlers.systemd import SYSTEMCTL, Units, check_unit
from duenotice.clock import monotonic

Stamp = tuple[int, int, int]
_ABSENT: Stamp = (0, 0, 0)


class Options(Struct, frozen=True, forbid_unknown_fields=True):
    """What is told (a pidfile, a unit or a command), and which file shows that it is done."""

    file: str
    """The file that shows that the state is saved."""
    pidfile: str = ""
    """The signal goes to the process in this file."""
    unit: str = ""
    """Or: the signal goes to this unit of systemd."""
    command: Argv = ()
    """Or: this program is run instead."""
    signal: str = "SIGUSR1"
    settle: SpanSeconds = SpanSeconds(1)
    """The file counts as written when it has not changed for this long."""
    recover: Argv = ()
    """A program that is run when the event is over."""
    systemctl: Annotated[Argv, Meta(min_length=1)] = SYSTEMCTL

    def __post_init__(self) -> None:
        if sum(map(bool, (self.pidfile, self.unit, self.command))) != 1:
            raise ValueError("give one of `pidfile`, `unit` and `command`")
        if self.unit:
            check_unit(self.unit)
        if self.signal not in signal.Signals.__members__:
            raise ValueError(f"{self.signal!r} is not a signal; write it like SIGUSR1")


class Checkpoint(Handler[Options]):
    """A try that was cut off is made again: one more checkpoint does no harm."""

    options = Options

    async def prepare(self, context: HandlerContext) -> None:
        before = _stamp(self._options.file)
        await context.note("begun", True)
        await self._tell(context)
        await self._wait_until_written(context, before)

    async def recover(self, context: HandlerContext) -> None:
        if context.notes.get("begun") and self._options.recover:
            await run_hook(self._options.recover, "recover", context)
            await context.note("begun", False)

    def programs(self) -> list[Argv]:
        systemctl = [self._options.systemctl] if self._options.unit else []
        return [self._options.command, self._options.recover, *systemctl]

    async def _tell(self, context: HandlerContext) -> None:
        options = self._options
        if options.command:
            await run_hook(options.command, "prepare", context)
        elif options.unit:
            pid = await Units(options.systemctl, context).main_pid(options.unit)
            _send(pid, options.signal, options.unit)
        else:
            pid = _read_pid(options.pidfile)
            _check_owner(pid, options.pidfile)
            _send(pid, options.signal, options.pidfile)

    async def _wait_until_written(self, context: HandlerContext, before: Stamp) -> None:
        seen, since = before, monotonic()

        async def settled() -> bool:
            nonlocal seen, since
            if (now := _stamp(self._options.file)) != seen:
                seen, since = now, monotonic()
            return seen not in (before, _ABSENT) and monotonic() - since >= self._options.settle

        await until(context, f"{self._options.file} to be written", settled, pause=0.05)


def _stamp(file: str) -> Stamp:
    """Changes with every kind of write, also one that replaces the file."""
    try:
        found = Path(file).stat()
    except FileNotFoundError:
        return _ABSENT
    except OSError as error:
        raise HandlerFailed(f"Cannot read {file}: {error.strerror}.", hint="Check the path.") from None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _read_pid(pidfile: str) -> int:
    try:
        return int(Path(pidfile).read_text()[:32])
    except (OSError, ValueError):
        raise HandlerFailed(f"{pidfile} does not name a process.", hint="Is the program running?") from None


def _check_owner(pid: int, pidfile: str) -> None:
    """A user who may write a pidfile must not make root signal the process of another user."""
    try:
        writer, owner = Path(pidfile).stat().st_uid, Path(f"/proc/{pid}").stat().st_uid
    except OSError:
        raise HandlerFailed(f"The process {pid} of {pidfile} is gone.", hint="Is the program running?") from None
    if writer not in (0, owner):
        raise HandlerFailed(
            f"{pidfile} belongs to user {writer}, the process {pid} to user {owner}.",
            hint="Give both to the same user.",
        )


def _send(pid: int, name: str, whose: str) -> None:
    try:
        if pid <= 1:
            raise ProcessLookupError
        os.kill(pid, signal.Signals[name])
    except (ProcessLookupError, PermissionError, OverflowError):
        raise HandlerFailed(f"{whose} has no process that can be signalled.", hint="Is the program running?") from None
