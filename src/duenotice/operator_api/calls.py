"""The calls of the operator's API: one row for each, its parameters, and how what a request says is read."""

import re
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from heapq import nsmallest
from itertools import islice, takewhile
from operator import ne
from typing import NamedTuple, Protocol, TypeAlias, TypeVar
from uuid import uuid4

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from duenotice.bounds import LARGE_BYTES, PAGE_BYTES, PAGE_ROWS, SMALL, CallBounds
from duenotice.domain.fleet import Vm
from duenotice.domain.state import State
from duenotice.domain.token import Role
from duenotice.errors import Conflict, LookAt, Malformed, NotFound
from duenotice.toml import MOST_COMPARED, missing
from duenotice.wire import operator as o
from duenotice.wire.api_versions import API_VERSIONS, EVERY_VERSION
from duenotice.wire.documents import canonical_id
from duenotice.wire.fleet_file import NAME

T = TypeVar("T")
U = TypeVar("U")
Json: TypeAlias = "Mapping[str, Json] | Sequence[Json] | str | int | float | bool | None"
Schema = Mapping[str, Json]
_encode = msgspec.json.Encoder().encode
Handler = Callable[[Request], Awaitable[Response]]


class Parameter(NamedTuple):
    """A parameter of a query whose schema is not the one that its name has elsewhere."""

    name: str
    schema: Schema


def nobody(_: Request) -> None:
    """Refuses nobody."""


class Call(NamedTuple):
    """One method of one path; `role` None is anybody, unless `refuse` refuses, `query` has the parameters it knows.

    `answers` has for each status of success the type of its JSON, a media type of something else, several of these,
    or None when there is no body. `body` is the type of its JSON, or the media types of something else. `refusals`
    are statuses beyond those that follow from the rest, see `openapi.refusals`. One that is done `here` is about the
    asked node itself, so it is never passed on to the node that leads (N09). `bounds` is what it may cost.
    """

    method: str
    path: str
    role: Role | None
    handler: Handler
    summary: str
    answers: Mapping[int, object]
    body: type[msgspec.Struct] | tuple[str, ...] | None = None
    query: tuple[str | Parameter, ...] = ()
    refusals: tuple[int, ...] = ()
    here: bool = False
    bounds: CallBounds = SMALL
    refuse: Callable[[Request], Response | None] = nobody


# What a query and a path can say

DEFAULT_LIMIT = 100
LAST = 2**53
"""No journal gets this far, and every JSON library can represent it."""

_TEXT: Schema = {"type": "string"}
_POSITION: Schema = {"type": "integer", "minimum": 0, "maximum": LAST}
_MOMENT: Schema = {"type": "string", "format": "date-time"}
EVENT = "^[0-9A-Fa-f-]{0,36}$"
"""The beginning of an id, or nothing."""

QUERY: dict[str, Schema] = {
    "limit": {"type": "integer", "minimum": 1, "maximum": PAGE_ROWS, "default": DEFAULT_LIMIT},
    "after": _POSITION,
    "before": _POSITION,
    "action": {"type": "string", "enum": ["", *o.ACTIONS]},
    "event": {"type": "string", "pattern": EVENT},
    "from": _MOMENT,
    "to": _MOMENT,
    "status": {"type": "string", "enum": o.MAINTENANCE_STATUSES},
    "dry_run": {"type": "boolean", "default": False},
    "listens": {"type": "string", "enum": ["", "true", "false"]},
    "verbose": _TEXT,
    "only": {"type": "string", "pattern": f"^((?:{'|'.join(o.SELECTOR_KINDS)})=.+)?$"},
    "type": {"type": "string", "enum": o.EVENT_TYPES},
    "phase": {"type": "string", "enum": o.LIVE_PHASES},
    "api-version": {
        "type": "string",
        "enum": [version.name for version in EVERY_VERSION],
        "default": API_VERSIONS[-1].name,
    },
}

PATH: dict[str, Schema] = {
    "name": {"type": "string", "pattern": f"^{NAME.pattern}$"},
    "id": {"type": "string", "pattern": "^[0-9A-Fa-f-]{1,36}$"},
    "kind": {"type": "string", "enum": o.GROUP_KINDS},
}

ABOUT = {
    "limit": "How many at most",
    "cursor": "`next` of the page before",
    "after": "Only what came after this position of the journal",
    "dry_run": "Only say what would happen",
    "verbose": "Show each check on a line; any value is fine",
    "group": "A group by key or name: `set/web` or `web`",
    "host": "Those on a host",
    "q": "Those with this text in what names them: name, group, host, address, zone; of events also the description",
    "sort": "The column to sort by; with a `-` before it the other way round",
    "offset": "How many rows to leave out at the beginning",
    "by": "What rows have in common that stand together",
    "cause": "Those with one of these causes: `user,maintenance`",
    "maintenance": "Those of one maintenance, by the beginning of its id",
    "state": "Those in one of these states: `scheduled,started`",
    "listens": "`false`: those that would be hit without notice; `true`: the others",
    "from": "Leave out what was over by then",
    "to": "Leave out what comes after that",
    "before": "Only what came before this position of the journal; newest first",
    "event": "Those of one event, by the beginning of its id",
    "status": "Those in one status, such as `running`",
    "vm": "Those that hit this VM",
    "scope": "Those that this scope is told of",
    "actor": "Those of one actor: `token/NAME`",
    "action": "Those of one action: `event-raised`",
    "api-version": "As VMs ask for it",
    "only": "Only for the VMs that this chooses: `host=h1`",
    "life": "The id of the process that follows",
    "node": "`node` of the snapshot",
    "name": "A name as in the fleet file",
    "id": "An id, or the beginning of one that no other has",
}

KEY = re.compile(r"[!-~]{1,255}")
"""An Idempotency-Key."""

KEY_HEADER: Schema = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "A request with the same key is done once and gets the same answer",
    "schema": {"type": "string", "pattern": f"^{KEY.pattern}$"},
}


def in_query(asked: str | Parameter) -> Schema:
    """A parameter of the query, described."""
    name, schema = asked if isinstance(asked, Parameter) else (asked, QUERY.get(asked, _TEXT))
    return _described(name, {"name": name, "in": "query", "schema": schema})


def in_path(name: str) -> Schema:
    """A part of the path, described."""
    return _described(name, {"name": name, "in": "path", "required": True, "schema": PATH.get(name, _TEXT)})


def _described(name: str, parameter: Schema) -> Schema:
    return {**parameter, "description": ABOUT[name]} if name in ABOUT else parameter


# How a query is read

_FLAGS = {"true": True, "1": True, "false": False, "0": False}


def check_query(request: Request, call: Call) -> None:
    """With two values nobody knows which was meant, and a misspelt `dry_run` must not do the real change."""
    if not request.scope["query_string"]:
        return
    known = [asked.name if isinstance(asked, Parameter) else asked for asked in call.query]
    if (not known and call.method == "GET") or call.role is None:  # a probe may add any parameter
        return
    for name in request.query_params:
        if name not in known:
            hint = f"It knows {', '.join(known)}." if known else "Leave it out."
            raise Malformed(f"This call does not know {name[:40]!r}.", hint=hint)
        if len(request.query_params.getlist(name)) > 1:
            raise Malformed(f"{name} is given more than once.", hint="Give it once.")


def flag(request: Request, name: str) -> bool:
    """Whether a parameter such as `dry_run` is set. Nothing is guessed: a wrong guess could do the real change."""
    text = request.query_params.get(name, "false")
    if text.lower() not in _FLAGS:
        raise Malformed(f"{name}={text[:40]} is not valid.", hint="Use true or false.")
    return _FLAGS[text.lower()]


def number(request: Request, name: str, default: int, least: int, most: int) -> int:
    """A whole number from the query."""
    text = request.query_params.get(name)
    if text is None:
        return default
    value = int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else -1
    if not least <= value <= most:
        raise Malformed(f"{name}={text[:40]} is not valid.", hint=f"Use a whole number from {least} to {most}.")
    return value


def limit_of(request: Request) -> int:
    """How many items a page may have."""
    return number(request, "limit", DEFAULT_LIMIT, 1, PAGE_ROWS)


def place_of(request: Request) -> int:
    """Where a page begins whose cursor is a place; empty is the beginning, as everywhere."""
    return number(request, "cursor", 0, 0, LAST) if request.query_params.get("cursor") else 0


class Room:
    """How many bytes a page still has (S24). What does not fit is on the next page; the first thing always fits."""

    def __init__(self, bytes_left: int = PAGE_BYTES) -> None:
        self._left, self._is_empty = bytes_left, True

    def takes(self, item: object) -> bool:
        """Whether it fits; then its bytes are taken."""
        size = len(_encode(item)) + 1
        if size > self._left and not self._is_empty:
            return False
        self._left, self._is_empty = self._left - size, False
        return True

    def filled(self, items: Iterable[T]) -> tuple[T, ...]:
        """As many of the items as fit; the others are never made, if they are made one by one."""
        return tuple(takewhile(self.takes, items))


class Paging(NamedTuple):
    """Which page of a list a request asks for, in an order that changes do not disturb.

    A page ends at its number of rows or at its bytes, whichever comes first.
    """

    limit: int
    cursor: str

    @classmethod
    def of(cls, request: Request) -> "Paging":
        """What a request asks for."""
        return cls(limit_of(request), request.query_params.get("cursor", ""))

    def page(self, items: Iterable[T], key: Callable[[T], str], shown: Callable[[T], U]) -> o.Page[U]:
        """The items behind the cursor, by their key; only as many are sorted as are shown."""
        behind = (item for item in items if key(item) > self.cursor) if self.cursor else items
        found = nsmallest(self.limit + 1, behind, key=key)
        here = Room().filled(map(shown, found[: self.limit]))
        return o.Page(here, key(found[len(here) - 1]) if len(found) > len(here) else None)

    def page_of_names(
        self, names: Sequence[str], shown: Callable[[str], U | None], room: Room | None = None
    ) -> o.Page[U]:
        """The same for very many things with their names in order; what is not to be shown is left out."""
        behind = (names[place] for place in range(bisect_right(names, self.cursor), len(names)))
        wanted = ((name, item) for name in behind if (item := shown(name)) is not None)
        found = list(islice(wanted, self.limit + 1))
        here = (room or Room()).filled(item for _, item in found[: self.limit])
        last = found[len(here) - 1][0] if here else self.cursor
        return o.Page(here, last if len(found) > len(here) else None)


# How a body is read


async def decoded(request: Request, kind: type[T]) -> T:
    """The JSON body of a request, which has been read up to its bound; no body is an empty object."""
    body = request.state.body or b"{}"
    try:
        if len(body) <= LARGE_BYTES:
            return msgspec.json.decode(body, type=kind)
        aside: Callable[[Callable[[], T]], Awaitable[T]] = request.state.aside
        return await aside(lambda: msgspec.json.decode(body, type=kind))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(f"The body is not valid: {error}.", hint="Send JSON with the keys of this call.") from None


# Who asks, and what a path names


MOST_WRONG, LEAST_COMPARED = 2, 6


def new_id() -> str:
    """An id for something new, in the form of an EventId (B03)."""
    return str(uuid4()).upper()


def actor_of(request: Request) -> str:
    """Who asks, as the journal remembers it; the gate has written it down."""
    return str(request.state.actor)


class _HasId(Protocol):
    @property
    def id(self) -> str:
        """What people write to name it; the beginning is enough if no other begins like it."""


Thing = TypeVar("Thing", bound=_HasId)


def by_id(things: Iterable[Thing], text: str, what: str) -> Thing:
    """The one thing whose id is this or begins with it."""
    wanted, known = canonical_id(text), list(things)
    found = [thing for thing in known if thing.id.startswith(wanted.upper())]
    exact = [thing for thing in found if thing.id == wanted]
    if not found:
        near = _near(wanted.upper(), (thing.id for thing in known))
        there_is_none = f"There is no {what} {text}."
        if near:
            raise NotFound(there_is_none, hint=f"Did you mean {near}?")
        raise NotFound(there_is_none, look_at=LookAt(f"{what}s"))
    if len(found) > 1 and not exact:
        raise Conflict(f"{len(found)} {what}s begin with {text}.", hint="Give more of the id.")
    return (exact or found)[0]


def _near(text: str, ids: Iterable[str]) -> str:
    """The beginning of the id that differs in a letter or two; shorter texts are near to too many."""
    shortened = ((sum(map(ne, text, each)), each[: len(text)]) for each in islice(ids, MOST_COMPARED))
    letters, near = min(shortened, default=(len(text), ""))
    return near if letters <= MOST_WRONG and len(text) >= LEAST_COMPARED else ""


def vm_named(state: State, name: str) -> Vm:
    """A VM of the fleet."""
    vm = state.fleet.vms.get(name)
    if vm is None:
        raise missing(f"There is no VM named {name!r}.", name, state.fleet.vms, LookAt.VMS)
    return vm
