"""The routes of maintenances: plan, preview, look at, pause, resume, cancel."""

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from duenotice.domain import commands as c
from duenotice.domain.maintenance import Maintenance
from duenotice.domain.preview import outlook, preview
from duenotice.domain.token import Role
from duenotice.engine.engine import Engine
from duenotice.operator_api.bodies import actor_of, decoded, flag, new_id
from duenotice.operator_api.finding import by_id
from duenotice.operator_api.pages import page
from duenotice.operator_api.table import Call, Handler
from duenotice.wire import operator_json
from duenotice.wire.duration import parse_duration

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
        return [
            Call("GET", all_, viewer, self.index, "List maintenances", query=("limit", "cursor")),
            Call("POST", all_, operator, self.begin, "Begin or preview a maintenance", asked, ("dry_run",)),
            Call("GET", one, viewer, self.show, "Show a maintenance with its steps"),
            Call("GET", f"{one}/outlook", viewer, self.outlook, "When the steps to come would begin"),
            *(
                Call("POST", f"{one}/{turn}", operator, self._turn(command), f"{turn.capitalize()} a maintenance")
                for turn, command in _TURNS.items()
            ),
        ]

    async def index(self, request: Request) -> Response:
        """A page of them, oldest first."""
        plans = enumerate(self._engine.publisher.maintenances.values())
        return page(
            request, plans, lambda item: f"{item[0]:09d}", lambda item: operator_json.maintenance_to_json(item[1])
        )

    async def begin(self, request: Request) -> Response:
        """Begin one; with `dry_run` only show the timeline it would make."""
        command = self._command(await decoded(request, operator_json.MaintenanceRequest))
        if flag(request, "dry_run"):
            return JSONResponse({"timeline": self._timeline(command)})
        await self._engine.submit(command, actor_of(request))
        return self._shown(command.maintenance_id, 201, {"Location": f"/v1/maintenances/{command.maintenance_id}"})

    async def show(self, request: Request) -> Response:
        """Show one with its steps."""
        return self._shown(self._find(request).id)

    async def outlook(self, request: Request) -> Response:
        """The timeline of the steps that have not begun, if nobody approved anything."""
        engine, plan = self._engine, self._find(request)
        planned = outlook(engine.state, plan, engine.clock.now(), engine.policy)
        return JSONResponse({"timeline": [operator_json.planned_to_json(step) for step in planned]})

    def _turn(self, command: Callable[[str], c.Command]) -> Handler:
        async def turn(request: Request) -> Response:
            plan = self._find(request)
            await self._engine.submit(command(plan.id), actor_of(request))
            return self._shown(plan.id)

        return turn

    def _command(self, asked: operator_json.MaintenanceRequest) -> c.StartMaintenance:
        return c.StartMaintenance(
            maintenance_id=new_id(),
            type=operator_json.parse_type(asked.type),
            vms=operator_json.select(asked.on, self._engine.publisher.by_name.values()),
            cause=operator_json.parse_cause(asked.cause),
            description=asked.description,
            settle=parse_duration(asked.settle),
            at_once=asked.at_once,
            failures_allowed=asked.failures_allowed,
        )

    def _timeline(self, command: c.StartMaintenance) -> list[dict[str, object]]:
        engine = self._engine
        planned = preview(engine.state, command, engine.clock.now(), engine.policy)
        return [operator_json.planned_to_json(step) for step in planned]

    def _shown(self, plan_id: str, status: int = 200, headers: dict[str, str] | None = None) -> Response:
        plan = self._engine.publisher.maintenances[plan_id]
        return JSONResponse(operator_json.maintenance_to_json(plan), status, headers)

    def _find(self, request: Request) -> Maintenance:
        return by_id(self._engine.publisher.maintenances.values(), request.path_params["id"], "maintenance")
