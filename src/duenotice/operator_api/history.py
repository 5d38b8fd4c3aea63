"""The calls of the timeline: all events of a span of time, past, running and coming, with their moments."""

from collections.abc import Callable, Container, Sequence
from datetime import UTC, datetime, timedelta

from starlette.requests import Request
from starlette.responses import Response

from duenotice.clock import Instant, later
from duenotice.domain.failure import Failure, Failures
from duenotice.domain.rules.lifecycle import awaited
from duenotice.domain.state import State
from duenotice.domain.token import Role
from duenotice.engine.engine import Engine
from duenotice.engine.event_traces import EventTrace, between, lives_of
from duenotice.errors import LookAt, Malformed, NotFound
from duenotice.operator_api.answers import Resource
from duenotice.operator_api.calls import Call, Room
from duenotice.operator_api.vm_states import state_of
from duenotice.wire import operator as o
from duenotice.wire.documents import canonical_id
from duenotice.wire.operator import from_domain
from duenotice.wire.operator.to_domain import parse_type

MOST = 5000
"""Events in one answer, which also ends at its bytes; for the others, ask for a shorter span of time."""


class Timelines(Resource):
    """The events of a span of time."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._lives = lives_of(engine)

    def calls(self) -> list[Call]:
        """The rows of the table."""
        viewer, all_, query = Role.VIEWER, "/v1/timeline", ("from", "to", "type", "vm")
        life, one = {200: o.Life}, "The life of one event, also when over"
        return [
            Call("GET", all_, viewer, self.index, "Events of a span of time", {200: o.Lives}, query=query),
            Call("GET", f"{all_}/{{id}}", viewer, self.show, one, life),
        ]

    async def index(self, request: Request) -> Response:
        """Events with their moments; by default from an hour ago to a week ahead."""
        known = await self._lives.traces(self._engine)
        now = self._engine.clock.now()
        since = moment_of(request, "from", now.at - timedelta(hours=1))
        until = moment_of(request, "to", later(now.at, timedelta(days=7)))
        wanted, traces = _wanted(request), known.all()

        def look(state: State) -> o.Lives:
            found = list(filter(wanted, between(traces, since, until)))
            items = Room().filled(told(trace, state.failures, now) for trace in found[: -MOST - 1 : -1])[::-1]
            return o.Lives(from_domain.whole_second(now.at), items, len(found) - len(items))

        return await self._looked(look)

    async def show(self, request: Request) -> Response:
        """One event with its moments, and who is awaited (C07)."""
        known = await self._lives.traces(self._engine)
        text, now = request.path_params["id"], self._engine.clock.now()
        wanted = canonical_id(text).upper()

        def look(state: State) -> o.Life:
            failures = state.failures
            found = known.find(wanted) or [trace_of(each) for each in failures if each.id.startswith(wanted)]
            if not found:
                raise NotFound(f"There is no event {text}.", look_at=LookAt.EVENTS)
            if len(found) != 1:
                raise NotFound(f"{len(found)} events begin with {text}.", hint="Give the whole id.")
            live = state.events.get(found[0].event.id)
            return told(found[0], failures, now, () if live is None else awaited(state, live, now))

        return await self._looked(look)


def _wanted(request: Request) -> Callable[[EventTrace], bool]:
    query = request.query_params
    type_, vm = parse_type(query["type"]) if "type" in query else None, query.get("vm", "")
    return lambda trace: type_ in (None, trace.event.type) and (not vm or vm in trace.event.resources)


def state_of_trace(trace: EventTrace, failures: Container[str]) -> str:
    """The state of an event, or how it ended; who has approved it may only be in its trace."""
    if trace.outcome == "failed":
        return "failed" if trace.event.id in failures else "resolved"
    found = trace.outcome or state_of(trace.event)
    return "approved" if found == "scheduled" and trace.approved_by else found


def trace_of(failure: Failure) -> EventTrace:
    """A failure that is older than all that is remembered of other events."""
    return EventTrace(failure.event, ended_at=failure.failed_at, outcome="failed", reason=failure.reason)


def with_failures(traces: Sequence[EventTrace], failures: Failures) -> Sequence[EventTrace]:
    """All events that are remembered; failures are, until somebody has dealt with them."""
    if not len(failures):
        return traces
    known = {trace.event.id for trace in traces}
    return [*(trace_of(each) for each in failures if each.id not in known), *traces]


def told(trace: EventTrace, failures: Container[str], now: Instant, still_awaited: Sequence[str] = ()) -> o.Life:
    """An event as in other answers, and its moments; an answer about one event names who is still awaited."""
    return from_domain.life(
        from_domain.event(trace.event, now if trace.ended_at is None else None, still_awaited),
        raised_at=trace.raised_at,
        approved_at=trace.approved_at,
        approved_by=trace.approved_by,
        ended_at=trace.ended_at,
        outcome=trace.outcome,
        reason=trace.reason,
        state=state_of_trace(trace, failures),
        maintenance=trace.event.maintenance,
    )


def moment_of(request: Request, name: str, default: datetime) -> datetime:
    """A moment from the query; without a zone it is in UTC."""
    if (text := request.query_params.get(name)) is None:
        return default
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise Malformed(f"{name}={text[:40]} is not a time.", hint="Write it like 2026-01-01T12:00:00Z.") from None
