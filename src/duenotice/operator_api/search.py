"""The call that searches everything by name: VMs, groups, hosts, maintenances and events, the best hits first."""

import re
from collections.abc import Iterable, Iterator, Sequence
from heapq import nsmallest
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from duenotice.domain.failure import Failures
from duenotice.domain.state import State
from duenotice.domain.token import Role
from duenotice.engine.engine import Engine
from duenotice.engine.event_traces import EventTrace, lives_of
from duenotice.errors import Malformed
from duenotice.escape import natural
from duenotice.operator_api.answers import Resource
from duenotice.operator_api.calls import Call, Parameter, number
from duenotice.operator_api.history import state_of_trace, with_failures
from duenotice.wire import operator as o
from duenotice.wire.api_versions import TYPE_NAMES

MOST_HITS = 50
MOST_OF_KIND = 8
"""So that a thousand VMs do not hide the group of that name."""

MOST_LOOKED_AT = 64
"""Names of VMs that begin with the text, or have it inside, that are compared; they stand as the fleet has them."""

LONGEST = 100
_QUERY = (
    Parameter("q", {"type": "string", "maxLength": LONGEST}),
    Parameter("limit", {"type": "integer", "minimum": 1, "maximum": MOST_HITS, "default": 20}),
)
_ID = re.compile(r"[0-9a-f-]{3,36}")
EXACT, BEGINS, WORD, INSIDE = range(4)


class Candidate(NamedTuple):
    """Something that was found, with how well it fits."""

    rank: int
    kind: int
    order: str
    name: str
    about: str


class VmNames:
    """The names of all VMs as one text, so that a search is one scan of it."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self._text = "\n" + "\n".join(names).lower() + "\n"

    def find(self, text: str) -> Iterator[str]:
        """Names with this text: first the same, then those that begin with it, then those that have it inside."""
        seen: set[int] = set()
        for needle, most in ((f"\n{text}\n", 1), (f"\n{text}", MOST_LOOKED_AT), (text, MOST_LOOKED_AT)):
            for place in self._places(needle, text, most):
                if place not in seen:
                    seen.add(place)
                    yield self.names[place]

    def _places(self, needle: str, text: str, most: int) -> Iterator[int]:
        at, begin, line = self._text.find(needle), 0, -1
        while at >= 0 and most:
            first = at + len(needle) - len(needle.lstrip("\n"))
            line += self._text.count("\n", begin, first)
            yield line
            begin, most = first, most - 1
            at = self._text.find(needle, self._text.index("\n", first))


class Searches(Resource):
    """Finds things by a part of what names them."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._lives, self._vms = lives_of(engine), (-1, VmNames(()))

    def calls(self) -> list[Call]:
        """The rows of the table."""
        about = "Search VMs, groups, hosts, maintenances and events by name, address or id"
        return [Call("GET", "/v1/search", Role.VIEWER, self.search, about, {200: o.Hits}, query=_QUERY)]

    async def search(self, request: Request) -> Response:
        """The best hits; an empty text finds nothing."""
        text = request.query_params.get("q", "").strip().lower()
        limit = number(request, "limit", 20, 1, MOST_HITS)
        if len(text) > LONGEST:
            raise Malformed("The text is too long.", hint=f"Search for at most {LONGEST} characters.")
        addressed = self._engine.state.fleet.by_address.get(text)
        traces = (await self._lives.traces(self._engine)).all() if _ID.fullmatch(text) else ()

        def look(state: State) -> o.Hits:
            if not text:
                return o.Hits((), False)
            named = [addressed.name] if addressed is not None else []
            vms = (_vm(state, name, text, name in named) for name in (*named, *self._names(state).find(text)))
            found = events(traces, state.failures, text)
            kinds = [vms, groups(state, text), hosts(state, text), plans(state, text), found]
            return best(map(_some, kinds), limit)

        return await self._looked(look)

    def _names(self, state: State) -> VmNames:
        """The names of a state; to make the text costs some milliseconds, so it is kept until something changes."""
        position, known = self._vms
        if position != state.position:
            known = VmNames(tuple(state.fleet.vms))
            self._vms = (state.position, known)
        return known


def _some(found: Iterable[Candidate | None]) -> list[Candidate]:
    """The best of one kind, and one more if there are others; each once."""
    return nsmallest(MOST_OF_KIND + 1, {one for one in found if one is not None})


def best(kinds: Iterable[Sequence[Candidate]], limit: int) -> o.Hits:
    """The best of all kinds together."""
    several = list(kinds)
    found = sorted(one for kind in several for one in kind[:MOST_OF_KIND])
    more = len(found) > limit or any(len(kind) > MOST_OF_KIND for kind in several)
    items = (o.Hit(o.HIT_KINDS[one.kind], one.name, one.about, one.rank == EXACT) for one in found[:limit])
    return o.Hits(tuple(items), more)


def rank_of(text: str, *names: str) -> int | None:
    """How well a text fits the best of some names, all in lower case; None when it is in none of them."""
    ranks = [_rank(text, name) for name in names if text in name]
    return min(ranks, default=None)


def _rank(text: str, name: str) -> int:
    if text == name:
        return EXACT
    if name.startswith(text):
        return BEGINS
    return WORD if any(f"{mark}{text}" in name for mark in "-_./ ") else INSIDE


def _candidate(kind: str, text: str, name: str, about: str, *also: str) -> Candidate | None:
    rank = rank_of(text, name.lower(), *(other.lower() for other in also if other))
    return None if rank is None else Candidate(rank, o.HIT_KINDS.index(kind), natural(name), name, about)


def _vm(state: State, name: str, text: str, by_address: bool) -> Candidate | None:
    if (vm := state.fleet.vms.get(name)) is None:
        return None
    about = " · ".join(part for part in (vm.group, vm.host, vm.address) if part)
    return _candidate("vm", text, name, about, vm.address if by_address else "")


def groups(state: State, text: str) -> Iterator[Candidate | None]:
    """By key or by name."""
    return (
        _candidate("group", text, key, key.partition("/")[0], group.name) for key, group in state.fleet.groups.items()
    )


def hosts(state: State, text: str) -> Iterator[Candidate | None]:
    """With the condition that each is in."""
    return (_candidate("host", text, host.name, host.condition.value) for host in state.fleet.hosts.values())


def plans(state: State, text: str) -> Iterator[Candidate | None]:
    """By the id or by a word of the description."""
    for progress in state.plans.values():
        plan = progress.plan
        about = f"{TYPE_NAMES[plan.type]}, {plan.status.value}"
        said = f"{about}: {plan.description}" if plan.description else about
        yield _candidate("maintenance", text, plan.id, said, plan.description or "")


def events(traces: Sequence[EventTrace], failures: Failures, text: str) -> Iterator[Candidate | None]:
    """By the beginning of the id."""
    beginning = text.upper()
    for trace in with_failures(traces, failures):
        event = trace.event
        if event.id.startswith(beginning):
            more = f" +{len(event.resources) - 1}" if len(event.resources) > 1 else ""
            about = f"{TYPE_NAMES[event.type]} of {event.resources[0]}{more}, {state_of_trace(trace, failures)}"
            yield _candidate("event", text, event.id, about)
