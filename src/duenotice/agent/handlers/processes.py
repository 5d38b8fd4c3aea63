"""Runs one program: no shell, its own process group, killed when cancelled or late. Keeps its last output."""

import asyncio
import ctypes
import os
import signal
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from duenotice.agent.handlers.base import HandlerFailed, Occasion, TryAgain
from duenotice.agent.handlers.deadline import seconds_left

GRACE = 2.0
"""Seconds between asking a late program to end and killing it."""
LAST_LOOK = 0.1
"""Seconds after the deadline: a machine that stood still learns only then that the program has ended before (S13)."""
TAIL = 2000
TRY_AGAIN = 75
"""sysexits' EX_TEMPFAIL."""
_PR_SET_PDEATHSIG = 1
_prctl = ctypes.CDLL(None).prctl


class Finished(NamedTuple):
    """How a program ended: its exit code (negative: the signal) and the end of what it wrote."""

    code: int
    output: str
    errors: str


async def run(
    argv: Sequence[str], occasion: Occasion, *, environment: Mapping[str, str] | None = None, stdin: bytes = b""
) -> str:
    """What a program that must succeed wrote to its standard output."""
    finished = await finish(argv, seconds_left(occasion), environment=environment, stdin=stdin)
    if finished.code == 0:
        return finished.output
    kind = TryAgain if finished.code == TRY_AGAIN else HandlerFailed
    said = finished.errors.strip() or "it printed nothing"
    raise kind(f"{argv[0]} exited with {finished.code}: {said}", hint="Run it by hand to see what it needs.")


async def finish(
    argv: Sequence[str], timeout: float, *, environment: Mapping[str, str] | None = None, stdin: bytes = b""
) -> Finished:
    """Run until it ends; a program that is late, or no longer wanted, is killed with all its children."""
    async with _Ear() as output, _Ear() as errors:
        process = await _start(argv, environment, stdin, output, errors)
        try:
            async with asyncio.timeout(timeout):
                await process.wait()
        except TimeoutError:
            await asyncio.wait([asyncio.ensure_future(process.wait())], timeout=LAST_LOOK)
            if process.returncode is None:
                hint = "Give the handler a longer timeout."
                raise HandlerFailed(f"{argv[0]} did not end in time.", hint=hint) from None
        finally:
            if process.returncode is None:
                await _surely(_end(process))
        return Finished(process.returncode or 0, await output.last_words(), await errors.last_words())


class _Ear(asyncio.Protocol):
    """A pipe that a program writes to. With asyncio's own pipe we would wait until its last writer ends."""

    def __init__(self) -> None:
        self._kept = b""
        self._ended = asyncio.Event()

    async def __aenter__(self) -> "_Ear":
        reading, self.writing = os.pipe2(os.O_CLOEXEC)
        loop = asyncio.get_running_loop()
        self._pipe, _ = await loop.connect_read_pipe(lambda: self, os.fdopen(reading, "rb", 0))
        return self

    async def __aexit__(self, *_: object) -> None:
        self.hand_over()
        self._pipe.close()

    def hand_over(self) -> None:
        """Close our writing end: the program has its own, and ours would keep the pipe open."""
        if self.writing >= 0:
            os.close(self.writing)
            self.writing = -1

    def data_received(self, data: bytes) -> None:
        self._kept = (self._kept + data)[-TAIL:]

    def connection_lost(self, _: Exception | None) -> None:
        self._ended.set()

    async def last_words(self) -> str:
        """The end of what was written. It does not wait for the pipe to close: a child may hold it open for ever."""
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE):
                await self._ended.wait()
        return self._kept.decode(errors="replace")


async def _start(
    argv: Sequence[str], environment: Mapping[str, str] | None, stdin: bytes, output: _Ear, errors: _Ear
) -> asyncio.subprocess.Process:
    with os.fdopen(os.memfd_create("input"), "w+b") as told:  # not a pipe, because a program need not read its input
        told.write(stdin)
        told.seek(0)
        try:
            return await asyncio.create_subprocess_exec(
                *argv,
                stdin=told,
                stdout=output.writing,
                stderr=errors.writing,
                env=environment,
                cwd="/",
                start_new_session=True,
                preexec_fn=_die_with_us,
            )
        except (OSError, ValueError) as error:
            hint = "Check the path and its mode."
            raise HandlerFailed(f"{argv[0]} cannot be started: {error}.", hint=hint) from None
        finally:
            output.hand_over()
            errors.hand_over()


def _die_with_us() -> None:
    """A program that outlived a killed agent could prepare the machine after the next one had put it back (S15)."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


async def _end(process: asyncio.subprocess.Process) -> None:
    """The whole group: a hook's children must not outlive it."""
    _signal(process.pid, signal.SIGTERM)
    with suppress(TimeoutError):
        async with asyncio.timeout(GRACE):
            await process.wait()
    _signal(process.pid, signal.SIGKILL)
    await process.wait()


async def _surely(work: Coroutine[Any, Any, None]) -> None:
    """Wait for its end, even if we are cancelled: a handler must not seem idle while its program still runs."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise


def _signal(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, number)
