"""The agent: poll → plan → run → record → approve → recover. It does what the plan says, and decides nothing itself."""

import asyncio
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from duenotice.agent import drill as drills
from duenotice.agent.cases import Cases, LedgerRecord, apply, fingerprint, unfinished
from duenotice.agent.config import Config
from duenotice.agent.foresight import foresee
from duenotice.agent.handlers.readiness import SWITCH
from duenotice.agent.levers import pull
from duenotice.agent.logs import complain, describe, log
from duenotice.agent.own_name import OwnName
from duenotice.agent.peers import Asking
from duenotice.agent.plan import (
    ApprovalPolicy,
    Approve,
    AskPeers,
    LookAgain,
    PeerNews,
    PlanView,
    Prepare,
    Recover,
    Step,
    Wait,
    may_approve,
    plan,
    sight,
    unprepared,
    woken,
)
from duenotice.agent.ports import Ports
from duenotice.agent.problems import RECENT, Problem, SaidProblems, of_cases
from duenotice.agent.recorder import Recorder
from duenotice.agent.rules import rule_for
from duenotice.agent.tasks import Later, Tasks
from duenotice.agent.work import HandlerRunner
from duenotice.backoff import Backoff
from duenotice.client import AsyncMetadataClient
from duenotice.client.errors import MetadataError
from duenotice.clock import boot_id, later, monotonic, wall
from duenotice.errors import Conflict, DuenoticeError, Malformed
from duenotice.wire.seen_documents import SeenDocument
from duenotice.wire.spans import span

TICK = 0.5
"""The agent looks again after this many seconds, even without news: for drills, and for work that begins later."""
LOOK_AFTER = 5.0
"""Seconds between two looks at the ledger's file, at the ports and at what is wrong."""
UNREAD = 60.0
"""Seconds without a document, or without any try to get one, that are too many."""
CLOCK_OFF = 5.0
"""Seconds by which our clock may differ from the service's; the notice left is wrong by as much."""
QUICK = Backoff(0.5, 2.0)
AGAIN = Backoff(10.0, 10.0)
"""Between two looks at what is prepared."""
ON_ITS_WAY = 0.25
"""Seconds for the answer to an approval, when the event is seen as started; no try is repeated then."""


class Agent:
    """One VM's agent. `run` goes on until `stop` is called. All state that must last is in the ledger."""

    def __init__(
        self, config: Config, recorder: Recorder, client: AsyncMetadataClient, directory: Path, dry_run: bool = False
    ) -> None:
        self.recorder, self._client, self.directory, self._dry_run = recorder, client, directory, dry_run
        self.name = OwnName(config.metadata.name, directory, may_write=not dry_run)
        self.boot = boot_id()
        self._began_at = self._failed_at = monotonic()
        self._poll_failure = ""
        self._drill_problem: Problem | None = None
        self._said = SaidProblems()
        self._ended_by: Conflict | None = None
        self.document: SeenDocument | None = None
        self.heard_at: datetime | None = None
        self._news: dict[str, PeerNews] = {}
        self._unseen: dict[LookAgain, str] = {}
        """Looks at what is prepared that did not work, and why."""
        self._told: set[tuple[Any, ...]] = set()
        self._awake = asyncio.Event()
        self._stopping = False
        self.tasks = Tasks(self.wake)
        self.worker = HandlerRunner(recorder, lambda: self.me, self.boot, self._is_there)
        self.use(config)
        self._ports = Ports(self, lambda asked: pull(self, asked))

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
        self.worker.handlers, self.worker.specs = config.handlers, config.specs
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
        return unfinished(self.recorder.cases)

    @property
    def me(self) -> str:
        """This VM's name, or nothing as long as it is not known."""
        return self.name.me

    @property
    def is_polling(self) -> bool:
        """Whether polls are made at all, good or bad: if not, only another process helps."""
        return min(self.seconds_unread, monotonic() - self._failed_at) < UNREAD

    @property
    def seconds_unread(self) -> float:
        """For how long no document was read."""
        unread = self._client.seconds_unread
        return monotonic() - self._began_at if unread is None else unread

    async def run(self, started: Callable[[], None] = lambda: None) -> None:
        """Do everything, until told to stop."""
        if not self._dry_run:  # a dry run may run beside the real agent
            SWITCH.go_on(self.recorder.cases, self.config.handlers)
            await self._ports.keep_open()
        work = (self._follow(), self._tick(), self._look_after(), self.name.follow(self._client, self.wake))
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
            await self.tasks.stop()
            self._ports.close()
        if self._ended_by is not None:
            raise self._ended_by

    def is_at_work(self, event_id: str, handler: str) -> bool:
        """Whether the handler works for this event now."""
        return any(self.tasks.is_running((kind, event_id, handler)) for kind in (Prepare, Recover))

    def hurry(self, event_id: str, handler: str) -> None:
        """Let the handler make its next try at once."""
        self.tasks.hurry(lambda key: key[1:] == (event_id, handler))

    def view(self) -> PlanView:
        """The world as it is now, as the plan needs it."""
        config, heard = self.config, self.document is not None and bool(self.me)
        approval = config.approval if self.name.is_sure else ApprovalPolicy("never")
        return PlanView(self.me, self.boot, wall(), config.rules, config.specs, approval, self._news, heard)

    def shown(self) -> tuple[Cases, set[str]]:
        """All cases, and which of them the ledger does not have as they are: it cannot be written (S32)."""
        cases = dict(self.recorder.cases)
        if not self.recorder.failure or self.document is None or not self.me:
            return cases, set()
        unrecorded = list(sight(self.document.events, cases, self.view()))
        for record in unrecorded:
            apply(cases, record)
        return cases, {record.event_id for record in unrecorded}

    def problems(self) -> list[Problem]:
        """All that is wrong now, or was a short while ago (S32)."""
        view, recorder = self.view(), self.recorder
        cases, unrecorded = self.shown()
        found = [*of_cases(cases.values(), view), *self._unseen_problems()]
        if recorder.failure:
            names = [f"{cases[each].event.type} {each[:8]}" for each in sorted(unrecorded)]
            missing = f" Nothing is done about {', '.join(names)}." if names else ""
            found.append(
                Problem("disk", f"Nothing can be recorded.{missing} {recorder.failure}", "Look at the disk: df, dmesg.")
            )
        elif shortage := recorder.shortage:
            what = f"An event could not be recorded, so nothing would be done about it. {shortage}"
            found.append(Problem("disk", what, "Make room for the agent's ledger: df, dmesg."))
        if recorder.lost_at is not None and view.now < later(recorder.lost_at, RECENT):
            at = recorder.lost_at.isoformat(timespec="seconds")
            hint = "Find out who moves, removes or changes files in the state directory."
            found.append(Problem("ledger", f"The ledger was gone or changed at {at}; it was written again.", hint))
        if lost := sorted(self.unfinished - self.config.handlers.keys()):
            what = f"{', '.join(lost)} must put something back, and is not in agent.toml."
            found.append(Problem("stuck", what, "Add it again, and reload the agent."))
        found += [each for each in (self.name.problem(), self._drill_problem) if each is not None]
        return [*found, *self._service_problems(), *self._ports.problems()]

    def _unseen_problems(self) -> Iterator[Problem]:
        for (event_id, handler), why in self._unseen.items():
            case, spec = self.recorder.cases.get(event_id), self.config.specs.get(handler)
            if case is None or case.returning or spec is None or not spec.looks:
                continue
            if case.works[handler].state == "prepared":
                what = f"{case.event.type} {event_id[:8]}: whether {handler} is still prepared is not known: {why}"
                yield Problem("failed", what, "Look at what it asks; it is asked again.", event_id, handler)

    def _service_problems(self) -> Iterator[Problem]:
        hint = "Look at the agent's log. Ask from this VM: duenotice agent check --online."
        if not self.is_polling:
            yield Problem("polls", "No poll was made for more than a minute: it would not learn of events.", hint)
        elif self.seconds_unread > UNREAD:
            what = "No document was read for more than a minute: it would not learn of events."
            yield Problem("polls", f"{what} {self._poll_failure}", hint)
        ahead = self._client.service_ahead
        if ahead is not None and abs(ahead) > CLOCK_OFF:
            how = "behind" if ahead > 0 else "ahead of"
            what = f"This machine's clock is {span(ahead)} {how} the service, so the notice left is wrong by as much."
            yield Problem("clock", what, "Use NTP to keep it correct.")

    async def _turn(self) -> None:
        """One round: see what is new, plan, and start the steps."""
        try:
            await self._look()
        except DuenoticeError as error:  # the ledger cannot be written: begin nothing that could not be recorded
            self._end_if_taken(error)
            return
        if self._dry_run:
            self._foretell()
            return
        steps = plan(self.recorder.cases, self.view())
        self.tasks.cancel(self._is_withdrawn)
        keys = {_key(step) for step in steps}
        self.tasks.forget(keys.__contains__)
        for step in steps:
            self._start(step)

    async def _look(self) -> None:
        cases, view = self.recorder.cases, self.view()
        await self.recorder.append(*woken(cases, view))
        if view.heard and self.document is not None:
            news = list(sight(self.document.events, cases, view))
            left_alone = [each for each in news if self._is_new_and_left_alone(each)]
            await self.recorder.append(*news)
            for each in left_alone:
                log("left-alone", event_id=each.event_id, reason="no rule matches this event, so nothing is prepared")
        if view.me:
            events = drills.drilled(self._drill(), cases, view)
            await self.recorder.append(*sight(events, cases, view, drill=True))
        await self.recorder.append(*unprepared(cases, view))

    def _is_new_and_left_alone(self, news: LedgerRecord) -> bool:
        if news.seen is None or rule_for(self.config.rules, news.seen) is not None:
            return False
        known = self.recorder.cases.get(news.event_id)
        return known is None or known.is_closed or known.content != fingerprint(news.seen)

    def _drill(self) -> drills.Drill | None:
        try:
            drill = drills.current(self.directory, self.recorder.cases)
        except Malformed as error:
            self._drill_problem = Problem("file", error.message, error.hint)
            return None
        self._drill_problem = None
        return drill

    def _is_withdrawn(self, key: tuple[Any, ...]) -> bool:
        """Whether the step is for an event that is gone, approves what may not be approved any more (S12), or was
        skipped."""
        kind, event_id, handler = key
        case = self.recorder.cases.get(event_id)
        if case is None:
            return True
        work = case.works.get(handler)
        if case.returning:
            return kind is not Recover or (work is not None and work.state == "recovered")
        if kind is Prepare:
            return work is not None and work.skipped and work.content == case.content
        return kind is Approve and not may_approve(case, self.view())

    def _still_approves(self, event_id: str) -> bool:
        """By the last document too: it may not be recorded yet, if the disk cannot be written (S12)."""
        case, events = self.recorder.cases.get(event_id), () if self.document is None else self.document.events
        return case is not None and case.event in events and not self._is_withdrawn((Approve, event_id, ""))

    def _is_there(self, event_id: str) -> bool:
        """Whether the event of a case is in the last document; one of a drill is in none."""
        case = self.recorder.cases.get(event_id)
        if self.document is None or (case is not None and case.drill):
            return True
        return any(event.event_id == event_id for event in self.document.events)

    def _start(self, step: Step) -> None:
        match step:
            case Prepare():
                self.tasks.start(_key(step), lambda: self.worker.prepare(step))
            case Recover():
                self.tasks.start(_key(step), lambda: self.worker.recover(step))
            case LookAgain():
                self.tasks.start(_key(step), lambda: self._look_again(step), AGAIN)
            case AskPeers():
                self.tasks.start(_key(step), lambda: self._ask(step), Backoff(1.0, 1.0))
            case Approve():
                self.tasks.start(_key(step), lambda: self._approve(step), QUICK)
            case Wait():
                pass  # the tick looks again

    def _foretell(self) -> None:
        """Log once all that would be done for each event; again if its content changes, or its way back begins."""
        view = self.view()
        self._told = {key for key in self._told if key[0] in self.recorder.cases}
        for event_id, case in self.recorder.cases.items():
            key = (event_id, case.first_seen, case.content, case.returning)
            if key not in self._told and (view.heard or case.drill or case.returning):
                self._told.add(key)
                for foreseen in foresee(case, view):
                    log("would", step=foreseen.step, event_id=event_id, **foreseen.details)

    async def _look_again(self, step: LookAgain) -> None:
        self._unseen = {each: why for each, why in self._unseen.items() if each.event_id in self.recorder.cases}
        try:
            undone = await self.worker.look_again(step)
        except Exception as error:
            self._unseen[step] = describe(error)
            raise
        self._unseen.pop(step, None)
        if not undone:
            raise Later
        case = self.recorder.cases[step.event_id]
        made = LedgerRecord("undone", step.event_id, wall(), self.boot, step.handler, reason=undone, drill=case.drill)
        await self.recorder.append(made)

    async def _ask(self, step: AskPeers) -> None:
        assert self.config.peers is not None
        content = self.recorder.cases[step.event_id].content
        news = await Asking(self.config.peers, self.config.peer_keys).ask(step, content)
        self._news = {event_id: old for event_id, old in self._news.items() if event_id in self.recorder.cases}
        self._news[step.event_id] = news
        if any(isinstance(each, AskPeers) and each == step for each in plan(self.recorder.cases, self.view())):
            missing = sorted({*step.ready} - news.ready)
            log("not-all-ready", event_id=step.event_id, waiting_for=missing, in_service=sorted(news.in_service))
            raise Later

    async def _approve(self, step: Approve) -> None:
        """The peers' answers count for this one approval only; after a failure they are asked again."""
        content = self.recorder.cases[step.event_id].content
        try:
            await self._answer_to_approval(step.event_id)
        finally:
            self._news.pop(step.event_id, None)
        await self.recorder.append(LedgerRecord("approved", step.event_id, wall(), self.boot, content=content))

    async def _answer_to_approval(self, event_id: str) -> None:
        """What we approve may be seen as started before the answer to the approval is read: that comes in a moment."""
        asking = asyncio.ensure_future(self._client.approve(event_id, is_wanted=lambda: self._still_approves(event_id)))
        try:
            await asyncio.shield(asking)
        except asyncio.CancelledError:
            case = self.recorder.cases.get(event_id)
            if case is not None and case.event.started:
                await asyncio.wait({asking}, timeout=ON_ITS_WAY)
            if not asking.done():
                asking.cancel()
            if asking.cancelled() or not asking.done() or asking.exception() is not None:
                raise

    async def _follow(self) -> None:
        """Read documents for ever; an error is never a document (S14)."""
        while True:
            try:
                async for document in self._client.watch(self._poll_failed):
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
        self._failed_at, self._poll_failure = monotonic(), describe(error)
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
