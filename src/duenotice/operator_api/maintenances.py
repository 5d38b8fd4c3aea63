"""The routes of maintenances: plan, preview, look at, pause, resume, cancel."""

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from duenotice.domain import commands as c
from duenotice.domain.maintenance import Maintenance
from duenotice.domain.preview import preview
from duenotice.engine.engine import Engine
from duenotice.errors import NotFound
from duenotice.operator_api.bodies import decoded, new_id
from duenotice.operator_api.tokens import ADMIN
from duenotice.wire import operator_json
from duenotice.wire.duration import parse_duration
from duenotice.wire.start_requests_json import canonical_id

_TURNS: dict[str, Callable[[str], c.Command]] = {
    "pause": c.PauseMaintenance,
    "resume": c.ResumeMaintenance,
    "cancel": c.CancelMaintenance,
}


class Maintenances:
    """Translates between JSON and the commands of maintenances."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def all(self, request: Request) -> Response:
        """List them, or begin one; with `dry_run` only show the timeline it would make."""
        if request.method == "GET":
            plans = self._engine.publisher.maintenances.values()
            return JSONResponse([operator_json.maintenance_to_json(plan) for plan in plans])
        command = self._command(await decoded(request, operator_json.MaintenanceRequest))
        if request.query_params.get("dry_run", "").lower() in ("true", "1"):
            return JSONResponse({"timeline": self._timeline(command)})
        await self._engine.submit(command, ADMIN)
        location = {"Location": f"/v1/maintenances/{command.maintenance_id}"}
        return JSONResponse(operator_json.maintenance_to_json(self._find(command.maintenance_id)), 201, location)

    async def one(self, request: Request) -> Response:
        """Show one with its steps."""
        return JSONResponse(operator_json.maintenance_to_json(self._find(request.path_params["id"])))

    async def turn(self, request: Request) -> Response:
        """Pause, resume or cancel one."""
        plan, turn = self._find(request.path_params["id"]), request.path_params["turn"]
        if turn not in _TURNS:
            raise NotFound(f"A maintenance cannot {turn!r}.", hint=f"Use {', '.join(_TURNS)}.")
        await self._engine.submit(_TURNS[turn](plan.id), ADMIN)
        return JSONResponse(operator_json.maintenance_to_json(self._find(plan.id)))

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

    def _find(self, maintenance_id: str) -> Maintenance:
        plan = self._engine.publisher.maintenances.get(canonical_id(maintenance_id))
        if plan is None:
            raise NotFound(f"There is no maintenance {maintenance_id}.", hint="GET /v1/maintenances lists them.")
        return plan
