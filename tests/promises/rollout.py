"""Drives an engine with maintenances under way, and looks at every single publication; no model, only promises."""

import asyncio
import sys
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from uuid import NAMESPACE_OID, uuid5

from hypothesis.stateful import RuleBasedStateMachine
from structlog.testing import capture_logs

from duenotice.clock import Instant, micros, seconds
from duenotice.domain import commands as c
from duenotice.domain.event import Event, Phase
from duenotice.domain.plan import OPEN, Maintenance, Status, StepStatus
from duenotice.domain.policy import Policy
from duenotice.domain.records import Record
from duenotice.domain.rules.due import next_due
from duenotice.domain.window import Window, WindowSpan
from duenotice.engine.engine import Engine, load
from duenotice.engine.publisher import Publisher
from duenotice.engine.ticker import Ticker
from duenotice.errors import Unavailable
from simulator.checkers import CHECKERS, Observer
from simulator.history import Answer, Committed, Moment
from tests.promises.driver import answer_of, read_all
from tests.promises.fleet import HOME, HOSTS, declaration
from tests.promises.rig import InMemory, Storage, WatchedJournal, WorldClock, end_process, nothing
from tests.promises.shown import InsideWindow, S10Shown, S11Shown

ROUNDS = 500
"""More than any of these maintenances can need to come to its end."""
AN_HOUR = 3600.0


class Rollout(RuleBasedStateMachine):
    """One engine at a time; the rules are `test_maintenances`'s."""

    storage: type[Storage] = InMemory

    def __init__(self) -> None:
        super().__init__()
        self.clock = WorldClock(lambda now: None)
        self.stored = self.storage()
        self.observer = Observer((*CHECKERS, S10Shown, S11Shown, InsideWindow))
        self.runner = asyncio.Runner()
        self.given = 0
        self.gone: set[str] = set()
        self.policy = Policy(commit_allowance=micros(1))
        self.unseen: list[Committed] = []
        self.reread: tuple[Record, ...] | None = None
        self.broken: AssertionError | None = None
        self.afterwards = ExitStack()
        self.afterwards.enter_context(capture_logs())
        self.afterwards.callback(self.stored.discard)
        self.afterwards.callback(lambda: end_process(self.runner, getattr(self, "engine", None)))

    def teardown(self) -> None:
        with self.afterwards:
            if sys.exception() is None and hasattr(self, "engine"):
                self._come_to_an_end()

    # Life and death of an engine

    def _open(self) -> None:
        self.journal = WatchedJournal(self.stored.open(), self.clock)
        self.journal.on_shown = self._look
        self.reread = tuple(self.journal.read(0))
        self.runner.run(self._start())
        self._do(c.MarkClock(self.clock.mark()), c.MakeUpForDowntime())

    async def _start(self) -> None:
        self.publisher = Publisher(asyncio.get_running_loop().call_soon)
        self.engine = Engine(self.journal, self.clock, self.policy, load(self.journal), self.publisher)
        self.ticker = Ticker(self.engine)
        self.engine.start()

    def _cut(self, away: float = 0.0) -> None:
        self.clock.be_away(away)
        self.unseen += self.journal.committed
        self.stored.cut()
        end_process(self.runner, self.engine)
        self.runner = asyncio.Runner()
        self._open()

    # Doing and looking

    def _do(self, *commands: c.Command) -> list[Answer]:
        answers = self.runner.run(self._submit(commands))
        self._settle(answers)
        return answers

    async def _submit(self, commands: tuple[c.Command, ...]) -> list[Answer]:
        named = [(self._name(), command) for command in commands]
        results = [self.engine.submit(command, actor) for actor, command in named]
        await asyncio.wait(results)
        return [answer_of(actor, command, result) for (actor, command), result in zip(named, results, strict=True)]

    def _advance(self, seconds: float) -> None:
        with suppress(Unavailable):  # a commit was to fail; what is due is still due
            self.runner.run(self.ticker.advance(micros(seconds)))
        self._settle([])

    def _settle(self, answers: list[Answer]) -> None:
        """The end of a step: what was noticed on the way is told, and an engine that was lost is replaced."""
        self._look(answers)
        if self.broken:
            raise self.broken
        state = self.publisher.state
        for plan in state.maintenances.values():
            _check_plan(plan, Instant(state.at, state.steady))
        if self.engine.broken:
            self._cut(self.journal.away)

    def _look(self, answers: list[Answer] | None = None) -> None:
        """After each publication, from whatever thread: an assertion must not be taken for a fault of the disk."""
        now, documents, absences = self.clock.now(), read_all(self.publisher), self.clock.take_absences()
        moment = Moment(now, self._shown(), tuple(answers or ()), documents, self.reread, absences)
        self.reread = None
        try:
            self.observer.see(moment)
        except AssertionError as broken:
            self.broken = self.broken or broken

    def _shown(self) -> tuple[Committed, ...]:
        """The records that could be seen first now; others are stored, but nobody has seen them yet."""
        unseen, self.journal.committed = [*self.unseen, *self.journal.committed], []
        self.unseen = [each for each in unseen if each.record.position > self.journal.seen]
        now = self.clock.now()
        return tuple(each._replace(visible=now) for each in unseen if each.record.position <= self.journal.seen)

    # At the end: faults stop, time passes, drivers report

    def _come_to_an_end(self) -> None:
        """Every maintenance ends: none is held for ever, whatever has happened to its VMs."""
        self.journal.fault, self.journal.stall, self.journal.commit_takes = None, 0.0, 0.0
        self.journal.while_committing = nothing
        for plan in self._plans(Status.PAUSED):
            self._do(c.ResumeMaintenance(plan.id, Window((WindowSpan(self.clock.now().at),))))
        for _ in range(ROUNDS):
            if all(plan.status is Status.PAUSED and plan.reason for plan in self._plans(*OPEN)):
                return
            self._report_all()
            due = next_due(self.engine.state, self.clock.now().steady, self.clock.now().at)
            self._advance(AN_HOUR if due is None else seconds(due - self.clock.now().steady))
        raise AssertionError(f"goes on for ever: {self._plans(*OPEN)}, {self.publisher.state.events.values()}")

    def _report_all(self) -> None:
        """A driver tells of all that it has done; of VMs that are gone it knows nothing."""
        for event in self._events(Phase.STARTED) if not self.policy.simulated_impact else ():
            if not self.publisher.state.fleet.vms.keys().isdisjoint(event.resources):
                self._do(c.ReportImpact(event.id))

    # Asks and choices

    def _name(self) -> str:
        self.given += 1
        return f"caller/{self.given}"

    def _new_id(self) -> str:
        self.given += 1
        return str(uuid5(NAMESPACE_OID, str(self.given))).upper()

    def _vanish(self, names: Iterable[str]) -> None:
        self.gone |= set(names)
        if len(self.gone) == len(HOME):
            self.gone.clear()  # an empty fleet is refused
        self._apply_fleet()

    def _apply_fleet(self) -> None:
        places = {name: place for name, place in HOME.items() if name not in self.gone}
        self._do(c.ApplyFleet(declaration(HOSTS, 300, places)))

    def _plans(self, *statuses: Status) -> list[Maintenance]:
        return [plan for plan in self.publisher.state.maintenances.values() if plan.status in statuses]

    def _plan(self, which: int) -> str:
        plans = list(self.publisher.state.maintenances)
        return plans[which % len(plans)] if plans else self._new_id()

    def _events(self, phase: Phase) -> list[Event]:
        return [event for event in self.publisher.state.events.values() if event.phase is phase]


def _check_plan(plan: Maintenance, decided: Instant) -> None:
    """What a plan says of itself adds up, as of when something was decided last."""
    failed = plan.count(StepStatus.FAILED)
    if plan.status is Status.DONE:
        assert not plan.count(StepStatus.WAITING, StepStatus.UNDER_WAY), f"done, with steps left: {plan}"
        assert failed <= plan.failures_allowed, f"done, with too many failures: {plan}"
    if plan.status is Status.FAILED:
        assert failed > plan.failures_allowed and plan.reason, f"failed without a reason: {plan}"
    if (
        plan.window is not None
        and plan.window.is_over(decided)
        and plan.count(StepStatus.WAITING)
        and plan.status is not Status.CANCELLED
    ):
        assert plan.status is not Status.RUNNING and plan.reason, f"waits for a window that never comes: {plan}"
    for step in plan.steps:
        assert step.status is not StepStatus.SKIPPED or step.reason, f"a step left out in silence: {step}"
    if plan.at_once:
        assert plan.count(StepStatus.UNDER_WAY) <= plan.at_once, f"more at once than asked for: {plan}"
