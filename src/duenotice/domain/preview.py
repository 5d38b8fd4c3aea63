"""The timeline that a maintenance would make, found by letting the rules themselves run ahead on a copy."""

from collections.abc import Iterable
from datetime import datetime

from msgspec import Struct, structs

from duenotice.clock import Instant
from duenotice.domain import transitions as t
from duenotice.domain.apply import apply
from duenotice.domain.commands import Command, StartMaintenance, Tick
from duenotice.domain.decide import decide
from duenotice.domain.due import next_due
from duenotice.domain.event import PLANNED, Event, Phase
from duenotice.domain.maintenance import Step
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
    ahead = _Ahead(_copy(state, command), structs.replace(policy, simulated_impact=True), now)
    ahead.do(command)
    while (due := next_due(ahead.state, ahead.now.steady)) is not None:
        ahead.now = now.after(due - now.steady)
        ahead.do(Tick())
    steps = {step.event_id: step for step in ahead.state.maintenances[command.maintenance_id].steps}
    ending = [event_id for event_id in ahead.raised if event_id in ahead.ended]
    return [PlannedStep(steps[event_id], *ahead.times(event_id)) for event_id in ending]


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


def _copy(state: State, command: StartMaintenance) -> State:
    """The VMs concerned, whether they listen, and what can hold their update domains back; nothing else has a part."""
    copy = State()
    copy.fleet.groups = dict(state.fleet.groups)
    copy.fleet.hosts = dict(state.fleet.hosts)
    for name in command.vms:
        vm = state.fleet.vms[name]
        copy.fleet.vms[name] = vm
        copy.scopes[scope_of(vm)] = Scope(enabled=state.enabled(scope_of(vm)))
    for event in _in_the_way(state, copy.scopes):
        copy.fleet.vms |= {name: state.fleet.vms[name] for name in event.resources if name in state.fleet.vms}
        apply(copy, t.EventRaised(event.with_(maintenance=None)))
    return copy


def _in_the_way(state: State, scopes: Iterable[str]) -> list[Event]:
    """Planned events of these scopes that are there already (S11), but those of which nobody knows when they end."""
    ids = [event_id for scope in scopes if scope in state.scopes for event_id in state.scopes[scope].events]
    events = [state.events[event_id] for event_id in ids]
    return [
        event
        for event in events
        if event.cause in PLANNED and (event.phase is Phase.SCHEDULED or event.impact_ends is not None)
    ]
