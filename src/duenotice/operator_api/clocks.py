"""The routes of the clock: read it, let time pass, set its pace."""

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from duenotice.clock import ScaledClock, parse_speed
from duenotice.domain.token import Role
from duenotice.engine.engine import Engine
from duenotice.engine.ticker import Ticker
from duenotice.errors import Malformed, Refused
from duenotice.operator_api.bodies import decoded
from duenotice.operator_api.table import Call
from duenotice.wire.duration import parse_duration
from duenotice.wire.times import format_iso


class AdvanceRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body that lets time pass."""

    by: str = ""


class SpeedRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body that sets the pace."""

    speed: str


class Clocks:
    """Translates between JSON and the clock."""

    def __init__(self, engine: Engine, ticker: Ticker) -> None:
        self._engine = engine
        self._ticker = ticker

    def calls(self) -> list[Call]:
        """The rows of the table."""
        admin = Role.ADMIN
        return [
            Call("GET", "/v1/clock", Role.VIEWER, self.show, "What time it is"),
            Call("POST", "/v1/clock/advance", admin, self.advance, "Let time pass on a manual clock", AdvanceRequest),
            Call("POST", "/v1/clock/speed", admin, self.speed, "Set the pace of a scaled clock", SpeedRequest),
        ]

    async def show(self, _: Request) -> Response:
        """The clock's name, time and pace."""
        clock = self._engine.clock
        return JSONResponse({"clock": clock.name, "now": format_iso(clock.now().at), "speed": clock.speed})

    async def advance(self, request: Request) -> Response:
        """Let time pass."""
        asked = await decoded(request, AdvanceRequest)
        await self._ticker.advance(parse_duration(asked.by))
        return await self.show(request)

    async def speed(self, request: Request) -> Response:
        """Another pace from now on; the next start has the one from its settings again."""
        asked = await decoded(request, SpeedRequest)
        speed, clock = parse_speed(asked.speed), self._engine.clock
        if speed is None:
            raise Malformed(f"{asked.speed[:40]!r} is no speed.", hint="Write 60x; at most 100000x.")
        if not isinstance(clock, ScaledClock):
            raise Refused(f"The clock is {clock.name}; it has no pace to set.", hint="Start with --clock 60x.")
        self._engine.set_speed(clock, speed)
        return await self.show(request)
