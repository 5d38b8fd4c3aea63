"""Runs one program under a supervisor, without a shell. If it is late or cancelled, it ends with all its descendants.

Its end is what counts: a child that it leaves may hold its pipes open for ever.
"""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import duenotice
from duenotice.agent.handlers import supervisor
from duenotice.agent.handlers.base import Argv, HandlerContext, HandlerFailed, Printed, TryAgain, seconds_left
from duenotice.agent.handlers.runs import MARK, RUNS, Run
from duenotice.agent.handlers.trust import require_trusted
from duenotice.wire.seen_documents import event_to_json

LAST_LOOK = 0.1
"""Seconds after the deadline: a machine that stood still learns only then that the program has ended before (S13)."""
LATEST_END = supervisor.GRACE + 2.0
"""Seconds after which what was killed and does not die is left behind: it waits for a disk, perhaps for ever."""
TRY_AGAIN = 75
"""sysexits' EX_TEMPFAIL."""
_CHUNK = 65_536
_FULLEST = 1024 * 1024
"""What a pipe can hold. It is read to its end when a program has ended, but not for ever: a child may still write."""
_BEGIN = "import sys; sys.path.insert(0, sys.argv.pop(1)); from duenotice.agent.handlers.supervisor import main; main()"
_HOME = str(Path(duenotice.__file__).parents[1])


class Finished(NamedTuple):
    """How a program ended: its exit code (negative: the signal) and the end of what it wrote."""

    code: int
    output: str
    errors: str
    both: str
    """As it came."""


async def run(
    argv: Sequence[str],
    context: HandlerContext,
    *,
    environment: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    printed: Printed | None = None,
) -> str:
    """What a program that must succeed wrote to its standard output; with `printed` to both, in order."""
    finished = await finish(argv, context, environment=environment, stdin=stdin, printed=printed)
    if finished.code == 0:
        return finished.output
    kind = TryAgain if finished.code == TRY_AGAIN else HandlerFailed
    raise kind(ended(argv, finished), hint="Run it by hand to see what it needs.")


def ended(argv: Sequence[str], finished: Finished) -> str:
    """How a program ended that did not exit with 0, in words."""
    how = f"exited with {finished.code}" if finished.code > 0 else f"was ended by {_signal_name(-finished.code)}"
    return f"{argv[0]} {how}: {finished.both or 'it printed nothing'}"


async def finish(
    argv: Sequence[str],
    context: HandlerContext,
    *,
    environment: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    printed: Printed | None = None,
) -> Finished:
    """Run until it ends; what is late, or no longer wanted, is killed with all its descendants."""
    require_trusted(argv)
    RUNS.require_trusted()
    await RUNS.end_left(seconds_left(context), context.handler)
    environment = os.environ if environment is None else environment
    starting = asyncio.ensure_future(_start(argv, environment, stdin, context.handler, printed))
    try:
        program = await asyncio.shield(starting)
    except asyncio.CancelledError:  # half a start cannot be ended: it becomes a whole one first
        await asyncio.wait({starting})
        if starting.exception() is None:
            await _surely(starting.result().end())
        raise
    try:
        try:
            async with asyncio.timeout(seconds_left(context)):
                await program.wait()
        except TimeoutError:
            await asyncio.wait([asyncio.ensure_future(program.wait())], timeout=LAST_LOOK)
    finally:
        is_late = program.returncode is None
        try:
            await _surely(program.end())
        finally:  # also if the whole handler is cut off meanwhile: its deadline is the same moment
            if is_late:
                context.printed.late = _late(argv[0], program)
    if is_late:
        raise HandlerFailed(context.printed.late, hint="Give it a longer timeout.")
    return Finished(program.returncode or 0, program.output, program.errors, program.both)


def _late(name: str, program: "Program") -> str:
    """With the names of what it waited for, and its last words: at 3 a.m. nobody can look any more."""
    still = f" Still running: {program.alive}." if program.alive else ""
    return f"{name} did not end in time.{still} It printed: {program.both or 'nothing'}"


class Program:
    """A program that runs under its supervisor; `end` leaves nothing of it, unless it has ended well by itself."""

    def __init__(
        self,
        argv0: str,
        run: Run,
        process: asyncio.subprocess.Process,
        control: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        ears: tuple["_Ear", ...],
        both: Printed,
    ) -> None:
        self._argv0, self._run, self._process, self._ears = argv0, run, process, ears
        self._reader, self._writer, self._both = *control, both
        self.returncode: int | None = None
        self.alive = ""
        """What ran when it was asked to end."""
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ended.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._listening = asyncio.ensure_future(self._listen())

    @property
    def output(self) -> str:
        """The end of its standard output."""
        return self._ears[0].wrote.text()

    @property
    def errors(self) -> str:
        """The end of its standard error."""
        return self._ears[-1].wrote.text()

    @property
    def both(self) -> str:
        """The end of the two, as it came."""
        return self._both.text()

    async def wait(self) -> None:
        """Until it has ended; an error if it could not be started."""
        await asyncio.shield(self._ended)

    async def _listen(self) -> None:
        """To its supervisor, until that is gone."""
        with suppress(ConnectionError):
            async for line in self._reader:
                word, _, rest = line.decode(errors="replace").rstrip("\n").partition(" ")
                if word == "exited":
                    self._has_ended(int(rest))
                elif word == "alive":
                    self.alive = rest
                elif word == "failed" and not self._ended.done():
                    self.returncode = -1
                    why = os.strerror(int(rest))
                    self._ended.set_exception(
                        HandlerFailed(f"{self._argv0} cannot be started: {why}.", hint="Check the path and its mode.")
                    )
        if not self._ended.done():  # somebody has killed the supervisor, and the program with it
            RUNS.leave(self._run)
            self._has_ended(-signal.SIGKILL)

    def _has_ended(self, code: int) -> None:
        for ear in self._ears:
            ear.drain()
        self.returncode = code
        if not self._ended.done():
            self._ended.set_result(None)

    async def end(self) -> None:
        """Wait until nothing of it is left that must end; what has not ended by itself is asked to, and then killed."""
        if self.returncode is None:
            with suppress(ConnectionError):
                self._writer.write(b"end\n")
        await asyncio.wait({self._listening}, timeout=LATEST_END)
        for ear in self._ears:
            ear.close()
        self._writer.close()
        if not self._listening.done():
            self._listening.cancel()
            RUNS.leave(self._run)
            return
        await self._process.wait()
        if self._run.name not in RUNS.left:
            RUNS.end(self._run)


class _Ear:
    """The reading end of a pipe that a program writes to; it keeps the last of what comes."""

    def __init__(self, *others: Printed) -> None:
        """All that it hears goes to the others, too."""
        self.wrote = Printed()
        self._keepers = (self.wrote, *others)
        self._pipe, self.writing = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._pipe, False)
        asyncio.get_running_loop().add_reader(self._pipe, self._read)

    def hand_over(self) -> None:
        """Close our writing end: the program has its own, and ours would keep the pipe open."""
        os.close(self.writing)

    def drain(self) -> None:
        """Read what is there. The program has ended, so all that it wrote is."""
        left = _FULLEST
        while left > 0 and (got := self._read()):
            left -= got

    def close(self) -> None:
        """Again does no harm."""
        if self._pipe >= 0:
            asyncio.get_running_loop().remove_reader(self._pipe)
            os.close(self._pipe)
            self._pipe = -1

    def _read(self) -> int:
        if self._pipe < 0:
            return 0
        try:
            data = os.read(self._pipe, _CHUNK)
        except BlockingIOError:
            return 0
        if not data:
            self.close()
        for keeper in self._keepers:
            keeper.add(data)
        return len(data)


async def _start(
    argv: Sequence[str], environment: Mapping[str, str], stdin: bytes, handler: str, printed: Printed | None
) -> Program:
    run = RUNS.begin(handler)
    ours, theirs = socket.socketpair()
    both = Printed()
    # A hook has one pipe for both: of two nobody can say what came first.
    ears = (_Ear(both), _Ear(both)) if printed is None else (_Ear(both, printed),)
    try:
        with os.fdopen(os.memfd_create("input"), "w+b") as told:  # not a pipe: a program need not read its input
            told.write(stdin)
            told.seek(0)
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", "-c", _BEGIN, _HOME, str(theirs.fileno()), run.group, *argv),
                stdin=told,
                stdout=ears[0].writing,
                stderr=ears[-1].writing,
                env={**environment, MARK: run.name},
                cwd="/",
                start_new_session=True,
                pass_fds=(theirs.fileno(),),
            )
        ours.setblocking(False)
        control = await asyncio.open_connection(sock=ours)
    except BaseException as error:
        for ear in ears:
            ear.close()
        ours.close()
        RUNS.leave(run)
        if isinstance(error, OSError | ValueError):
            raise HandlerFailed(f"{argv[0]} cannot be started: {error}.", hint="Check the path and its mode.") from None
        raise
    finally:
        theirs.close()
        for ear in ears:
            ear.hand_over()
    return Program(argv[0], run, process, control, ears, both)


async def _surely(work: Coroutine[Any, Any, None]) -> None:
    """Wait for its end, even if we are cancelled: a handler must not seem idle while its program still runs."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


LONGEST_VALUE = 32_000
"""The kernel allows 128 KiB for a value; a longer one is complete on standard input only."""


async def run_hook(argv: Argv, phase: str, context: HandlerContext) -> None:
    """Run one program of the administrator for one phase, `prepare` or `recover`."""
    environment = hook_environment(phase, context)
    await run(argv, context, environment=environment, stdin=_event(context), printed=context.printed)


async def look_with(argv: Argv, context: HandlerContext) -> str:
    """Run the administrator's program that looks whether all is still prepared; what it says if not, else nothing."""
    environment = hook_environment("prepared", context)
    looked = await finish(argv, context, environment=environment, stdin=_event(context), printed=context.printed)
    if looked.code == TRY_AGAIN or looked.code < 0:
        raise TryAgain(ended(argv, looked), hint="Whether all is still prepared is not known; it is asked again.")
    return ended(argv, looked) if looked.code else ""


def _event(context: HandlerContext) -> bytes:
    return json.dumps(event_to_json(context.event)).encode()


def hook_environment(phase: str, context: HandlerContext) -> dict[str, str]:
    """The agent's own environment without its settings (they may be secret), and the event."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("DUENOTICE_")}
    shown = event_to_json(context.event)
    values = {
        "EVENT_ID": shown["EventId"],
        "EVENT_TYPE": shown["EventType"],
        "EVENT_STATUS": shown["EventStatus"],
        "EVENT_NOT_BEFORE": shown["NotBefore"],
        "EVENT_RESOURCES": ",".join(shown["Resources"]),
        "EVENT_SOURCE": shown["EventSource"],
        "EVENT_DESCRIPTION": shown["Description"],
        "EVENT_DURATION": str(shown["DurationInSeconds"]),
        "EVENT_PHASE": phase,
        "VM": context.vm,
        "DRILL": "1" if context.drill else "",
    }
    return inherited | {f"DUENOTICE_{key}": _plain(value) for key, value in values.items()}


def _plain(value: str) -> str:
    """The text without what an environment cannot hold: NUL, and half a character."""
    return value[:LONGEST_VALUE].replace("\0", "").encode(errors="replace").decode()
