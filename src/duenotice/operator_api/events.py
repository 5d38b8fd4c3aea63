"""The routes of events: list, look at, schedule, approve, report, cancel."""

from functools import partial

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from duenotice.domain import commands as c
from duenotice.domain.event import Event, Phase
from duenotice.domain.token import Role
from duenotice.engine.engine import Engine
from duenotice.errors import Malformed
from duenotice.operator_api.answering import Answer, done, raised
from duenotice.operator_api.bodies import decoded, new_id
from duenotice.operator_api.finding import by_id
from duenotice.operator_api.looking import looked
from duenotice.operator_api.pages import paging_of
from duenotice.operator_api.table import Call
from duenotice.wire import operator_json
from duenotice.wire import operator_shapes as shapes
from duenotice.wire.start_requests_json import canonical_id
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
        page, event, raised_ = {200: shapes.Page[shapes.Event]}, {200: shapes.Event}, {201: shapes.Raised}
        return [
            Call("GET", "/v1/events", viewer, self.index, "List live events", query=_FILTERS, answers=page),
            Call(
                "POST",
                "/v1/events",
                operator,
                self.schedule,
                "Schedule an event",
                schedule,
                answers=raised_,
                refusals=(404,),
            ),
            Call("GET", one, viewer, self.show, "Show a live event", answers=event),
            Call("POST", f"{one}/approve", operator, self.approve, "Approve an event: it starts now", answers=event),
            Call(
                "POST",
                f"{one}/report",
                operator,
                self.report,
                "Report that an impact is over",
                operator_json.ReportRequest,
                answers=event,
            ),
            Call("POST", f"{one}/cancel", operator, self.cancel, "Cancel a scheduled event", cancel, answers=event),
        ]

    async def index(self, request: Request) -> Response:
        """A page of live events, soonest first."""
        wanted, paging, now = _Filter(request), paging_of(request), self._engine.clock.now()
        shown = partial(operator_json.event_to_json, now=now)
        return await looked(
            self._engine, lambda state: paging.page(filter(wanted, state.events.values()), _order, shown)
        )

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
        return JSONResponse(operator_json.event_to_json(await self._find(request), self._engine.clock.now()))

    async def approve(self, request: Request) -> Response:
        """Approve one; the answer is the event as it is then."""
        event = await self._find(request)
        return await done(
            self._engine,
            request,
            c.ApproveEvents((event.id,)),
            lambda state, _: Answer(operator_json.event_to_json(state.events.get(event.id, event))),
        )

    async def report(self, request: Request) -> Response:
        """A driver says that its impact is over, or why it failed; the answer is the event as it was."""
        event = await self._find(request)
        asked = await decoded(request, operator_json.ReportRequest)
        shown = Answer(operator_json.event_to_json(event))
        return await done(self._engine, request, c.ReportImpact(event.id, asked.failure), lambda *_: shown)

    async def cancel(self, request: Request) -> Response:
        """Cancel one; the answer is the event as it was."""
        event = await self._find(request)
        asked = await decoded(request, operator_json.CancelRequest)
        answer = Answer(operator_json.event_to_json(event))
        return await done(self._engine, request, c.CancelEvent(event.id, asked.reason), lambda *_: answer)

    async def _find(self, request: Request) -> Event:
        text = request.path_params["id"]
        if (exact := self._engine.state.events.get(canonical_id(text))) is not None:
            return exact
        return await self._engine.look(lambda state: by_id(state.events.values(), text, "event"))


class _Filter:
    """What a query asks for."""

    def __init__(self, request: Request) -> None:
        query = request.query_params
        self._vm, self._scope = query.get("vm"), query.get("scope")
        self._type = operator_json.parse_type(query["type"]) if "type" in query else None
        self._phase = query["phase"].lower() if "phase" in query else None
        if self._phase not in (None, *_LIVE):
            raise Malformed(f"{self._phase!r} is not a phase.", hint=f"Use one of {', '.join(_LIVE)}.")

    def __call__(self, event: Event) -> bool:
        return (
            (not self._vm or self._vm in event.resources)
            and (not self._scope or self._scope == event.scope)
            and self._type in (None, event.type)
            and self._phase in (None, event.phase.value)
        )


def _order(event: Event) -> str:
    # An event that is postponed in between may be seen twice, but none is left out.
    return f"{format_iso(event.not_before)}/{event.id}"
