"""The calls of events: list, look at, schedule, approve, report, cancel."""

from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from duenotice.bounds import NAMES
from duenotice.domain import commands as c
from duenotice.domain.event import Event
from duenotice.domain.rules.lifecycle import awaited, open_failure
from duenotice.domain.token import Role
from duenotice.errors import Malformed
from duenotice.operator_api.answers import Reply, Resource
from duenotice.operator_api.calls import Call, Paging, by_id, decoded, new_id
from duenotice.wire import operator as o
from duenotice.wire.documents import canonical_id
from duenotice.wire.operator import from_domain, to_domain
from duenotice.wire.spans import format_iso

_FILTERS = ("vm", "scope", "type", "phase", "limit", "cursor")


class Events(Resource):
    """The live events."""

    def calls(self) -> list[Call]:
        """The rows of the table."""
        viewer, operator, all_, one = Role.VIEWER, Role.OPERATOR, "/v1/events", "/v1/events/{id}"
        page, event, raised = {200: o.Page[o.Event]}, {200: o.Event}, {201: o.Raised}
        report, acknowledge = "Report that an impact is over", "Say that somebody takes care of a failed event"
        return [
            Call("GET", all_, viewer, self.index, "List live events", page, query=_FILTERS),
            Call(
                "POST",
                all_,
                operator,
                self.schedule,
                "Schedule an event",
                raised,
                o.ScheduleRequest,
                refusals=(404,),
                bounds=NAMES,
            ),
            Call("GET", one, viewer, self.show, "Show a live event", event),
            Call("POST", f"{one}/approve", operator, self.approve, "Approve an event: it starts now", event),
            Call("POST", f"{one}/report", operator, self.report, report, event, o.ReportRequest),
            Call("POST", f"{one}/cancel", operator, self.cancel, "Cancel a scheduled event", event, o.CancelRequest),
            Call("POST", f"{one}/acknowledge", operator, self.acknowledge, acknowledge, event, o.AcknowledgeRequest),
        ]

    async def index(self, request: Request) -> Response:
        """A page of live events, soonest first."""
        wanted, paging, now = _Filter(request), Paging.of(request), self._engine.clock.now()
        told = partial(from_domain.event, now=now)
        return await self._looked(lambda state: paging.page(filter(wanted, state.events.values()), _order, told))

    async def schedule(self, request: Request) -> Response:
        """Raise one event."""
        asked = await decoded(request, o.ScheduleRequest)
        command = c.ScheduleEvent(
            event_id=new_id(),
            type=to_domain.parse_type(asked.type),
            resources=asked.resources,
            not_before=to_domain.parse_moment(asked.not_before),
            description=asked.description,
            duration=asked.duration,
            cause=to_domain.parse_cause(asked.cause),
        )
        return await self._raised(request, command)

    async def show(self, request: Request) -> Response:
        """One event."""
        event, now = await self._find(request), self._engine.clock.now()
        return await self._looked(lambda state: from_domain.event(event, now, awaited(state, event, now)))

    async def approve(self, request: Request) -> Response:
        """Approve one; the answer is the event as it is then."""
        event = await self._find(request)
        return await self._done(
            request,
            c.ApproveEvents((event.id,)),
            lambda state, _: Reply(from_domain.event(state.events.get(event.id, event))),
        )

    async def report(self, request: Request) -> Response:
        """A driver says that its impact is over, or why it failed; the answer is the event as it was."""
        event = await self._find(request)
        asked = await decoded(request, o.ReportRequest)
        reply = Reply(from_domain.event(event))
        return await self._done(request, c.ReportImpact(event.id, asked.failure), lambda *_: reply)

    async def cancel(self, request: Request) -> Response:
        """Cancel one; the answer is the event as it was."""
        event = await self._find(request)
        asked = await decoded(request, o.CancelRequest)
        reply = Reply(from_domain.event(event))
        return await self._done(request, c.CancelEvent(event.id, asked.reason), lambda *_: reply)

    async def acknowledge(self, request: Request) -> Response:
        """It has failed, and needs nobody any more; the answer is the event as it failed."""
        text, asked = request.path_params["id"], await decoded(request, o.AcknowledgeRequest)
        state = self._engine.state
        near = [each for each in state.failures if each.id.startswith(canonical_id(text).upper())]
        failed = (by_id(near, text, "event") if near else open_failure(state, text)).event
        command = c.AcknowledgeFailures((failed.id,), note=asked.note)
        return await self._done(request, command, lambda *_: Reply(from_domain.event(failed)))

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
        self._type = to_domain.parse_type(query["type"]) if "type" in query else None
        self._phase = query["phase"].lower() if "phase" in query else None
        if self._phase not in (None, *o.LIVE_PHASES):
            raise Malformed(f"{self._phase!r} is not a phase.", hint=f"Use one of {', '.join(o.LIVE_PHASES)}.")

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
