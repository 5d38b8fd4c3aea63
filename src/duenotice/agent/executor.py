"""Runs `prepare`, `undone` and `recover` of handlers and records the result; the planner says which and how long."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, cast

import msgspec

from duenotice.agent.handlers.base import Argv, Handler, HandlerContext, HandlerFailed, Printed, seconds_left
from duenotice.agent.handlers.processes import run_hook
from duenotice.agent.ledger import Recorder
from duenotice.agent.log import describe, log
from duenotice.agent.planner import HandlerSpec, LookAgain, Prepare, Recover, notice_left
from duenotice.agent.state import LedgerRecord, RecordKind
from duenotice.backoff import Backoff
from duenotice.clock import monotonic, wall
from duenotice.errors import DuenoticeError, Unavailable
from duenotice.http.fetch import fetch

GRACE = 5.0
"""Seconds that a handler has to clean up after its deadline; then the agent stops waiting for it."""
LOOK_SECONDS = 10.0
"""How long a look at what is prepared may take; the handler does nothing else meanwhile."""
LAST_LOOK = 0.2
"""Seconds after the deadline: what ended while the machine stood still is not late."""
AGAIN = Backoff(0.5, 10.0)
LARGEST_NOTE = 16 * 1024
HEALTH_SECONDS = 10.0
LONGEST_HEALTH_ANSWER = 64 * 1024


class RetryLater(DuenoticeError):
    """Raised by a step that did not fail, but must be tried again later."""


class Executor:
    """Runs handlers; each does one thing at a time, for all events."""

    def __init__(self, recorder: Recorder, vm: Callable[[], str], boot: str, is_there: Callable[[str], bool]) -> None:
        self._recorder, self._vm, self._boot, self._is_there = recorder, vm, boot, is_there
        self._locks: dict[str, asyncio.Lock] = {}
        self.handlers: Mapping[str, Handler[Any]] = {}
        self.specs: Mapping[str, HandlerSpec] = {}

    async def prepare(self, step: Prepare) -> None:
        """Record that it begins, do it, record how it ended; if we are stopped in between it begins again (S13)."""
        async with self._lock(step.handler):
            event = self._recorder.events[step.event_id]
            if self._is_too_late(step):  # while another event had the handler
                return
            await self._record("preparing", step, event.revision)
            if self._is_too_late(step):  # while a slow disk recorded it
                return
            # What was waited for until here has cost notice, and not the handler's time (H07).
            left = notice_left(self._recorder.events[step.event_id], wall())
            deadline = monotonic() + min(step.seconds, left)
            printed = Printed()
            try:
                await within(deadline, self._try(step, deadline, printed))
            except asyncio.CancelledError:
                if output := printed.text():
                    log("cut-off", event_id=step.event_id, handler=step.handler, output=output)
                raise
            except Exception as error:
                await self._record("failed", step, event.revision, printed.late or describe(error))
            else:
                await self._record("prepared", step, event.revision, output=printed.text())

    async def _try(self, step: Prepare, deadline: float, printed: Printed) -> None:
        """Prepare again and again while the handler asks for it, until the deadline."""
        for pause in AGAIN.pauses():
            try:
                await self.handlers[step.handler].prepare(self._context(step, deadline, printed))
                return
            except Unavailable as error:
                if monotonic() + pause >= deadline:
                    raise
                log("try-again", event_id=step.event_id, handler=step.handler, reason=describe(error))
                asked_again = error
            await asyncio.sleep(pause)
            if self._is_over(step):
                raise asked_again

    def _is_too_late(self, step: Prepare) -> bool:
        event = self._recorder.events[step.event_id]
        return bool(event.recovering) or notice_left(event, wall()) <= 0 or self._is_over(step)

    def _is_over(self, step: Prepare) -> bool:
        """Whether its event is gone, or its notice is over.

        By the last document: that may not be recorded yet, if the disk cannot be written (S14). And by the time of day:
        the deadline is older, and somebody may have set the clock since (H07).
        """
        event = self._recorder.events[step.event_id]
        not_before = None if event.seen.is_advice else event.not_before
        return not self._is_there(step.event_id) or (not_before is not None and wall() >= not_before)

    async def recover(self, step: Recover) -> None:
        """Try once to put back; a failure is tried again later, until it works (S15)."""
        async with self._lock(step.handler):
            run = self._recorder.events[step.event_id].runs[step.handler]
            if run.state != "recovering":
                await self._record("recovering", step)
            deadline = monotonic() + self.specs[step.handler].timeout
            printed = Printed()
            try:
                await within(deadline, self._put_back(step, deadline, printed))
            except Exception as error:
                reason = printed.late or describe(error)
                if run.is_stuck:  # once is enough for the ledger; the log has every try
                    log("stuck", "error", event_id=step.event_id, handler=step.handler, reason=reason)
                else:
                    await self._record("stuck", step, reason=reason)
                raise RetryLater(reason) from None
            await self._record("recovered", step, output=printed.text())

    async def _put_back(self, step: Recover, deadline: float, printed: Printed) -> None:
        context = self._context(step, deadline, printed)
        if healthy := self.specs[step.handler].healthy:
            await require_healthy(healthy, context)
        await self.handlers[step.handler].recover(context)

    async def look_again(self, step: LookAgain) -> str:
        """What was undone of what the handler prepared, in words; empty when nothing was."""
        said = ""

        async def look() -> None:
            nonlocal said
            said = await cast(Any, self.handlers[step.handler]).undone(self._context(step, deadline, Printed()))

        async with self._lock(step.handler):
            deadline = monotonic() + min(self.specs[step.handler].timeout, LOOK_SECONDS)
            await within(deadline, look())
        return said

    def _context(self, step: Prepare | Recover | LookAgain, deadline: float, printed: Printed) -> HandlerContext:
        event = self._recorder.events[step.event_id]
        run = event.runs[step.handler]
        notes = dict(run.notes)

        async def note(key: str, value: Any) -> None:
            await self._note(step, key, value)
            notes[key] = value

        return HandlerContext(
            event.seen, self._vm(), deadline, notes, note, event.drill, step.handler, run.again, printed
        )

    async def _note(self, step: Prepare | Recover | LookAgain, key: str, value: Any) -> None:
        try:
            size = len(msgspec.json.encode([key, value]))
        except (TypeError, ValueError, RecursionError) as error:
            raise HandlerFailed(f"This note cannot be stored: {error}.", hint="A note must be JSON.") from None
        if size > LARGEST_NOTE:
            raise HandlerFailed(f"A note of {size} bytes is too large.", hint=f"Use at most {LARGEST_NOTE}.")
        await self._recorder.append(
            LedgerRecord("note", step.event_id, wall(), self._boot, step.handler, key=key, value=value)
        )

    async def _record(
        self, kind: RecordKind, step: Prepare | Recover, revision: str = "", reason: str = "", output: str = ""
    ) -> None:
        drill = self._recorder.events[step.event_id].drill
        made = LedgerRecord(
            kind, step.event_id, wall(), self._boot, step.handler, revision, reason, output, drill=drill
        )
        await self._recorder.append(made)

    def _lock(self, handler: str) -> asyncio.Lock:
        return self._locks.setdefault(handler, asyncio.Lock())


async def within(deadline: float, work: Coroutine[Any, Any, None]) -> None:
    """Run until done or until the deadline; then cancel it, and wait only a while for it to clean up."""
    task = asyncio.ensure_future(work)
    # If we are cancelled in the moment in which it fails, nobody else reads its error.
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    try:
        await asyncio.wait({task}, timeout=max(0.0, deadline - monotonic()))
        if not task.done():
            await asyncio.wait({task}, timeout=LAST_LOOK)
        if task.cancelled():  # by itself: the agent goes on
            raise HandlerFailed("The handler cancelled itself.")
        if task.done():
            return task.result()
        raise TimeoutError("it was not done in time")
    finally:
        if not task.done():
            await _cut_off(task)


async def _cut_off(task: "asyncio.Future[None]") -> None:
    task.cancel()
    end = monotonic() + GRACE
    while not task.done() and (left := end - monotonic()) > 0:
        with suppress(asyncio.CancelledError):  # we are being stopped ourselves: still let it clean up
            await asyncio.wait({task}, timeout=left)


async def require_healthy(healthy: Argv | str, context: HandlerContext) -> None:
    """Return when the machine is healthy: the command exits with 0, or the address answers with a 2xx.

    A load balancer that gets the machine back while its service still starts sends it requests that fail.
    """
    hint = "It is asked again. duenotice agent skip goes on without this handler."
    try:
        if isinstance(healthy, str):
            timeout = min(HEALTH_SECONDS, seconds_left(context))
            answer = await fetch(healthy, timeout=timeout, longest=LONGEST_HEALTH_ANSWER, cut=True)
            if not 200 <= answer.status < 300:
                raise HandlerFailed(f"its address answers {answer.status}.")  # which may hold a secret
        else:
            await run_hook(healthy, "healthy", context)
    except DuenoticeError as error:
        raise HandlerFailed(f"This machine is not healthy yet: {error.message}", hint=hint) from None
