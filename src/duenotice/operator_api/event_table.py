"""The call of the table of events: live ones and those that are over, filtered, counted, the most urgent first."""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from duenotice.domain.bulk import by_key
from duenotice.domain.event import Phase
from duenotice.domain.fleet import ALONE as ONE_VM
from duenotice.domain.fleet import Vm, group_of
from duenotice.domain.state import State
from duenotice.domain.token import Role
from duenotice.engine.engine import Engine
from duenotice.engine.event_traces import EventTrace, lives_of
from duenotice.errors import Malformed
from duenotice.escape import natural
from duenotice.operator_api.answers import Resource
from duenotice.operator_api.calls import LAST, Call, Parameter, Room, limit_of, number
from duenotice.operator_api.fleet import ALONE, check_place
from duenotice.operator_api.history import state_of_trace, told, with_failures
from duenotice.wire import operator as o
from duenotice.wire.operator import from_domain
from duenotice.wire.operator.to_domain import parse_type

_ONE_OF = "|".join(o.EVENT_STATES)
_QUERY: tuple[str | Parameter, ...] = (
    Parameter("state", {"type": "string", "pattern": f"^(({_ONE_OF})(,({_ONE_OF}))*)?$"}),
    "type",
    Parameter("cause", {"type": "string", "enum": ["", *o.CAUSES]}),
    "group",
    "host",
    Parameter("maintenance", {"type": "string"}),
    "vm",
    "q",
    Parameter("by", {"type": "string", "enum": ["", *o.EVENT_PILES]}),
    Parameter("offset", {"type": "integer", "minimum": 0, "maximum": LAST, "default": 0}),
    "limit",
)
_RANK = {state: rank for rank, state in enumerate(o.EVENT_STATES)}


class EventPlace(NamedTuple):
    """What an event belongs to."""

    group: str | None
    host: str | None
    maintenance: str | None


class EventTables(Resource):
    """Live events and those that are over, for people who look for one."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._lives = lives_of(engine)

    def calls(self) -> list[Call]:
        """The rows of the table of calls."""
        about, table = "Events as a table: filtered, counted, the most urgent first", {200: o.EventTable}
        return [Call("GET", "/v1/event-table", Role.VIEWER, self.index, about, table, None, _QUERY, (404,))]

    async def index(self, request: Request) -> Response:
        """Some rows of all events that match; without `state` those that live, or have failed and need a person."""
        wanted, now = WantedEvents(request.query_params), self._engine.clock.now()
        limit, offset = limit_of(request), number(request, "offset", 0, 0, LAST)
        traces = (await self._lives.traces(self._engine)).all()

        def look(state: State) -> o.EventTable:
            known, failures = with_failures(traces, state.failures), state.failures
            matching = [trace for trace in known if wanted(trace, place_of(trace, state.fleet.vms))]
            if not matching:
                check_place(state.fleet, wanted.group, wanted.host)  # of one that has gone, events may be known
            counts = Counter(state_of_trace(trace, failures) for trace in matching)
            found = [trace for trace in matching if state_of_trace(trace, failures) in wanted.states]
            rows = ordered(found, failures, lambda trace: wanted.pile(place_of(trace, state.fleet.vms)))
            items = Room().filled(
                _row(told(trace, failures, now), place_of(trace, state.fleet.vms))
                for trace in rows[offset : offset + limit]
            )
            every = {name: counts[name] for name in o.EVENT_STATES}
            return o.EventTable(from_domain.whole_second(now.at), len(found), every, items)

        return await self._looked(look)


class WantedEvents:
    """Which events a query asks for; their states are looked at apart, so that all can be counted."""

    def __init__(self, query: Mapping[str, str]) -> None:
        self.states = _words(query.get("state", ""), o.EVENT_STATES, "a state") or frozenset(o.OPEN_STATES)
        self._causes = _words(query.get("cause", ""), o.CAUSES, "a cause")
        self._type = parse_type(query["type"]) if query.get("type") else None
        self.group, self.host, self._vm = (query.get(key, "") for key in ("group", "host", "vm"))
        self._plan, self._text = query.get("maintenance", "").upper(), query.get("q", "").strip().lower()
        self._by = query.get("by", "")
        if self._by not in ("", *o.EVENT_PILES):
            raise Malformed(f"by={self._by[:40]} is not valid.", hint=f"Use one of {', '.join(o.EVENT_PILES)}.")

    def __call__(self, trace: EventTrace, place: EventPlace) -> bool:
        """Whether the query asks for this event, whatever state it is in."""
        event = trace.event
        return (
            self._type in (None, event.type)
            and (not self._causes or event.cause.value in self._causes)
            and (not self._vm or self._vm in event.resources)
            and (not self.group or _is_in(place.group, self.group))
            and (not self.host or self.host == place.host)
            and (not self._plan or (place.maintenance or "").startswith(self._plan))
            and (not self._text or _has(trace, place, self._text))
        )

    def pile(self, place: EventPlace) -> str:
        """What the rows of one pile have in common; they stand together."""
        return getattr(place, self._by) or "" if self._by else ""


def _row(life: o.Life, place: EventPlace) -> o.EventRow:
    return from_domain.event_row(life, group=place.group, host=place.host)


def _words(text: str, known: Iterable[str], what: str) -> frozenset[str]:
    found = frozenset(text.split(",")) if text else frozenset[str]()
    if odd := sorted(found.difference(known)):
        raise Malformed(f"{odd[0][:40]!r} is not {what}.", hint=f"Use one or more of {', '.join(known)}.")
    return found


def _is_in(group: str | None, asked: str) -> bool:
    if group is None or asked == ALONE:
        return group is None and asked == ALONE
    return asked in (group, group.partition("/")[2])


def _has(trace: EventTrace, place: EventPlace, text: str) -> bool:
    event = trace.event
    parts = (event.id, event.type.value, event.cause.value, event.description, event.scope, *event.resources)
    return any(text in part.lower() for part in (*parts, place.host or "", trace.reason))


def place_of(trace: EventTrace, vms: Mapping[str, Vm]) -> EventPlace:
    """What an event belongs to; the host of a VM that has gone is not known any more."""
    event, first = trace.event, vms.get(trace.event.resources[0])
    group = None if event.scope.startswith(ONE_VM) else group_of(event.scope)
    return EventPlace(group, event.host or (first.host if first is not None else None), event.maintenance)


def urgency(trace: EventTrace, failures: Container[str]) -> tuple[Any, ...]:
    """The key to sort by: what has failed and needs a person, what hits now, then the soonest; what is over last.

    What has ended stands newest first, and the others by name as people count.
    """
    event = trace.event
    if trace.ended_at is not None:
        return 0 if event.id in failures else 3, -trace.ended_at.timestamp(), event.id
    return 1 + (event.phase is not Phase.STARTED), event.not_before.timestamp(), natural(event.resources[0]), event.id


def ordered(
    traces: Iterable[EventTrace], failures: Container[str], pile_of: Callable[[EventTrace], str]
) -> list[EventTrace]:
    """By urgency; those of one pile stand together, where its most urgent one belongs."""
    rows = by_key(traces, lambda trace: urgency(trace, failures))
    first: dict[str, int] = {}
    for place, trace in enumerate(rows):
        first.setdefault(pile_of(trace), place)
    return rows if len(first) < 2 else by_key(rows, lambda trace: first[pile_of(trace)])
