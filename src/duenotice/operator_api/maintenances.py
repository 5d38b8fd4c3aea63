"""The routes of maintenances: plan, preview, look at, pause, resume, cancel."""

from collections.abc import Callable
from functools import partial

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from duenotice.clock import Instant, micros, monotonic
from duenotice.domain import commands as c
from duenotice.domain.maintenance import Status
from duenotice.domain.policy import Policy
from duenotice.domain.preview import GiveUp, PlannedStep, outlook, preview
from duenotice.domain.state import State
from duenotice.domain.token import Role
from duenotice.engine.engine import Engine
from duenotice.errors import Malformed
from duenotice.operator_api.answering import Answer, done
from duenotice.operator_api.bodies import decoded, flag, new_id
from duenotice.operator_api.finding import by_id
from duenotice.operator_api.looking import looked
from duenotice.operator_api.pages import paging_of
from duenotice.operator_api.table import Call, Handler
from duenotice.wire import operator_json
from duenotice.wire import operator_shapes as shapes
from duenotice.wire.duration import parse_duration

PATIENCE_SECONDS = 20.0
"""How long a preview may take; longer than a plan of a million VMs needs."""

Ahead = Callable[[State, Instant, Policy, GiveUp], list[PlannedStep]]

_TURNS: dict[str, Callable[[str], c.Command]] = {
    "pause": c.PauseMaintenance,
    "resume": c.ResumeMaintenance,
    "cancel": c.CancelMaintenance,
}


class Maintenances:
    """Translates between JSON and the commands of maintenances."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def calls(self) -> list[Call]:
        """The rows of the table."""
        viewer, operator, all_, one = Role.VIEWER, Role.OPERATOR, "/v1/maintenances", "/v1/maintenances/{id}"
        asked = operator_json.MaintenanceRequest
        page_, plan = {200: shapes.Page[shapes.Maintenance]}, {200: shapes.Maintenance}
        made, ahead = {201: shapes.Maintenance, 200: shapes.Timeline}, {200: shapes.Timeline}
        return [
            Call("GET", all_, viewer, self.index, "List maintenances", None, ("status", "limit", "cursor"), page_),
            Call(
                "POST", all_, operator, self.begin, "Begin or preview a maintenance", asked, ("dry_run",), made, (404,)
            ),
            Call("GET", one, viewer, self.show, "Show a maintenance with its steps", answers=plan),
            Call("GET", f"{one}/outlook", viewer, self.outlook, "When the steps to come would begin", answers=ahead),
            *(
                Call(
                    "POST",
                    f"{one}/{turn}",
                    operator,
                    self._turn(to),
                    f"{turn.capitalize()} a maintenance",
                    answers=plan,
                )
                for turn, to in _TURNS.items()
            ),
        ]

    async def index(self, request: Request) -> Response:
        """A page of them, oldest first."""
        status = request.query_params.get("status")
        if status is not None and status not in (known := [one.value for one in Status]):
            raise Malformed(f"{status[:40]!r} is not a status.", hint=f"Use one of {', '.join(known)}.")
        paging = paging_of(request)

        def look(state: State) -> dict[str, object]:
            numbered = enumerate(state.maintenances.values())
            plans = (item for item in numbered if status in (None, item[1].status.value))
            return paging.page(
                plans, lambda item: f"{item[0]:09d}", lambda item: operator_json.maintenance_to_json(item[1])
            )

        return await looked(self._engine, look)

    async def begin(self, request: Request) -> Response:
        """Begin one; with `dry_run` only show its timeline."""
        asked = await decoded(request, operator_json.MaintenanceRequest)
        vms = await self._engine.look(lambda state: operator_json.select(asked.on, state.fleet.vms.values()))
        command = _command(asked, vms)
        if flag(request, "dry_run"):
            return await self._ahead(partial(_preview, command))
        return await begun(self._engine, request, command)

    async def show(self, request: Request) -> Response:
        """Show one with its steps."""
        plan_id = self._find(request)
        return await looked(self._engine, lambda state: _shown(state, plan_id))

    async def outlook(self, request: Request) -> Response:
        """The timeline of the steps that have not begun, if nobody approved anything."""
        plan_id = self._find(request)
        return await self._ahead(partial(_outlook, plan_id))

    async def _ahead(self, run: Ahead) -> Response:
        """A timeline, found by running the rules ahead on a copy of the state; 503 when that takes too long."""
        engine, now = self._engine, self._engine.clock.now()

        until = monotonic() + PATIENCE_SECONDS  # from when it was asked for: whoever asked has gone by then

        def look(state: State) -> bytes:
            planned = run(state, now, engine.policy, lambda: monotonic() > until)
            return msgspec.json.encode({"timeline": [operator_json.planned_to_json(step) for step in planned]})

        return Response(await engine.foresee(look), media_type="application/json")

    def _turn(self, command: Callable[[str], c.Command]) -> Handler:
        async def turn(request: Request) -> Response:
            plan_id = self._find(request)
            return await done(self._engine, request, command(plan_id), lambda state, _: Answer(_shown(state, plan_id)))

        return turn

    def _find(self, request: Request) -> str:
        plans = [progress.plan for progress in self._engine.state.plans.values()]
        return by_id(plans, request.path_params["id"], "maintenance").id


def _preview(
    command: c.StartMaintenance, state: State, now: Instant, policy: Policy, give_up: GiveUp
) -> list[PlannedStep]:
    return preview(state, command, now, policy, give_up)


def _outlook(plan_id: str, state: State, now: Instant, policy: Policy, give_up: GiveUp) -> list[PlannedStep]:
    return outlook(state, state.plans[plan_id].whole(), now, policy, give_up)


def _command(asked: operator_json.MaintenanceRequest, vms: tuple[str, ...]) -> c.StartMaintenance:
    return c.StartMaintenance(
        maintenance_id=new_id(),
        type=operator_json.parse_type(asked.type),
        vms=vms,
        cause=operator_json.parse_cause(asked.cause),
        description=asked.description,
        settle=micros(parse_duration(asked.settle)),
        at_once=asked.at_once,
        failures_allowed=asked.failures_allowed,
    )


async def begun(engine: Engine, request: Request, command: c.StartMaintenance) -> Response:
    """Begin a maintenance, and answer with it."""
    plan_id = command.maintenance_id
    return await done(
        engine,
        request,
        command,
        lambda state, _: Answer(_shown(state, plan_id), 201, f"/v1/maintenances/{plan_id}"),
    )


def _shown(state: State, plan_id: str) -> shapes.Maintenance:
    return operator_json.maintenance_to_json(state.plans[plan_id].whole())
