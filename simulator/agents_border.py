"""The border around agents: their disk, their programs and their log are the world's; see `border` for their time."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any, Protocol
from unittest.mock import patch

from duenotice.agent import agent, ledger, logs, own_name, ports
from duenotice.agent.handlers import hook, processes
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


class _Ear:
    """A pipe that a program writes to; programs of the world write nothing."""

    async def __aenter__(self) -> "_Ear":
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nothing is open."""

    async def last_words(self) -> str:
        return ""


async def _start(
    argv: Sequence[str], environment: Mapping[str, str] | None, stdin: bytes, output: _Ear, errors: _Ear
) -> Program:
    check_alive()
    return starter().start_program(argv, environment or {}, stdin)


def _signal(group: int, number: int) -> None:
    check_alive()
    starter().signal_program(group, number)


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
            (agent, "TICK", TICK),
            (ledger, "os", calls),
            (ledger, "fcntl", calls),
            (ledger, "time", calls),
            (ledger, "sync_directory", calls.sync_directory),
            (own_name, "os", calls),
            (own_name, "sync_directory", calls.sync_directory),
            (processes, "_Ear", _Ear),
            (processes, "_start", _start),
            (processes, "_signal", _signal),
            (ports, "serve", _serve),
            (hook, "require_trusted", lambda path: None),
            (logs, "_form", _heard),
            (logs, "sys", SimpleNamespace(stderr=_Silence())),
            (logs, "_last", {}),
        ):
            inside.enter_context(patch.object(target, name, value))
        yield
