"""The calls of the clock: read it, let time pass, set its speed."""

from starlette.requests import Request
from starlette.responses import Response

from duenotice.clock import Instant, ScaledClock, micros, parse_speed
from duenotice.domain.commands import MarkClock
from duenotice.domain.token import Role
from duenotice.engine.engine import Engine
from duenotice.engine.ticker import Ticker
from duenotice.errors import Malformed, Refused
from duenotice.operator_api.answers import Reply, Resource, shown
from duenotice.operator_api.calls import Call, decoded
from duenotice.wire import operator as o
from duenotice.wire.operator.from_domain import whole_second
from duenotice.wire.spans import parse_duration


class Clocks(Resource):
    """The service's clock."""

    def __init__(self, engine: Engine, ticker: Ticker) -> None:
        super().__init__(engine)
        self._ticker = ticker

    def calls(self) -> list[Call]:
        """The rows of the table."""
        one, admin, clock = "/v1/clock", Role.ADMIN, {200: o.Clock}
        advance, speed = "Let time pass on a manual clock", "Set the speed of a scaled clock"
        return [
            Call("GET", one, Role.VIEWER, self.show, "What time it is", clock),
            Call("POST", f"{one}/advance", admin, self.advance, advance, clock, o.AdvanceRequest),
            Call("POST", f"{one}/speed", admin, self.speed, speed, clock, o.SpeedRequest),
        ]

    async def show(self, _: Request) -> Response:
        """The clock's name, time and speed."""
        return shown(self._told(self._engine.clock.now()))

    async def advance(self, request: Request) -> Response:
        """Let time pass. The request is durable before time passes, so that it is never done twice (S6)."""
        span = micros(parse_duration((await decoded(request, o.AdvanceRequest)).by))
        reply = Reply(self._told(self._ticker.end_of(span)))
        response = await self._done(request, MarkClock(self._engine.clock.mark()), lambda *_: reply)
        await self._ticker.advance(span)
        return response

    async def speed(self, request: Request) -> Response:
        """Another speed from now on, also after a restart, unless `--clock` then names another speed than before."""
        asked = await decoded(request, o.SpeedRequest)
        speed, clock = parse_speed(asked.speed), self._engine.clock
        if speed is None:
            raise Malformed(f"{asked.speed[:40]!r} is not a speed.", hint="Write 60x; at most 100000x.")
        if not isinstance(clock, ScaledClock):
            raise Refused(f"The clock is {clock.name}; its speed cannot be set.", hint="Start with --clock 60x.")
        reply = Reply(self._told(clock.now(), speed))
        response = await self._done(request, MarkClock(clock.mark()._replace(speed=speed)), lambda *_: reply)
        self._engine.set_speed(clock, speed)
        return response

    def _told(self, now: Instant, speed: float | None = None) -> o.Clock:
        clock = self._engine.clock
        name = clock.name if speed is None else f"{speed:g}x"
        return o.Clock(name, whole_second(now.at), clock.speed if speed is None else speed)
