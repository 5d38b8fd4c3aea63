"""The agent: poll → observe → plan → run → record → approve → recover. It does what the planner says, and no more."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from datetime import datetime
from pathlib import Path
from typing import Any

from duenotice.agent import drill as drills
from duenotice.agent.config import Config
from duenotice.agent.control import answer_action
from duenotice.agent.dry_run import predict
from duenotice.agent.executor import Executor, RetryLater
from duenotice.agent.handlers.readiness import READINESS
from duenotice.agent.ledger import Recorder
from duenotice.agent.log import complain, describe, log
from duenotice.agent.own_name import OwnName
from duenotice.agent.peers import PeerClient
from duenotice.agent.planner import (
    ApprovalPolicy,
    Approve,
    AskPeers,
    LookAgain,
    PeerAnswers,
    Prepare,
    Recover,
    Step,
    Wait,
    World,
    match_rule,
    may_approve,
    next_steps,
    observe,
    on_boot,
    unprepared,
)
from duenotice.agent.problems import Problem, ProblemLog, find_problems
from duenotice.agent.state import Events, LedgerRecord, apply, revision_of, unfinished
from duenotice.agent.status import Ports
from duenotice.backoff import Backoff
from duenotice.client import AsyncMetadataClient
from duenotice.client.errors import MetadataError
from duenotice.clock import boot_id, monotonic, wall
from duenotice.errors import Conflict, DuenoticeError, Malformed
from duenotice.wire.seen_documents import SeenDocument

TICK = 0.5
"""The agent looks again after this many seconds, even without news: for drills, and for work that begins later."""
LOOK_AFTER = 5.0
"""Seconds between two looks at the ledger's file, at the ports and at what is wrong."""
UNREAD = 60.0
"""Seconds without a document, or without any try to get one, that are too many."""
APPROVAL_BACKOFF = Backoff(0.5, 2.0)
LOOK_BACKOFF = Backoff(10.0, 10.0)
"""Between two looks at what is prepared."""
ON_ITS_WAY = 0.25
"""Seconds for the answer to an approval, when the event is seen as started; no try is repeated then."""


class Agent:
    """One VM's agent. `run` goes on until `stop` is called. All state that must last is in the ledger."""

    def __init__(
        self, config: Config, recorder: Recorder, client: AsyncMetadataClient, directory: Path, dry_run: bool = False
    ) -> None:
        self.recorder, self.client, self.directory, self._dry_run = recorder, client, directory, dry_run
        self.name = OwnName(config.metadata.name, directory, may_write=not dry_run)
        self.boot = boot_id()
        self._began_at = self._failed_at = monotonic()
        self.poll_failure = ""
        self.drill_problem: Problem | None = None
        self._said = ProblemLog()
        self._ended_by: Conflict | None = None
        self.document: SeenDocument | None = None
        self.heard_at: datetime | None = None
        self._peer_answers: dict[str, PeerAnswers] = {}
        self.failed_looks: dict[LookAgain, str] = {}
        """Looks at what is prepared that did not work, and why."""
        self._told: set[tuple[Any, ...]] = set()
        self._awake = asyncio.Event()
        self._stopping = False
        self.jobs = Jobs(self.wake)
        self.executor = Executor(recorder, lambda: self.me, self.boot, self._is_there)
        self.use(config)
        self._ports = Ports(self, lambda asked: answer_action(self, asked))

    def wake(self) -> None:
        """Look again soon."""
        self._awake.set()

    def stop(self) -> None:
        """End cleanly; the next agent goes on from the ledger."""
        self._stopping = True
        self.wake()

    def use(self, config: Config) -> None:
        """Go on with another configuration. Its endpoint, ports and wish for advice count from the next start on."""
        self.config = config
        self._told.clear()
        self.executor.handlers, self.executor.specs = config.handlers, config.specs
        if lost := self.unfinished - config.handlers.keys():
            log(
                "handlers-missing",
                "error",
                handlers=sorted(lost),
                hint="What these handlers prepared cannot be put back.",
            )
        self.wake()

    @property
    def unfinished(self) -> set[str]:
        """Handlers that have something to put back."""
        return unfinished(self.recorder.events)

    @property
    def me(self) -> str:
        """This VM's name, or nothing as long as it is not known."""
        return self.name.me

    @property
    def is_polling(self) -> bool:
        """Whether polls are made at all, good or bad: if not, only another process helps."""
        return min(self.seconds_unread, monotonic() - self._failed_at) < UNREAD

    @property
    def is_reading(self) -> bool:
        """Whether a document was read within the last minute."""
        return self.seconds_unread <= UNREAD

    @property
    def seconds_unread(self) -> float:
        """For how long no document was read."""
        unread = self.client.seconds_unread
        return monotonic() - self._began_at if unread is None else unread

    async def run(self, started: Callable[[], None] = lambda: None) -> None:
        """Do everything, until told to stop."""
        if not self._dry_run:  # a dry run may run beside the real agent
            READINESS.go_on(self.recorder.events, self.config.handlers)
            await self._ports.keep_open()
        work = (self._follow(), self._tick(), self._look_after(), self.name.follow(self.client, self.wake))
        background = [asyncio.ensure_future(each) for each in work]
        started()
        try:
            while not self._stopping:
                self._awake.clear()
                await self._turn()
                await self._awake.wait()
        finally:
            for task in background:
                task.cancel()
            await asyncio.wait(background)
            await self.jobs.stop()
            self._ports.close()
        if self._ended_by is not None:
            raise self._ended_by

    def is_at_work(self, event_id: str, handler: str) -> bool:
        """Whether the handler works for this event now."""
        return any(self.jobs.is_running((kind, event_id, handler)) for kind in (Prepare, Recover))

    def hurry(self, event_id: str, handler: str) -> None:
        """Let the handler make its next try at once."""
        self.jobs.hurry(lambda key: key[1:] == (event_id, handler))

    def world(self) -> World:
        """The world as it is now, as the planner needs it."""
        config, document_read = self.config, self.document is not None and bool(self.me)
        approval = config.approval if self.name.is_sure else ApprovalPolicy("never")
        return World(
            self.me, self.boot, wall(), config.rules, config.specs, approval, self._peer_answers, document_read
        )

    def shown(self) -> tuple[Events, set[str]]:
        """All events, and which of them the ledger does not have as they are: it cannot be written (S32)."""
        events = dict(self.recorder.events)
        if not self.recorder.failure or self.document is None or not self.me:
            return events, set()
        unrecorded = list(observe(self.document.events, events, self.world()))
        for record in unrecorded:
            apply(events, record)
        return events, {record.event_id for record in unrecorded}

    def problems(self) -> list[Problem]:
        """All that is wrong now, or was a short while ago (S32)."""
        return [*find_problems(self), *self._ports.problems()]

    async def _turn(self) -> None:
        """One round: see what is new, and start the steps that follow."""
        try:
            await self._look()
        except DuenoticeError as error:  # the ledger cannot be written: begin nothing that could not be recorded
            self._end_if_taken(error)
            return
        if self._dry_run:
            self._log_predictions()
            return
        steps = next_steps(self.recorder.events, self.world())
        self.jobs.cancel(self._is_withdrawn)
        keys = {_key(step) for step in steps}
        self.jobs.forget(keys.__contains__)
        for step in steps:
            self._start(step)

    async def _look(self) -> None:
        events, world = self.recorder.events, self.world()
        await self.recorder.append(*on_boot(events, world))
        if world.document_read and self.document is not None:
            news = list(observe(self.document.events, events, world))
            left_alone = [each for each in news if self._is_new_and_left_alone(each)]
            await self.recorder.append(*news)
            for each in left_alone:
                log("left-alone", event_id=each.event_id, reason="no rule matches this event, so nothing is prepared")
        if world.me:
            played = drills.drilled(self._drill(), events, world)
            await self.recorder.append(*observe(played, events, world, drill=True))
        await self.recorder.append(*unprepared(events, world))

    def _is_new_and_left_alone(self, news: LedgerRecord) -> bool:
        if news.seen is None or match_rule(self.config.rules, news.seen) is not None:
            return False
        known = self.recorder.events.get(news.event_id)
        return known is None or known.is_closed or known.revision != revision_of(news.seen)

    def _drill(self) -> drills.Drill | None:
        try:
            drill = drills.current(self.directory, self.recorder.events)
        except Malformed as error:
            self.drill_problem = Problem("file", error.message, error.hint)
            return None
        self.drill_problem = None
        return drill

    def _is_withdrawn(self, key: tuple[Any, ...]) -> bool:
        """Whether the step is for an event that is gone, approves what may not be approved any more (S12), or was
        skipped."""
        kind, event_id, handler = key
        event = self.recorder.events.get(event_id)
        if event is None:
            return True
        run = event.runs.get(handler)
        if event.recovering:
            return kind is not Recover or (run is not None and run.state == "recovered")
        if kind is Prepare:
            return run is not None and run.skipped and run.revision == event.revision
        return kind is Approve and not may_approve(event, self.world())

    def _still_approves(self, event_id: str) -> bool:
        """By the last document too: it may not be recorded yet, if the disk cannot be written (S12)."""
        event, events = self.recorder.events.get(event_id), () if self.document is None else self.document.events
        return event is not None and event.seen in events and not self._is_withdrawn((Approve, event_id, ""))

    def _is_there(self, event_id: str) -> bool:
        """Whether it is in the last document; an event of a drill is in none."""
        event = self.recorder.events.get(event_id)
        if self.document is None or (event is not None and event.drill):
            return True
        return any(event.event_id == event_id for event in self.document.events)

    def _start(self, step: Step) -> None:
        match step:
            case Prepare():
                self.jobs.start(_key(step), lambda: self.executor.prepare(step))
            case Recover():
                self.jobs.start(_key(step), lambda: self.executor.recover(step))
            case LookAgain():
                self.jobs.start(_key(step), lambda: self._look_again(step), LOOK_BACKOFF)
            case AskPeers():
                self.jobs.start(_key(step), lambda: self._ask(step), Backoff(1.0, 1.0))
            case Approve():
                self.jobs.start(_key(step), lambda: self._approve(step), APPROVAL_BACKOFF)
            case Wait():
                pass  # the tick looks again

    def _log_predictions(self) -> None:
        """Log once all that would be done for each event; again if its content changes, or its way back begins."""
        world = self.world()
        self._told = {key for key in self._told if key[0] in self.recorder.events}
        for event_id, event in self.recorder.events.items():
            key = (event_id, event.first_seen, event.revision, event.recovering)
            if key not in self._told and (world.document_read or event.drill or event.recovering):
                self._told.add(key)
                for predicted in predict(event, world):
                    log("would", step=predicted.step, event_id=event_id, **predicted.details)

    async def _look_again(self, step: LookAgain) -> None:
        self.failed_looks = {
            each: why for each, why in self.failed_looks.items() if each.event_id in self.recorder.events
        }
        try:
            undone = await self.executor.look_again(step)
        except Exception as error:
            self.failed_looks[step] = describe(error)
            raise
        self.failed_looks.pop(step, None)
        if not undone:
            raise RetryLater
        event = self.recorder.events[step.event_id]
        made = LedgerRecord("undone", step.event_id, wall(), self.boot, step.handler, reason=undone, drill=event.drill)
        await self.recorder.append(made)

    async def _ask(self, step: AskPeers) -> None:
        assert self.config.peers is not None
        revision = self.recorder.events[step.event_id].revision
        answers = await PeerClient(self.config.peers, self.config.peer_keys).ask(step, revision)
        self._peer_answers = {
            event_id: old for event_id, old in self._peer_answers.items() if event_id in self.recorder.events
        }
        self._peer_answers[step.event_id] = answers
        if any(isinstance(each, AskPeers) and each == step for each in next_steps(self.recorder.events, self.world())):
            missing = sorted({*step.ready} - answers.ready)
            log("not-all-ready", event_id=step.event_id, waiting_for=missing, in_service=sorted(answers.in_service))
            raise RetryLater

    async def _approve(self, step: Approve) -> None:
        """The peers' answers count for this one approval only; after a failure they are asked again."""
        revision = self.recorder.events[step.event_id].revision
        try:
            await self._answer_to_approval(step.event_id)
        finally:
            self._peer_answers.pop(step.event_id, None)
        await self.recorder.append(LedgerRecord("approved", step.event_id, wall(), self.boot, revision=revision))

    async def _answer_to_approval(self, event_id: str) -> None:
        """What we approve may be seen as started before the answer to the approval is read: that comes in a moment."""
        asking = asyncio.ensure_future(self.client.approve(event_id, is_wanted=lambda: self._still_approves(event_id)))
        try:
            await asyncio.shield(asking)
        except asyncio.CancelledError:
            event = self.recorder.events.get(event_id)
            if event is not None and event.seen.started:
                await asyncio.wait({asking}, timeout=ON_ITS_WAY)
            if not asking.done():
                asking.cancel()
            if asking.cancelled() or not asking.done() or asking.exception() is not None:
                raise

    async def _follow(self) -> None:
        """Read documents for ever; an error is never a document (S14)."""
        while True:
            try:
                async for document in self.client.watch(self._poll_failed):
                    self.document, self.heard_at = document, wall()
                    if self.me and not any(event.hits(self.me) for event in document.events):
                        self.name.look_again()  # ours may be there under a name that we were given since
                    self.recorder.counters.documents += 1
                    self.wake()
            except MetadataError as error:
                self._poll_failed(error)
            except Exception as error:  # whatever went wrong, an agent that stops listening would be worse
                complain("metadata-unusable", error)
            await asyncio.sleep(1.0)

    def _poll_failed(self, error: MetadataError) -> None:
        self._failed_at, self.poll_failure = monotonic(), describe(error)
        self.recorder.counters.poll_errors += 1
        complain("poll-failed", error)

    async def _look_after(self) -> None:
        """See what is wrong, also when nothing is to be recorded, and say it (S32)."""
        while True:
            await asyncio.sleep(LOOK_AFTER)
            try:
                await self.recorder.look_after()
            except DuenoticeError as error:
                self._end_if_taken(error)
            if not self._dry_run:
                await self._ports.keep_open()
            self._said.say(self.problems())

    def _end_if_taken(self, error: DuenoticeError) -> None:
        """Another agent has our directory: of two that act, one must end (S12)."""
        if isinstance(error, Conflict):
            self._ended_by = error
            self.stop()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            self.wake()


def _key(step: Step) -> tuple[Any, ...]:
    """Two steps with the same key are the same work."""
    return (type(step), step.event_id, getattr(step, "handler", ""))


Job = Callable[[], Coroutine[Any, Any, None]]
JOB_BACKOFF = Backoff(1.0, 60.0)


class Jobs:
    """Work in the background: one task for each key. One that hangs delays only its own key.

    Pauses grow after failures, and the loop is woken when a task ends.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._running: dict[Hashable, asyncio.Task[None]] = {}
        self._failures: dict[Hashable, int] = {}
        self._paused_until: dict[Hashable, float] = {}

    def start(self, key: Hashable, job: Job, backoff: Backoff = JOB_BACKOFF) -> None:
        """Begin a job, unless it is running or must pause."""
        if key not in self._running and monotonic() >= self._paused_until.get(key, 0.0):
            task = asyncio.ensure_future(job())
            self._running[key] = task
            task.add_done_callback(lambda done: self._ended(key, done, backoff))

    def cancel(self, chosen: Callable[[Any], bool]) -> None:
        """Stop tasks that are no longer wanted; each is told once, so that it can clean up undisturbed."""
        for key, task in self._running.items():
            if chosen(key) and not task.cancelling():
                task.cancel()

    def forget(self, wanted: Callable[[Any], bool]) -> None:
        """Forget failures that nobody asks about any more (S24)."""
        for key in [key for key in self._failures if not wanted(key)]:
            del self._failures[key], self._paused_until[key]

    def is_running(self, key: Hashable) -> bool:
        return key in self._running

    def hurry(self, chosen: Callable[[Any], bool]) -> None:
        """Pause no longer."""
        for key in [key for key in self._paused_until if chosen(key)]:
            self._paused_until[key] = 0.0

    async def stop(self) -> None:
        """Cancel everything and wait until it has cleaned up."""
        self.cancel(lambda key: True)
        if self._running:
            await asyncio.wait(list(self._running.values()))

    def _ended(self, key: Hashable, task: "asyncio.Task[None]", backoff: Backoff) -> None:
        del self._running[key]
        error = None if task.cancelled() else task.exception()
        if error is None:
            self._failures.pop(key, None)
            self._paused_until.pop(key, None)
        else:
            self._pause(key, error, backoff)
        self._wake()

    def _pause(self, key: Hashable, error: BaseException, backoff: Backoff) -> None:
        if not isinstance(error, RetryLater) and isinstance(error, Exception):
            complain("step-failed", error, step=str(key))
        failures = self._failures.get(key, 0)
        pause = backoff.after(failures)
        self._failures[key] = failures + 1
        self._paused_until[key] = monotonic() + pause
        asyncio.get_running_loop().call_later(pause, self._wake)
