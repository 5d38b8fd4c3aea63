"""The timeline that a maintenance would make, found by letting the rules themselves run ahead on a copy."""

from collections.abc import Callable, Iterable
from datetime import datetime

from msgspec import Struct, structs

from duenotice.clock import Instant, micros_of
from duenotice.domain import records as t
from duenotice.domain.apply import apply
from duenotice.domain.commands import StartMaintenance
from duenotice.domain.event import PLANNED, Event, Phase
from duenotice.domain.fleet import Vm
from duenotice.domain.plan import Maintenance, Status, Step
from duenotice.domain.policy import Policy
from duenotice.domain.rules.creation import NOBODY_LISTENS
from duenotice.domain.rules.due import due_actions, next_due
from duenotice.domain.rules.maintenance import planned
from duenotice.domain.state import Scope, State
from duenotice.errors import Unavailable

MOST_ACTIONS = 10_000_000
"""More than a plan of a million steps needs; a preview ends here, whatever is wrong with it."""

_ASK_EVERY = 256
"""How many things happen between two checks whether to give up."""

IsCancelled = Callable[[], bool]
"""Asked now and then; True when nobody waits for the answer any longer."""


class PlannedStep(Struct, frozen=True):
    """A step with the times it would have if nobody approved anything; `silent` when nobody listens there (F03)."""

    step: Step
    scheduled_at: datetime
    not_before: datetime
    starts_at: datetime
    ends_at: datetime
    silent: bool = False


def never() -> bool:
    """Take all the time it needs."""
    return False


def preview(
    state: State,
    command: StartMaintenance,
    now: Instant,
    policy: Policy,
    is_cancelled: IsCancelled = never,
    limit: int = MOST_ACTIONS,
) -> list[PlannedStep]:
    """The steps in the order they would begin; refused where the maintenance itself would be.

    `state` is only read, and must not change meanwhile. Unavailable when `is_cancelled` says so or `limit` is reached.
    """
    plan = planned(state, command, now)
    ahead = _Simulation(policy, now, _Patience(is_cancelled, limit))
    ahead.copy(state, plan.steps)
    ahead.take([t.MaintenanceStarted(plan)])
    ahead.run()
    return ahead.planned(plan.id)


def outlook(
    state: State,
    plan: Maintenance,
    now: Instant,
    policy: Policy,
    is_cancelled: IsCancelled = never,
    limit: int = MOST_ACTIONS,
) -> list[PlannedStep]:
    """The steps of a plan that have not begun, in the order they would if nobody did anything about it."""
    if plan.status is not Status.RUNNING:
        return []
    ahead = _Simulation(policy, now, _Patience(is_cancelled, limit))
    ahead.copy(state, plan.steps, but=plan.id)
    for event in (state.events[step.event_id] for step in plan.steps if step.event_id in state.events):
        apply(ahead.state, t.EventRaised(ahead.going_on(event)))
    ahead.take([t.MaintenanceStarted(plan)])
    ahead.run()
    return ahead.planned(plan.id)


class _Patience:
    """How long anybody waits for the answer."""

    def __init__(self, is_cancelled: IsCancelled, limit: int) -> None:
        self._is_cancelled, self._left = is_cancelled, limit

    def spend(self) -> None:
        """One more thing is done."""
        self._left -= 1
        if self._left < 0 or (self._left % _ASK_EVERY == 0 and self._is_cancelled()):
            raise Unavailable(
                "The preview takes too long.", hint="Choose fewer VMs, or begin the maintenance without a preview."
            )


class _Simulation:
    """A small simulation in which time passes at once."""

    def __init__(self, policy: Policy, now: Instant, patience: _Patience) -> None:
        self.state, self.policy, self.now = State(), structs.replace(policy, simulated_impact=True), now
        self.raised: dict[str, tuple[datetime, datetime]] = {}
        self.silent: set[str] = set()
        self.started: dict[str, datetime] = {}
        self.ended: dict[str, datetime] = {}
        self._patience = patience

    def copy(self, state: State, steps: Iterable[Step], but: str | None = None) -> None:
        """The VMs concerned, whether they listen, and what can hold their update domains back; nothing else matters."""
        here, vms = self.state, state.fleet.vms
        here.fleet.groups, here.fleet.hosts = dict(state.fleet.groups), dict(state.fleet.hosts)
        here.fleet.healthy_hosts, here.scope_sizes = state.fleet.healthy_hosts, dict(state.scope_sizes)
        for step in steps:
            self._patience.spend()
            self._put(vms[name] for name in step.resources if name in vms)
            if step.scope not in here.scopes:
                here.scopes[step.scope] = Scope(enabled=state.enabled(step.scope))
        for event in _in_the_way(state, list(here.scopes), but):
            self._put(vms[name] for name in event.resources if name in vms)
            apply(here, t.EventRaised(event.with_(maintenance=None)))

    def _put(self, vms: Iterable[Vm]) -> None:
        for vm in vms:
            self.state.fleet.put(vm)

    def take(self, changes: Iterable[t.Transition]) -> None:
        """Let these happen now."""
        self._patience.spend()
        for change in changes:
            apply(self.state, change)
            if isinstance(change, t.EventRaised):
                self.raised[change.event.id] = (self.now.at, change.event.not_before)
                self.silent |= {change.event.id} if change.event.approved_by == NOBODY_LISTENS else set()
            elif isinstance(change, t.EventStarted):
                self.started[change.event.id] = self.now.at
            elif isinstance(change, t.EventCompleted):
                self.ended[change.event_id] = self.now.at

    def run(self) -> None:
        """Let time pass until nothing more is to happen."""
        begun = self.now
        while True:
            for action in due_actions(self.state, self.now, self.policy):
                self.take(action.changes)
            self._patience.spend()
            due = next_due(self.state, self.now.steady, self.now.at)
            if due is None:
                return
            # Exactly then: a moment earlier nothing would be due, and this loop would not end.
            self.now = Instant(begun.after(due - begun.steady).at, due)

    def going_on(self, event: Event) -> Event:
        """An event as it would go on by itself; if a driver carries it out, the usual time from now is assumed."""
        if event.phase is Phase.SCHEDULED:
            return self._when_both_faces_have_come(event)
        usual = self.now.steady + (self.policy.lasts(event) or 0)
        return event.with_(impact_ends=usual if event.impact_ends is None else event.impact_ends)

    def _when_both_faces_have_come(self, event: Event) -> Event:
        """The two faces of its times were read a moment apart; here both have come when the later one has."""
        if event.opening is not None:
            opens = max(event.opening.opens, self._steady(event.opening.begins))
            event = event.with_(opening=structs.replace(event.opening, opens=opens))
        return event.with_(notice_ends=max(event.notice_ends, self._steady(event.not_before)))

    def _steady(self, at: datetime) -> int:
        return self.now.steady + micros_of(at - self.now.at)

    def planned(self, plan_id: str) -> list[PlannedStep]:
        """The steps that began in here, with their times."""
        steps = {step.event_id: step for step in self.state.maintenances[plan_id].steps}
        return [
            PlannedStep(steps[event_id], *self.times(event_id), event_id in self.silent)
            for event_id in self.raised
            if event_id in self.ended
        ]

    def times(self, event_id: str) -> tuple[datetime, datetime, datetime, datetime]:
        """When the event is raised, may start, starts and ends."""
        return *self.raised[event_id], self.started[event_id], self.ended[event_id]


def _in_the_way(state: State, scopes: Iterable[str], but: str | None) -> list[Event]:
    """The events of these scopes that are there already (M09, S11), except those whose end nobody knows.

    Of those that are not planned only what is action matters: it may be that nobody is up.
    """
    return [
        event
        for scope in scopes
        for event in state.events_in(scope)
        if (event.cause in PLANNED if event.phase is Phase.SCHEDULED else event.impact_ends is not None)
        and (event.maintenance is None or event.maintenance != but)
    ]
