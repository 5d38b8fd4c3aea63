"""The routes of events: list, look at, schedule, approve, cancel."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from duenotice.domain import commands as c
from duenotice.domain.event import Event, Phase
from duenotice.domain.token import Role
from duenotice.engine.engine import Engine
from duenotice.errors import Malformed
from duenotice.operator_api.bodies import actor_of, decoded, new_id
from duenotice.operator_api.finding import by_id
from duenotice.operator_api.pages import page
from duenotice.operator_api.raising import raised
from duenotice.operator_api.table import Call
from duenotice.wire import operator_json
from duenotice.wire.times import format_iso

_FILTERS = ("vm", "scope", "type", "phase", "limit", "cursor")
_LIVE = (Phase.SCHEDULED.value, Phase.STARTED.value)


class Events:
    """Translates between JSON and the commands of events."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def calls(self) -> list[Call]:
        """The rows of the table."""
        viewer, operator = Role.VIEWER, Role.OPERATOR
        one = "/v1/events/{id}"
        schedule, cancel = operator_json.ScheduleRequest, operator_json.CancelRequest
        return [
            Call("GET", "/v1/events", viewer, self.index, "List live events", query=_FILTERS),
            Call("POST", "/v1/events", operator, self.schedule, "Schedule an event", schedule),
            Call("GET", one, viewer, self.show, "Show a live event"),
            Call("POST", f"{one}/approve", operator, self.approve, "Let an event start now"),
            Call("POST", f"{one}/cancel", operator, self.cancel, "Take a scheduled event back", cancel),
        ]

    async def index(self, request: Request) -> Response:
        """A page of live events, soonest first."""
        return page(request, filter(_Filter(request), self._events()), _order, operator_json.event_to_json)

    async def schedule(self, request: Request) -> Response:
        """Raise one event."""
        asked = await decoded(request, operator_json.ScheduleRequest)
        command = c.ScheduleEvent(
            event_id=new_id(),
            type=operator_json.parse_type(asked.type),
            resources=asked.resources,
            not_before=operator_json.parse_moment(asked.not_before),
            description=asked.description,
            duration=asked.duration,
            cause=operator_json.parse_cause(asked.cause),
        )
        return await raised(self._engine, request, command)

    async def show(self, request: Request) -> Response:
        """One event."""
        return JSONResponse(operator_json.event_to_json(self._find(request)))

    async def approve(self, request: Request) -> Response:
        """Let one start; the answer is the event as it is then."""
        event = self._find(request)
        await self._engine.submit(c.ApproveEvents((event.id,)), actor_of(request))
        now = next((other for other in self._events() if other.id == event.id), event)
        return JSONResponse(operator_json.event_to_json(now))

    async def cancel(self, request: Request) -> Response:
        """Take one back; the answer is the event as it was."""
        event = self._find(request)
        asked = await decoded(request, operator_json.CancelRequest)
        await self._engine.submit(c.CancelEvent(event.id, asked.reason), actor_of(request))
        return JSONResponse(operator_json.event_to_json(event))

    def _events(self) -> list[Event]:
        return self._engine.publisher.events()

    def _find(self, request: Request) -> Event:
        return by_id(self._events(), request.path_params["id"], "event")


class _Filter:
    """What a query asks for."""

    def __init__(self, request: Request) -> None:
        query = request.query_params
        self._vm, self._scope = query.get("vm"), query.get("scope")
        self._type = operator_json.parse_type(query["type"]) if query.get("type") else None
        self._phase = query.get("phase", "").lower() or None
        if self._phase not in (None, *_LIVE):
            raise Malformed(f"{self._phase!r} is no phase.", hint=f"Use one of {', '.join(_LIVE)}.")

    def __call__(self, event: Event) -> bool:
        return (
            (not self._vm or self._vm in event.resources)
            and (not self._scope or self._scope == event.scope)
            and self._type in (None, event.type)
            and self._phase in (None, event.phase.value)
        )


def _order(event: Event) -> str:
    # One that is postponed meanwhile may be seen twice, but none is left out.
    return f"{format_iso(event.not_before)}/{event.id}"
