"""The call for what needs a person now: what failed, what stands still, who would get no notice, how far plans are."""

from collections import Counter
from datetime import datetime, timedelta
from functools import partial
from heapq import nsmallest
from itertools import islice

from msgspec import structs
from starlette.requests import Request
from starlette.responses import Response

from duenotice.clock import Instant, later
from duenotice.domain.failure import Failure
from duenotice.domain.fleet import Condition
from duenotice.domain.plan import PlanProgress, Status, Step, StepStatus
from duenotice.domain.rules.maintenance import reason_of
from duenotice.domain.rules.preview import outlook
from duenotice.domain.state import State
from duenotice.domain.token import Role
from duenotice.engine.engine import Engine
from duenotice.errors import Unavailable
from duenotice.operator_api.answers import Resource
from duenotice.operator_api.calls import Call
from duenotice.operator_api.counting import KnownNumbers
from duenotice.wire import operator as o
from duenotice.wire.api_versions import TYPE_NAMES
from duenotice.wire.operator.from_domain import by_status, whole_second

MOST_PLANS = 10
MOST_STEPS = 5
MOST_NAMES = 5
MOST_FAILURES = 20
"""Events that have failed; and as many of the VMs of each."""

MOST_FORESEEN = 2000
"""Steps left up to which the end of a plan is looked for: larger plans take seconds, and this is asked often."""
MOST_FORESEEN_VMS = 20_000
"""The same for the VMs of all steps."""

Sign = tuple[object, ...]
"""What the future of a plan follows from, besides time: when it is the same as before, so is what comes next."""

Ahead = tuple[o.StepGlance | None, datetime | None]
"""The next step of a plan, and its expected end."""


class Attentions(Resource):
    """Tells what needs a person."""

    def __init__(self, engine: Engine, numbers: KnownNumbers) -> None:
        super().__init__(engine)
        self._numbers = numbers
        self._ahead: dict[str, tuple[Sign | None, Ahead]] = {}

    def calls(self) -> list[Call]:
        """The rows of the table."""
        about = "What needs a person now"
        return [Call("GET", "/v1/attention", Role.VIEWER, self.show, about, {200: o.Attention})]

    async def show(self, _: Request) -> Response:
        """What failed or stands still, and all plans that are not over."""
        now = self._engine.clock.now()
        seen, signs = await self._engine.look(partial(_seen, numbers=self._numbers))
        plans = [structs.replace(plan, **await self._foreseen(plan, signs.get(plan.id), now)) for plan in seen.plans]
        return await self._written(lambda: structs.replace(seen, plans=tuple(plans)))

    async def _foreseen(self, plan: o.PlanGlance, sign: Sign | None, now: Instant) -> dict[str, object]:
        """What comes next in a plan and when it should end: worked out again when something has changed for it."""
        if sign is None:
            return {}
        before, ahead = self._ahead.get(plan.id, (None, (None, None)))
        if before != sign or _has_come(ahead, now.at):
            ahead = await self._look_ahead(plan.id, now)
            self._ahead = {known: self._ahead[known] for known in islice(self._ahead, MOST_PLANS)}
            self._ahead[plan.id] = (sign, ahead)
        return {"next": ahead[0], "ends_at": ahead[1]}

    async def _look_ahead(self, plan_id: str, now: Instant) -> Ahead:
        policy = self._engine.policy

        def ahead(state: State) -> Ahead:
            if plan_id not in state.plans:
                return None, None
            plan = state.plans[plan_id].whole()
            planned = outlook(state, plan, now, policy)
            ends = [step.ends_at for step in planned]
            ends += [_end(state, step, now, policy.maintenance_lasts) for step in plan.steps if step.event_id]
            first = min(planned, key=lambda step: step.scheduled_at, default=None)
            following = None if first is None else _glance(first.step, first.scheduled_at)
            return following, whole_second(max(ends)) if ends else None

        try:
            return await self._engine.foresee(ahead)
        except Unavailable:
            return None, None  # too many ask at once: the next request tells


def _has_come(ahead: Ahead, at: datetime) -> bool:
    """Whether something of it should have happened by now."""
    first, end = ahead
    moments = (None if first is None else first.at, end)
    return any(moment is not None and moment <= at for moment in moments)


def _seen(state: State, *, numbers: KnownNumbers) -> tuple[o.Attention, dict[str, Sign]]:
    """All but what comes next; with the signs of the plans of which that can be told."""
    whole = numbers.of(state).whole
    hosts = Counter(host.condition for host in state.fleet.hosts.values())
    ill = (host.name for host in state.fleet.hosts.values() if host.condition is not Condition.HEALTHY)
    failed = list(state.failures)
    unresolved = {failure.event.maintenance for failure in failed}
    plans = [progress for progress in state.plans.values() if progress.is_open or progress.plan.id in unresolved]
    stopped = sum(progress.plan.status is not Status.RUNNING for progress in plans)
    silent = whole.vms - whole.listening
    sick = hosts.total() - hosts[Condition.HEALTHY]
    shown_plans = sorted(plans, key=_urgency)[:MOST_PLANS]
    attention = o.Attention(
        needed=stopped + len(failed) + sick + (silent > 0),
        plans=tuple(_plan(state, progress) for progress in shown_plans),
        plans_in_all=len(plans),
        failed_events=len(failed),
        failures=tuple(map(_failure, failed[: -MOST_FAILURES - 1 : -1])),
        hosts={condition.value: hosts[condition] for condition in Condition},
        ill_hosts=tuple(nsmallest(MOST_NAMES, ill)),
        vms=whole.vms,
        silent=silent,
    )
    signs = {progress.plan.id: sign for progress in shown_plans if (sign := _sign(state, progress)) is not None}
    return attention, signs


def _sign(state: State, progress: PlanProgress) -> Sign | None:
    """None when the plan is too large to look ahead, or nothing comes by itself."""
    if progress.plan.status is not Status.RUNNING or progress.waiting + progress.running_count > MOST_FORESEEN:
        return None
    left = [step for step in progress.steps if step.status in (StepStatus.WAITING, StepStatus.UNDER_WAY)]
    if sum(len(step.resources) for step in left) > MOST_FORESEEN_VMS:
        return None
    scopes = list(dict.fromkeys(step.scope for step in left))
    events = [event for scope in scopes for event in state.events_in(scope)]
    vms = [state.fleet.vms.get(name) for step in left for name in step.resources]
    return progress.plan, left, [state.enabled(scope) for scope in scopes], events, vms


def _urgency(progress: PlanProgress) -> int:
    """Failed plans first, then those that wait for somebody, then those that run."""
    return (Status.FAILED, Status.PAUSED).index(status) if (status := progress.plan.status) in _STOPPED else 2


_STOPPED = frozenset({Status.FAILED, Status.PAUSED})


def _plan(state: State, progress: PlanProgress) -> o.PlanGlance:
    plan, tally = progress.plan, progress.tally()
    hit = islice(progress.running(), MOST_STEPS)
    return o.PlanGlance(
        id=plan.id,
        type=TYPE_NAMES[plan.type],
        cause=plan.cause.value,
        status=plan.status.value,
        reason=reason_of(plan, tally),
        description=plan.description,
        groups=tally.groups,
        progress=by_status(tally.steps),
        steps=sum(tally.steps),
        under_way=tuple(_glance(step, _start(state, step)) for _, step in hit),
        next=None,
        ends_at=None,
        title=plan.title,
    )


def _glance(step: Step, at: datetime | None) -> o.StepGlance:
    return o.StepGlance(step.group, step.domain, len(step.resources), None if at is None else whole_second(at))


def _start(state: State, step: Step) -> datetime | None:
    """When the event of a step has started, or starts at the latest."""
    event = state.events.get(step.event_id or "")
    return None if event is None else event.started_at or event.not_before


def _end(state: State, step: Step, now: Instant, usual: int) -> datetime:
    """When a step under way should be over."""
    event = state.events.get(step.event_id or "")
    if event is None:
        return now.at
    if event.impact_ends is not None:
        return now.after(max(0, event.impact_ends - now.steady)).at
    return max(now.at, later(event.started_at or event.not_before, timedelta(microseconds=usual)))


def _failure(failure: Failure) -> o.FailedEvent:
    event = failure.event
    return o.FailedEvent(
        id=event.id,
        type=TYPE_NAMES[event.type],
        resources=event.resources[:MOST_FAILURES],
        vms=len(event.resources),
        ended_at=whole_second(failure.failed_at),
        reason=failure.reason,
        maintenance=event.maintenance,
    )
