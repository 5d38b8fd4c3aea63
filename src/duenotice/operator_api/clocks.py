"""The routes of the clock: read it, let time pass, set its speed."""

from typing import Annotated

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from duenotice.clock import Instant, ScaledClock, micros, parse_speed
from duenotice.domain.commands import MarkClock
from duenotice.domain.token import Role
from duenotice.engine.engine import Engine
from duenotice.engine.ticker import Ticker
from duenotice.errors import Malformed, Refused
from duenotice.operator_api.answering import Answer, done
from duenotice.operator_api.bodies import decoded
from duenotice.operator_api.table import Call
from duenotice.wire import operator_shapes as shapes
from duenotice.wire.duration import parse_duration
from duenotice.wire.operator_json import Span
from duenotice.wire.times import format_iso


class AdvanceRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body that lets time pass."""

    by: Span


class SpeedRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body that sets the speed."""

    speed: Annotated[str, msgspec.Meta(extra_json_schema={"pattern": "^[1-9][0-9]{0,4}x$"})]


class Clocks:
    """Translates between JSON and the clock."""

    def __init__(self, engine: Engine, ticker: Ticker) -> None:
        self._engine = engine
        self._ticker = ticker

    def calls(self) -> list[Call]:
        """The rows of the table."""
        admin, clock = Role.ADMIN, {200: shapes.Clock}
        return [
            Call("GET", "/v1/clock", Role.VIEWER, self.show, "What time it is", answers=clock),
            Call(
                "POST",
                "/v1/clock/advance",
                admin,
                self.advance,
                "Let time pass on a manual clock",
                AdvanceRequest,
                answers=clock,
            ),
            Call(
                "POST",
                "/v1/clock/speed",
                admin,
                self.speed,
                "Set the speed of a scaled clock",
                SpeedRequest,
                answers=clock,
            ),
        ]

    async def show(self, _: Request) -> Response:
        """The clock's name, time and speed."""
        return JSONResponse(self._shown(self._engine.clock.now()))

    async def advance(self, request: Request) -> Response:
        """Let time pass. The request is durable before time passes, so that it is never done twice (S6)."""
        span = micros(parse_duration((await decoded(request, AdvanceRequest)).by))
        answer = Answer(self._shown(self._ticker.end_of(span)))
        response = await done(self._engine, request, MarkClock(self._engine.clock.mark()), lambda *_: answer)
        await self._ticker.advance(span)
        return response

    async def speed(self, request: Request) -> Response:
        """Another speed from now on, also after a restart, unless `--clock` then names another speed than before."""
        asked = await decoded(request, SpeedRequest)
        speed, clock = parse_speed(asked.speed), self._engine.clock
        if speed is None:
            raise Malformed(f"{asked.speed[:40]!r} is not a speed.", hint="Write 60x; at most 100000x.")
        if not isinstance(clock, ScaledClock):
            raise Refused(f"The clock is {clock.name}; its speed cannot be set.", hint="Start with --clock 60x.")
        answer = Answer(self._shown(clock.now(), speed))
        marked = MarkClock(clock.mark()._replace(speed=speed))
        response = await done(self._engine, request, marked, lambda *_: answer)
        self._engine.set_speed(clock, speed)
        return response

    def _shown(self, now: Instant, speed: float | None = None) -> shapes.Clock:
        clock = self._engine.clock
        name = clock.name if speed is None else f"{speed:g}x"
        return {"clock": name, "now": format_iso(now.at), "speed": clock.speed if speed is None else speed}
