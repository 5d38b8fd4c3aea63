"""The calls of maintenances: plan, preview, look at, pause, resume, cancel."""

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from duenotice.bounds import NAMES
from duenotice.clock import Instant, micros, monotonic
from duenotice.domain import commands as c
from duenotice.domain.plan import PlanProgress, Status
from duenotice.domain.policy import Policy
from duenotice.domain.rules.lifecycle import awaited_by
from duenotice.domain.rules.maintenance import planned
from duenotice.domain.rules.preview import IsCancelled, PlannedStep, outlook, preview
from duenotice.domain.state import State
from duenotice.domain.token import Role
from duenotice.domain.window import Window
from duenotice.errors import Malformed, NotFound
from duenotice.operator_api.answers import JSON, Reply, Resource, encode
from duenotice.operator_api.calls import (
    Call,
    Handler,
    Paging,
    Parameter,
    Room,
    actor_of,
    by_id,
    decoded,
    flag,
    limit_of,
    new_id,
    place_of,
)
from duenotice.operator_api.windows import window_of
from duenotice.wire import operator as o
from duenotice.wire.operator import from_domain, to_domain
from duenotice.wire.spans import parse_duration

PATIENCE_SECONDS = 20.0
"""How long a preview may take; longer than a plan of a million VMs needs."""


class PlanAhead(NamedTuple):
    """What a plan would do, and how many of its steps find no place in its window."""

    steps: list[PlannedStep]
    left_out: int


Ahead = Callable[[State, Instant, Policy, IsCancelled], PlanAhead]

_AT_ONCE = timedelta(seconds=1)
_PAGING = ("limit", "cursor")
_STEP_STATUS = Parameter("status", {"type": "string", "enum": ["", *o.STEP_STATUSES]})

_TURNS: dict[str, Callable[[str], c.Command]] = {
    "pause": c.PauseMaintenance,
    "cancel": c.CancelMaintenance,
}


class Planning(Resource):
    """A resource that can begin a maintenance."""

    async def _begun(self, request: Request, command: c.StartMaintenance) -> Response:
        """Begin a maintenance, and answer with it."""
        plan_id = command.maintenance_id
        location = f"/v1/maintenances/{plan_id}"
        return await self._done(request, command, lambda state, _: Reply(self._told(state, plan_id), 201, location))

    def _told(self, state: State, plan_id: str) -> o.Maintenance:
        return _told(state, state.plans[plan_id], self._engine.clock.now())


class Maintenances(Planning):
    """The plans that there are."""

    def calls(self) -> list[Call]:
        """The rows of the table."""
        viewer, operator, all_, one = Role.VIEWER, Role.OPERATOR, "/v1/maintenances", "/v1/maintenances/{id}"
        page, plan, query = {200: o.Page[o.Maintenance]}, {200: o.Maintenance}, ("status", *_PAGING)
        steps, some = {200: o.Page[o.Step]}, (_STEP_STATUS, *_PAGING)
        made, ahead, asked = {201: o.Maintenance, 200: o.Timeline}, {200: o.Timeline}, o.MaintenanceRequest
        turned, resume, retry = o.TurnRequest, "Resume a maintenance", "Try failed steps of a maintenance again"
        acknowledge = "Say that somebody takes care of what has failed in a maintenance"
        begin, coming = "Begin or preview a maintenance", "When the steps to come would begin"
        return [
            Call("GET", all_, viewer, self.index, "List maintenances", page, query=query),
            Call("POST", all_, operator, self.begin, begin, made, asked, ("dry_run", *_PAGING), (404,), bounds=NAMES),
            Call("GET", one, viewer, self.show, "Show a maintenance", plan),
            Call("GET", f"{one}/steps", viewer, self.steps, "The steps of a maintenance", steps, query=some),
            Call("GET", f"{one}/outlook", viewer, self.outlook, coming, ahead, query=_PAGING),
            *(
                Call("POST", f"{one}/{turn}", operator, self._turn(to), f"{turn.capitalize()} a maintenance", plan)
                for turn, to in _TURNS.items()
            ),
            Call("POST", f"{one}/resume", operator, self._forward(c.ResumeMaintenance), resume, plan, turned),
            Call("POST", f"{one}/acknowledge", operator, self.acknowledge, acknowledge, plan, o.AcknowledgeRequest),
            Call("POST", f"{one}/retry", operator, self._forward(c.RetryMaintenance), retry, plan, turned),
        ]

    async def index(self, request: Request) -> Response:
        """A page of them, oldest first."""
        status = request.query_params.get("status")
        if status is not None and status not in o.MAINTENANCE_STATUSES:
            known = ", ".join(o.MAINTENANCE_STATUSES)
            raise Malformed(f"{status[:40]!r} is not a status.", hint=f"Use one of {known}.")
        paging, now = Paging.of(request), self._engine.clock.now()

        def look(state: State) -> o.Page[o.Maintenance]:
            numbered = enumerate(state.plans.values())
            plans = (item for item in numbered if status in (None, item[1].plan.status.value))
            return paging.page(plans, lambda item: f"{item[0]:09d}", lambda item: _told(state, item[1], now))

        return await self._looked(look)

    async def begin(self, request: Request) -> Response:
        """Begin one; with `dry_run` only show its timeline."""
        asked = await decoded(request, o.MaintenanceRequest)
        vms = await self._engine.look(lambda state: to_domain.select(asked.on, state.fleet.vms.values()))
        command = _command(asked, vms, self._window(asked.window, asked.start), actor_of(request))
        if flag(request, "dry_run"):
            return await self._ahead(request, partial(_preview, command))
        return await self._begun(request, command)

    async def show(self, request: Request) -> Response:
        """Show one."""
        plan_id = self._find(request)
        return await self._looked(lambda state: self._told(state, plan_id))

    async def steps(self, request: Request) -> Response:
        """A page of its steps, in the order of the plan: that of its groups, and in a group that of its domains."""
        plan_id, begin, limit = self._find(request), place_of(request), limit_of(request)
        status = request.query_params.get("status", "")
        if status and status not in o.STEP_STATUSES:
            raise Malformed(f"{status[:40]!r} is not a status.", hint=f"Use one of {', '.join(o.STEP_STATUSES)}.")

        def look(state: State) -> o.Page[o.Step]:
            progress = state.plans[plan_id]
            if progress.plan.tally is not None:
                what = f"The steps of maintenance {plan_id} are not kept any more."
                raise NotFound(what, hint="The audit trail has what happened to each.")
            steps = progress.steps
            wanted = (n for n in range(begin, len(steps)) if status in ("", steps[n].status.value))
            found = list(islice(wanted, limit + 1))
            here = Room().filled(from_domain.step(steps[number]) for number in found[:limit])
            return o.Page(here, str(found[len(here)]) if len(found) > len(here) else None)

        return await self._looked(look)

    async def outlook(self, request: Request) -> Response:
        """The timeline of the steps that have not begun, if nobody approved anything."""
        plan_id = self._find(request)
        return await self._ahead(request, partial(_outlook, plan_id))

    async def _ahead(self, request: Request, run: Ahead) -> Response:
        """A timeline, found by running the rules ahead on a copy of the state; 503 when that takes too long."""
        engine, now = self._engine, self._engine.clock.now()
        begin, limit = place_of(request), limit_of(request)

        until = monotonic() + PATIENCE_SECONDS  # counted from the request: after this the caller has gone

        def look(state: State) -> bytes:
            seen = run(state, now, engine.policy, lambda: monotonic() > until)
            return encode(_page_of(seen, begin, limit))

        return Response(await engine.foresee(look), media_type=JSON)

    def _turn(self, command: Callable[[str], c.Command]) -> Handler:
        async def turn(request: Request) -> Response:
            plan_id = self._find(request)
            return await self._done(request, command(plan_id), lambda state, _: Reply(self._told(state, plan_id)))

        return turn

    def _forward(self, command: type[c.ResumeMaintenance | c.RetryMaintenance]) -> Handler:
        async def turn(request: Request) -> Response:
            plan_id, asked = self._find(request), await decoded(request, o.TurnRequest)
            order = command(plan_id, self._window(asked.window, asked.start))
            return await self._done(request, order, lambda state, _: Reply(self._told(state, plan_id)))

        return turn

    async def acknowledge(self, request: Request) -> Response:
        """Its failed steps stay failed, and need nobody any more."""
        plan_id, asked = self._find(request), await decoded(request, o.AcknowledgeRequest)
        command = c.AcknowledgeFailures(maintenance_id=plan_id, note=asked.note)
        return await self._done(request, command, lambda state, _: Reply(self._told(state, plan_id)))

    def _window(self, text: str, start: datetime | None) -> Window | None:
        return window_of(text, to_domain.parse_moment(start, "start"), self._engine.clock.now().at)

    def _find(self, request: Request) -> str:
        plans = [progress.plan for progress in self._engine.state.plans.values()]
        return by_id(plans, request.path_params["id"], "maintenance").id


def _page_of(seen: PlanAhead, begin: int, limit: int) -> o.Timeline:
    here = Room().filled(map(from_domain.planned_step, seen.steps[begin : begin + limit]))
    ends = max((step.ends_at for step in seen.steps), default=None)
    return o.Timeline(
        timeline=here,
        left_out=seen.left_out,
        steps=len(seen.steps),
        vms=sum(len(each.step.resources) for each in seen.steps),
        silent=sum(len(each.step.resources) for each in seen.steps if _without_notice(each)),
        ends_at=None if ends is None else from_domain.whole_second(ends),
        next=str(begin + len(here)) if begin + len(here) < len(seen.steps) else None,
    )


def _without_notice(step: PlannedStep) -> bool:
    """Nobody there would have read of it, or it starts as soon as it is announced (F03)."""
    return step.silent or step.starts_at - step.scheduled_at <= _AT_ONCE


def _told(state: State, progress: PlanProgress, now: Instant) -> o.Maintenance:
    return from_domain.maintenance(progress.plan, progress.tally(), now.at, awaited_by(state, progress.plan, now))


def _preview(
    command: c.StartMaintenance, state: State, now: Instant, policy: Policy, give_up: IsCancelled
) -> PlanAhead:
    steps = preview(state, command, now, policy, give_up)
    return PlanAhead(steps, len(planned(state, command, now).steps) - len(steps) if command.window else 0)


def _outlook(plan_id: str, state: State, now: Instant, policy: Policy, give_up: IsCancelled) -> PlanAhead:
    progress = state.plans[plan_id]
    steps = outlook(state, progress.whole(), now, policy, give_up)
    runs_in_window = progress.plan.window is not None and progress.plan.status is Status.RUNNING
    return PlanAhead(steps, progress.waiting - len(steps) if runs_in_window else 0)


def _command(
    asked: o.MaintenanceRequest, vms: tuple[str, ...], window: Window | None, author: str
) -> c.StartMaintenance:
    return c.StartMaintenance(
        maintenance_id=new_id(),
        type=to_domain.parse_type(asked.type),
        vms=vms,
        cause=to_domain.parse_cause(asked.cause),
        description=asked.description,
        settle=micros(parse_duration(asked.settle)),
        at_once=asked.at_once,
        failures_allowed=asked.failures_allowed,
        window=window,
        title=asked.title,
        author=author,
        consent=to_domain.parse_consent(asked.consent),
        by=to_domain.parse_order(asked.by),
    )
