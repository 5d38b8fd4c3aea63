"""The border around agents: their disk, their programs and their log are the world's; see `border` for their time."""

import asyncio
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from types import SimpleNamespace
from typing import Any, Protocol
from unittest.mock import patch

from duenotice.agent import drill, ledger, log, own_name, runtime, status
from duenotice.agent.handlers import processes, supervisor
from simulator.agents_disk import SystemCalls
from simulator.loop import OWNER, Killed

TICK = 5.0
"""Seconds after which an agent looks again without news, in place of 0.5: only `within` waits for it here."""


class Program(Protocol):
    """A program that runs, with what the agent uses of `asyncio.subprocess.Process`."""

    pid: int

    @property
    def returncode(self) -> int | None:
        """How it ended."""

    async def wait(self) -> int:
        """How it ended, when it has."""


class Starter(Protocol):
    """Starts programs, and hears what is logged."""

    def start_program(self, argv: Sequence[str], environment: Mapping[str, str], stdin: bytes) -> Program:
        """A new process."""

    def signal_program(self, pid: int, number: int) -> None:
        """SIGTERM or SIGKILL."""

    def hear(self, line: dict[str, Any]) -> None:
        """A line of the log."""


def starter() -> Starter:
    """The agent's process that runs now."""
    owner: Any = OWNER.get()
    found: Starter = owner.starter
    return found


def check_alive() -> None:
    """A process that was killed makes no more system calls."""
    owner = OWNER.get()
    if owner is not None and not owner.runs:
        raise Killed


class _Supervised:
    """A program of the world under a supervisor, as `processes.Program` shows a real one; it writes nothing."""

    output = errors = both = alive = ""

    def __init__(self, program: Program) -> None:
        self._program = program

    @property
    def returncode(self) -> int | None:
        return self._program.returncode

    async def wait(self) -> None:
        await self._program.wait()

    async def end(self) -> None:
        """As a supervisor does: it asks, waits a while and kills."""
        if self.returncode is None:
            _signal(self._program.pid, signal.SIGTERM)
            with suppress(TimeoutError):
                async with asyncio.timeout(supervisor.GRACE):
                    await self._program.wait()
            _signal(self._program.pid, signal.SIGKILL)
            await self._program.wait()


async def _start(
    argv: Sequence[str], environment: Mapping[str, str], stdin: bytes, handler: str, printed: object
) -> _Supervised:
    check_alive()
    return _Supervised(starter().start_program(argv, environment, stdin))


def _signal(pid: int, number: int) -> None:
    check_alive()
    starter().signal_program(pid, number)


class _Port:
    """A port of an agent; nobody in the world asks at it."""

    def close(self) -> None:
        """Nothing is open."""


async def _serve(*_: object) -> _Port:
    return _Port()


class _Silence:
    """Standard error of an agent."""

    def write(self, text: str) -> None:
        """Heard as a line before it became text."""

    def flush(self) -> None:
        """Nothing is kept."""


def _heard(line: dict[str, Any]) -> str:
    owner: Any = OWNER.get()
    if owner is not None and hasattr(owner, "starter"):
        owner.starter.hear(line)
    return ""


@contextmanager
def agents_border() -> Iterator[None]:
    """While this is open, agents live in the world."""
    calls = SystemCalls(check_alive)
    with ExitStack() as inside:
        for target, name, value in (
            (runtime, "TICK", TICK),
            (ledger, "os", calls),
            (ledger, "fcntl", calls),
            (ledger, "time", calls),
            (ledger, "sync_directory", calls.sync_directory),
            (ledger, "read_whole", calls.read_whole),
            (drill, "read_whole", calls.read_whole),
            (own_name, "os", calls),
            (own_name, "sync_directory", calls.sync_directory),
            (own_name, "read_whole", calls.read_whole),
            (processes, "_start", _start),
            (status, "serve", _serve),
            (processes, "require_trusted", lambda argv: None),
            (log, "_form", _heard),
            (log, "sys", SimpleNamespace(stderr=_Silence())),
            (log, "_last", {}),
        ):
            inside.enter_context(patch.object(target, name, value))
        yield
