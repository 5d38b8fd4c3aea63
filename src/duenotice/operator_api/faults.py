"""The routes of faults: give a VM wrong answers on purpose for a while, to test its client."""

from typing import Protocol

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from duenotice.clock import micros, seconds_since_2020
from duenotice.domain.commands import LiftIncarnations
from duenotice.domain.scope import scope_of
from duenotice.domain.state import State
from duenotice.domain.token import Role
from duenotice.engine.engine import Engine, Records
from duenotice.errors import Refused
from duenotice.operator_api.answering import Answer, done
from duenotice.operator_api.bodies import decoded
from duenotice.operator_api.finding import vm_named
from duenotice.operator_api.table import Call
from duenotice.wire import operator_shapes as shapes
from duenotice.wire.duration import parse_duration
from duenotice.wire.times import format_iso


class FaultRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request for a fault."""

    answer: str
    seconds: str = msgspec.field(name="for")


class FaultPort(Protocol):
    """The part that answers VMs."""

    def put(self, vm: str, answer: str, seconds: float) -> None:
        """Give all requests of a VM this answer, for this long."""

    def lift(self, vm: str) -> None:
        """Answer it correctly again."""


class Faults:
    """Translates between JSON and faults; without a port this service allows none."""

    def __init__(self, engine: Engine, port: FaultPort | None) -> None:
        self._engine = engine
        self._port = port

    def calls(self) -> list[Call]:
        """The rows of the table."""
        one, _jump, admin = "/v1/vms/{name}/fault", "/v1/vms/{name}/jump", Role.ADMIN
        shown, _jumped = {200: shapes.Fault}, {200: shapes.Jumped}
        return [
            Call("PUT", one, admin, self.put, "Give a VM wrong answers for a while", FaultRequest, (), shown, (422,)),
            Call("DELETE", one, admin, self.lift, "Answer a VM correctly again", None, (), {204: None}, (422,)),
            Call(
                "POST",
                "/v1/vms/{name}/jump",
                admin,
                self.jump,
                "Let incarnations jump ahead",
                None,
                (),
                {200: shapes.Jumped},
                (422,),
            ),
        ]

    async def put(self, request: Request) -> Response:
        """Until then all metadata requests of the VM get this answer. It is kept in memory only."""
        port, vm = self._allowed(), vm_named(self._engine.state, request.path_params["name"])
        asked = await decoded(request, FaultRequest)
        seconds = parse_duration(asked.seconds)
        port.put(vm.name, asked.answer, seconds)
        until = format_iso(self._engine.clock.now().after(micros(seconds)).at)
        shown: shapes.Fault = {"vm": vm.name, "answer": asked.answer, "until": until}
        return JSONResponse(shown)

    async def lift(self, request: Request) -> Response:
        """Also when there is none."""
        self._allowed().lift(vm_named(self._engine.state, request.path_params["name"]).name)
        return Response(status_code=204)

    async def jump(self, request: Request) -> Response:
        """For all scopes, by a large step, as after a restore (S3). It cannot be undone."""
        self._allowed()
        vm = vm_named(self._engine.state, request.path_params["name"])

        def build(state: State, _: Records) -> Answer:
            shown: shapes.Jumped = {"vm": vm.name, "incarnation": state.document(scope_of(vm)).incarnation}
            return Answer(shown)

        return await done(self._engine, request, LiftIncarnations(seconds_since_2020()), build)

    def _allowed(self) -> FaultPort:
        if self._port is None:
            raise Refused("This service does not allow faults.", hint="Start it with --allow-faults to test clients.")
        return self._port
