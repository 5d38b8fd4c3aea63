"""Runs one program to its end: no shell, its own process group, killed when cancelled or late, its last words kept."""

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from duenotice.agent.handlers.base import HandlerFailed, Occasion, TryAgain
from duenotice.agent.handlers.waiting import seconds_left

GRACE = 2.0
"""Seconds between asking a late program to end and ending it."""
TAIL = 2000
TRY_AGAIN = 75
"""sysexits' EX_TEMPFAIL."""


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
    said = finished.errors.strip() or "it said nothing"
    raise kind(f"{argv[0]} exited with {finished.code}: {said}", hint="Run it by hand to see what it needs.")


async def finish(
    argv: Sequence[str], timeout: float, *, environment: Mapping[str, str] | None = None, stdin: bytes = b""
) -> Finished:
    """Run until it ends; a program that is late, or no longer wanted, is ended with all its children."""
    process = await _start(argv, environment, stdin)
    tails = [asyncio.create_task(_tail(stream)) for stream in (process.stdout, process.stderr) if stream]
    try:
        async with asyncio.timeout(timeout):
            await process.wait()
        return Finished(process.returncode or 0, *[await _last_words(tail) for tail in tails])
    except TimeoutError:
        raise HandlerFailed(f"{argv[0]} did not end in time.", hint="Give the handler a longer timeout.") from None
    finally:
        for tail in tails:
            tail.cancel()
        if process.returncode is None:
            await asyncio.shield(_end(process))


async def _start(
    argv: Sequence[str], environment: Mapping[str, str] | None, stdin: bytes
) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(
            *argv, stdin=pipe, stdout=pipe, stderr=pipe, env=environment, cwd="/", start_new_session=True
        )
    except (OSError, ValueError) as error:
        raise HandlerFailed(f"{argv[0]} cannot be started: {error}.", hint="Look at the path and its mode.") from None
    if process.stdin:
        with suppress(OSError):  # a program need not read what it is told
            process.stdin.write(stdin)
            process.stdin.close()
    return process


async def _end(process: asyncio.subprocess.Process) -> None:
    """The whole group: a hook's children must not outlive it."""
    _signal(process.pid, signal.SIGTERM)
    with suppress(TimeoutError):
        async with asyncio.timeout(GRACE):
            await process.wait()
    _signal(process.pid, signal.SIGKILL)
    await process.wait()


def _signal(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, number)


async def _tail(stream: asyncio.StreamReader) -> bytes:
    tail = b""
    while chunk := await stream.read(65536):
        tail = (tail + chunk)[-TAIL:]
    return tail


async def _last_words(tail: "asyncio.Task[bytes]") -> str:
    # A child left behind may hold the pipe open for ever: the program has ended, so do not wait for that.
    with suppress(TimeoutError):
        async with asyncio.timeout(GRACE):
            return (await tail).decode(errors="replace")
    return ""
