"""The timeline that a maintenance would make, found by letting the rules themselves run ahead on a copy."""

from collections.abc import Iterable
from datetime import datetime

from msgspec import Struct, structs

from duenotice.clock import Instant, micros_of
from duenotice.domain import transitions as t
from duenotice.domain.apply import apply
from duenotice.domain.commands import Command, StartMaintenance, Tick
from duenotice.domain.decide import decide
from duenotice.domain.due import next_due
from duenotice.domain.event import PLANNED, Event, Phase
from duenotice.domain.maintenance import Maintenance, Status, Step
from duenotice.domain.policy import Policy
from duenotice.domain.scope import scope_of
from duenotice.domain.state import Scope, State


class PlannedStep(Struct, frozen=True):
    """A step with the times it would have if nobody approved anything."""

    step: Step
    scheduled_at: datetime
    not_before: datetime
    starts_at: datetime
    ends_at: datetime


def preview(state: State, command: StartMaintenance, now: Instant, policy: Policy) -> list[PlannedStep]:
    """The steps in the order they would begin; refused where the maintenance itself would be."""
    decide(state, command, now, policy)
    ahead = _Ahead(_copy(state, command.vms), structs.replace(policy, simulated_impact=True), now)
    ahead.do(command)
    ahead.go_on()
    return ahead.planned(command.maintenance_id)


def outlook(state: State, plan: Maintenance, now: Instant, policy: Policy) -> list[PlannedStep]:
    """The steps of a plan that have not begun, in the order they would if nobody did anything about it."""
    if plan.status is not Status.RUNNING:
        return []
    vms = [name for step in plan.steps for name in step.resources if name in state.fleet.vms]
    copy = _copy(state, vms, but=plan.id)
    apply(copy, t.MaintenanceStarted(plan))
    ahead = _Ahead(copy, structs.replace(policy, simulated_impact=True), now)
    for event in (state.events[step.event_id] for step in plan.steps if step.event_id in state.events):
        apply(copy, t.EventRaised(ahead.going_on(event)))
    ahead.go_on()
    return ahead.planned(plan.id)


class _Ahead:
    """A small world of its own in which time passes at once."""

    def __init__(self, state: State, policy: Policy, now: Instant) -> None:
        self.state, self.policy, self.now = state, policy, now
        self.raised: dict[str, tuple[datetime, datetime]] = {}
        self.started: dict[str, datetime] = {}
        self.ended: dict[str, datetime] = {}

    def do(self, command: Command) -> None:
        """The command, and all that is due then."""
        transitions = decide(self.state, command, self.now, self.policy)
        while transitions:
            for transition in transitions:
                self._take(transition)
            transitions = decide(self.state, Tick(), self.now, self.policy)

    def go_on(self) -> None:
        """Let time pass until nothing more is to happen."""
        begun = self.now
        while (due := next_due(self.state, self.now.steady)) is not None:
            self.now = begun.after(due - begun.steady)
            self.do(Tick())

    def going_on(self, event: Event) -> Event:
        """An event as it would go on by itself: one that a driver is at is taken to need the usual time from now on."""
        if event.phase is Phase.SCHEDULED:
            # The two faces of its time were read a moment apart; in here both have come when the later one has.
            lag = micros_of(event.not_before - self.now.after(event.notice_ends - self.now.steady).at)
            return event.with_(notice_ends=event.notice_ends + max(0, lag))
        usual = self.now.steady + (self.policy.lasts(event) or 0)
        return event.with_(impact_ends=usual if event.impact_ends is None else event.impact_ends)

    def planned(self, plan_id: str) -> list[PlannedStep]:
        """The steps that began in here, with their times."""
        steps = {step.event_id: step for step in self.state.maintenances[plan_id].steps}
        return [
            PlannedStep(steps[event_id], *self.times(event_id)) for event_id in self.raised if event_id in self.ended
        ]

    def times(self, event_id: str) -> tuple[datetime, datetime, datetime, datetime]:
        """When the event is raised, may start, starts and ends."""
        return *self.raised[event_id], self.started[event_id], self.ended[event_id]

    def _take(self, transition: t.Transition) -> None:
        apply(self.state, transition)
        if isinstance(transition, t.EventRaised):
            self.raised[transition.event.id] = (self.now.at, transition.event.not_before)
        elif isinstance(transition, t.EventStarted):
            self.started[transition.event.id] = self.now.at
        elif isinstance(transition, t.EventCompleted):
            self.ended[transition.event_id] = self.now.at


def _copy(state: State, vms: Iterable[str], but: str | None = None) -> State:
    """The VMs concerned, whether they listen, and what can hold their update domains back; nothing else has a part."""
    copy = State()
    copy.fleet.groups = dict(state.fleet.groups)
    copy.fleet.hosts = dict(state.fleet.hosts)
    for name in vms:
        vm = state.fleet.vms[name]
        copy.fleet.put(vm)
        copy.scopes[scope_of(vm)] = Scope(enabled=state.enabled(scope_of(vm)))
    for event in _in_the_way(state, copy.scopes, but):
        for vm in (state.fleet.vms[name] for name in event.resources if name in state.fleet.vms):
            copy.fleet.put(vm)
        apply(copy, t.EventRaised(event.with_(maintenance=None)))
    return copy


def _in_the_way(state: State, scopes: Iterable[str], but: str | None) -> list[Event]:
    """Planned events of these scopes that are there already (S11), but those of which nobody knows when they end."""
    ids = [event_id for scope in scopes if scope in state.scopes for event_id in state.scopes[scope].events]
    return [
        event
        for event in (state.events[event_id] for event_id in ids)
        if event.cause in PLANNED
        and (event.phase is Phase.SCHEDULED or event.impact_ends is not None)
        and (event.maintenance is None or event.maintenance != but)
    ]
