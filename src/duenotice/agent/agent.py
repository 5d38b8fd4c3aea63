"""The agent: poll → plan → run → record → approve → recover. It does what the plan says, and decides nothing itself."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from duenotice.agent import drill as drills
from duenotice.agent.cases import LedgerRecord, unfinished
from duenotice.agent.config import Config
from duenotice.agent.foresight import foresee
from duenotice.agent.logs import complain, log
from duenotice.agent.peers import Asking
from duenotice.agent.plan import (
    Approve,
    AskPeers,
    PeerNews,
    PlanView,
    Prepare,
    Recover,
    Step,
    Wait,
    may_approve,
    plan,
    sight,
    woken,
)
from duenotice.agent.ports import open_ports
from duenotice.agent.recorder import Recorder
from duenotice.agent.tasks import Later, Tasks
from duenotice.agent.work import HandlerRunner
from duenotice.backoff import Backoff
from duenotice.client import AsyncMetadataClient
from duenotice.client.errors import MetadataError
from duenotice.clock import boot_id, wall
from duenotice.errors import DuenoticeError
from duenotice.wire.seen_document import SeenDocument

TICK = 0.5
"""The agent looks again after this many seconds, even without news: for drills, and for work that begins later."""
LOOK_AFTER = 5.0
"""Seconds between two looks at the ledger's file, when nothing is recorded."""
QUICK = Backoff(0.5, 2.0)
ON_ITS_WAY = 0.25
"""Seconds for the answer to an approval, when the event is seen as started; no try is repeated then."""
NAME_FILE = "vm-name"


class Agent:
    """One VM's agent. `run` goes on until `stop` is called. All state that must last is in the ledger."""

    def __init__(
        self, config: Config, recorder: Recorder, client: AsyncMetadataClient, directory: Path, dry_run: bool = False
    ) -> None:
        self.recorder, self._client, self.directory, self._dry_run = recorder, client, directory, dry_run
        self.me = config.metadata.name
        self.boot = boot_id()
        self.document: SeenDocument | None = None
        self.heard_at: datetime | None = None
        self._news: dict[str, PeerNews] = {}
        self._told: set[tuple[Any, ...]] = set()
        self._awake = asyncio.Event()
        self._stopping = False
        self.tasks = Tasks(self.wake)
        self.worker = HandlerRunner(recorder, lambda: self.me, self.boot, self._is_there)
        self.use(config)

    def wake(self) -> None:
        """Look again soon."""
        self._awake.set()

    def stop(self) -> None:
        """End cleanly; the next agent goes on from the ledger."""
        self._stopping = True
        self.wake()

    def use(self, config: Config) -> None:
        """Go on with another configuration. Its endpoint and ports are used from the next start on."""
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

    async def run(self, started: Callable[[], None] = lambda: None) -> None:
        """Do everything, until told to stop."""
        servers = [] if self._dry_run else await open_ports(self)  # a dry run may run beside the real agent
        background = [asyncio.ensure_future(work) for work in (self._follow(), self._tick(), self._look_after())]
        await self.recorder.append(*woken(self.recorder.cases, self.view()))
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
            for server in servers:
                server.close()

    def view(self) -> PlanView:
        """The world as it is now, as the plan needs it."""
        config, heard = self.config, self.document is not None
        return PlanView(self.me, self.boot, wall(), config.rules, config.specs, config.approval, self._news, heard)

    async def _turn(self) -> None:
        """One round: see what is new, plan, and start the steps."""
        try:
            await self._look()
        except DuenoticeError as error:  # the ledger cannot be written: begin nothing that could not be recorded
            complain("ledger-failed", error)
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
        if self.document is not None:
            await self.recorder.append(*sight(self.document.events, self.recorder.cases, self.view()))
        if self.me:
            drill = drills.current(self.directory, self.recorder.cases)
            events = drills.drilled(drill, self.recorder.cases, self.view())
            await self.recorder.append(*sight(events, self.recorder.cases, self.view(), drill=True))

    def _is_withdrawn(self, key: tuple[type, str]) -> bool:
        """Whether the step is for an event that is gone, or approves what may not be approved any more (S12)."""
        kind, event_id = key[:2]
        case = self.recorder.cases.get(event_id)
        if case is None or case.returning:
            return kind is not Recover
        return kind is Approve and not may_approve(case, self.view())

    def _still_approves(self, event_id: str) -> bool:
        """By the last document too: it may not be recorded yet, if the disk cannot be written (S12)."""
        case, events = self.recorder.cases.get(event_id), () if self.document is None else self.document.events
        return case is not None and case.event in events and not self._is_withdrawn((Approve, event_id))

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

    async def _ask(self, step: AskPeers) -> None:
        assert self.config.peers is not None
        content = self.recorder.cases[step.event_id].content
        news = await Asking(self.config.peers, self.config.peer_key).ask(step, content)
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
                await self._learn_name()
                async for document in self._client.watch(self._poll_failed):
                    self.document, self.heard_at = document, wall()
                    self.recorder.counters.documents += 1
                    self.wake()
            except MetadataError as error:
                self._poll_failed(error)
            except Exception as error:  # whatever went wrong, an agent that stops listening would be worse
                complain("metadata-unusable", error)
            await asyncio.sleep(1.0)

    async def _learn_name(self) -> None:
        """Our name: as configured, or as the service says. For the way back the last known name is enough."""
        if self.config.metadata.name:
            return
        remembered = self.directory / NAME_FILE
        if not self.me and remembered.exists():
            self.me = remembered.read_text()
        self.me = await self._client.instance_name()
        if not self._dry_run:
            with suppress(OSError):  # a full disk must not stop us from listening
                remembered.write_text(self.me)
        log("name-learned", vm=self.me)

    def _poll_failed(self, error: MetadataError) -> None:
        self.recorder.counters.poll_errors += 1
        complain("poll-failed", error)

    async def _look_after(self) -> None:
        """See that the ledger is still there, also when nothing is to be recorded (S32)."""
        while True:
            await asyncio.sleep(LOOK_AFTER)
            try:
                await self.recorder.look_after()
            except DuenoticeError as error:
                complain("ledger-failed", error)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            self.wake()


def _key(step: Step) -> tuple[Any, ...]:
    """Two steps with the same key are the same work."""
    return (type(step), step.event_id, getattr(step, "handler", ""))
