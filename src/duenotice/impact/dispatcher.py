"""Lets a driver carry out the impact of each started event, once, and reports the result.

It listens to what is committed, and at the start goes through what is Started already: a crash at any moment loses
nothing, because the journal says what has started, and the driver knows what it had begun. Waits here are in real time,
whatever the clock: a real command takes real time.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import structlog

from duenotice.backoff import Backoff
from duenotice.clock import micros
from duenotice.domain import records as t
from duenotice.domain.commands import AcceptImpact, Command, ReportAttempt, ReportImpact
from duenotice.domain.event import Event
from duenotice.engine.engine import Engine
from duenotice.errors import Refused, Unavailable
from duenotice.impact.claims import Claim, ImpactClaims, OnlyNode
from duenotice.impact.driver import AttemptEnd, AttemptOutcome, Driver

LONGEST_PAUSE = 3600.0
"""Seconds; pauses grow up to here, unless a longer one was asked for."""

_STORE_AGAIN = Backoff(1.0, 30.0)
"""Seconds between tries to report while nothing can be stored."""

_LOOK_AGAIN = 1.0
"""Seconds between looks at an attempt that another node makes."""

log = structlog.get_logger()


class Dispatcher:
    """At most `at_once` impacts at a time; the others wait as ids, which is all they cost (S24)."""

    def __init__(
        self,
        engine: Engine,
        driver: Driver,
        *,
        at_once: int,
        retry_after: float,
        report_within: float,
        claims: ImpactClaims | None = None,
    ) -> None:
        self._engine = engine
        self._driver, self._claims = driver, claims or OnlyNode()
        self._at_once = at_once
        self._backoff = Backoff(retry_after, max(retry_after, LONGEST_PAUSE))
        self._report_within = report_within
        self._waiting: deque[str] = deque()
        self._known: set[str] = set()
        self._reported: dict[str, int] = {}
        """Attempts whose result is stored, and not seen here yet."""
        self._running: set[asyncio.Task[None]] = set()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._open = False
        driver.sweep(engine.state.events)
        engine.on_commit.append(self._look)
        engine.on_recover.append(self._look_at_all)

    def start(self) -> None:
        """Begin with what an earlier process left, or an earlier leader."""
        self._open = True
        self._look_at_all()

    async def stop(self) -> None:
        """Begin nothing more; what is under way outside goes on and is found by the next start."""
        self._open = False
        for timer in self._timers.values():
            timer.cancel()
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        await self._driver.close()

    def _look(self, records: Sequence[t.Record]) -> None:
        for record in records:
            if (act := ACTIONS.get(type(record.transition))) is not None:
                act(self, record.transition)
        self._fill()

    def _look_at_all(self) -> None:
        for event in self._engine.state.events.values():
            self._take(event)
            if event.accepted and self._claims.leads():
                self._await_report(event.id)
        self._fill()

    def _take(self, event: Event) -> None:
        if event.awaits_driver and event.id not in self._known and self._claims.attends(event):
            self._known.add(event.id)
            self._waiting.append(event.id)

    def _fill(self) -> None:
        while self._open and self._waiting and len(self._running) < self._at_once:
            task = asyncio.create_task(self._attend(self._waiting.popleft()), name="impact")
            self._running.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._running.discard(task)
        self._engine.lost(task)
        self._fill()

    async def _attend(self, event_id: str) -> None:
        """One attempt of one event, and what follows from it."""
        event = self._engine.state.events.get(event_id)
        if event is None or not event.awaits_driver or not self._claims.attends(event):
            self._settle(event_id)  # reported by somebody else, gone with its VMs, or for another leader
            return
        attempt = event.failed_attempts + 1
        try:
            outcome = await self._outcome(event, attempt)
            if outcome is None:
                self._later(event_id, _LOOK_AGAIN, self._again)
                return
            await self._report(_command(event_id, attempt, outcome))
        except Exception as error:
            # We do not know how the attempt went: it has not failed, and we ask again. Others go on.
            log.error("impact unknown", action="impact-unknown", event_id=event_id, attempt=attempt, error=str(error))
            self._go_on(event_id, attempt)
        else:
            self._reported[event_id] = attempt
            self._conclude(event_id)

    async def _outcome(self, event: Event, attempt: int) -> AttemptOutcome | None:
        """How an attempt ended; None: another node makes it."""
        claim = await self._claims.claim(event, attempt)
        if claim is Claim.LOST:
            if (lost := self._driver.lost(event.claimed_by)) is not None:
                return lost
            claim = await self._claims.claim(event, attempt, instead=True)
        return await self._driver.run(event, attempt) if claim is Claim.OURS else None

    def _conclude(self, event_id: str) -> None:
        """The result is stored. Until our own state has it too, the attempt would seem not made: notes are kept.

        The node that leads may be ahead of this one.
        """
        event, attempt = self._engine.state.events.get(event_id), self._reported[event_id]
        if event is not None and event.awaits_driver and event.failed_attempts < attempt:
            self._later(event_id, _LOOK_AGAIN, self._conclude)
            return
        self._forget(event_id)
        self._go_on(event_id, attempt)

    def _forget(self, event_id: str) -> None:
        attempt = self._reported.pop(event_id, None)
        if attempt is not None:
            self._driver.forget(event_id, attempt)

    def _go_on(self, event_id: str, attempt: int) -> None:
        event = self._engine.state.events.get(event_id)
        if event is not None and event.awaits_driver:
            self._later(event_id, self._backoff.after(attempt - 1), self._again)
            return
        self._settle(event_id)

    def _settle(self, event_id: str) -> None:
        """No attempt is needed now. What was accepted is waited for, also when we learn of it late."""
        self._known.discard(event_id)
        event = self._engine.state.events.get(event_id)
        if event is not None and event.accepted and self._claims.leads():
            self._await_report(event_id)

    async def _report(self, command: Command) -> None:
        """Tell the engine until it is stored. A refusal means that somebody else has already reported it."""
        for pause in _STORE_AGAIN.pauses():
            try:
                await self._engine.submit(command, f"driver/{self._driver.name}")
                return
            except Refused as refusal:
                log.info("report not needed", action="report-refused", error=refusal.message)
                return
            except Unavailable:
                await asyncio.sleep(pause)

    def _again(self, event_id: str) -> None:
        self._waiting.append(event_id)
        self._fill()

    def _await_report(self, event_id: str) -> None:
        if event_id not in self._timers:
            self._later(event_id, self._report_within, self._miss_report)

    def _miss_report(self, event_id: str) -> None:
        if not self._claims.leads():
            return
        failure = f"It was accepted, but no report came within {self._report_within:g} seconds."
        task = asyncio.create_task(self._report(ReportImpact(event_id, failure)), name="impact")
        self._running.add(task)
        task.add_done_callback(self._ended)

    def _later(self, event_id: str, seconds: float, then: Callable[[str], None]) -> None:
        """Instead of what was to come: news of an event may have set a timer while its attempt was under way."""

        def now() -> None:
            del self._timers[event_id]
            then(event_id)

        if (timer := self._timers.pop(event_id, None)) is not None:
            timer.cancel()
        if self._open:
            self._timers[event_id] = asyncio.get_running_loop().call_later(seconds, now)

    def _drop_timer(self, event_id: str) -> None:
        timer = self._timers.pop(event_id, None)
        if timer is not None:
            timer.cancel()
            self._known.discard(event_id)
            self._forget(event_id)


def _command(event_id: str, attempt: int, outcome: AttemptOutcome) -> Command:
    took = None if outcome.took is None else micros(outcome.took)
    match outcome.end:
        case AttemptEnd.DONE:
            return ReportImpact(event_id, what=outcome.what, took=took)
        case AttemptEnd.ACCEPTED:
            return AcceptImpact(event_id)
        case AttemptEnd.FAILED:
            return ReportAttempt(event_id, attempt, outcome.reason)
        case AttemptEnd.HOPELESS:
            return ReportImpact(event_id, outcome.reason, took=took)


ACTIONS: dict[type[t.Change], Callable[[Dispatcher, Any], None]] = {
    t.EventRaised: lambda dispatcher, change: dispatcher._take(change.event),
    t.EventStarted: lambda dispatcher, change: dispatcher._take(change.event),
    t.ImpactAccepted: lambda dispatcher, change: dispatcher._settle(change.event_id),
    t.EventCompleted: lambda dispatcher, change: dispatcher._drop_timer(change.event_id),
    t.EventFailed: lambda dispatcher, change: dispatcher._drop_timer(change.event_id),
}
"""What is done when a record of these kinds is committed."""
