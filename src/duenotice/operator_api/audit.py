"""The calls of what has happened: the audit trail, the history of one event, and the live feed."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from duenotice.bounds import PAGE_BYTES
from duenotice.domain.records import Record
from duenotice.domain.token import Role
from duenotice.engine.engine import Engine
from duenotice.errors import Conflict, LookAt, Malformed, NotFound
from duenotice.operator_api.answers import JSON, Resource, encode
from duenotice.operator_api.calls import EVENT, LAST, Call, Paging, Parameter, limit_of, number, place_of
from duenotice.operator_api.feed import Feed, FeedResponse
from duenotice.operator_api.history import moment_of
from duenotice.toml import near_miss
from duenotice.wire import operator as o
from duenotice.wire.documents import canonical_id
from duenotice.wire.operator import from_domain
from duenotice.wire.operator.from_domain import action_of, event_id_of

READ_AT_ONCE = 500
"""Records per look into the journal."""

MOST_AT_ONCE = 4
"""Pages that are made at the same time."""

Entry = tuple[int, bytes | None]
"""A record's position, and the record in JSON if it is wanted."""

EARLIEST, LATEST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
SET_BACK = timedelta(minutes=5)
"""By how much the time of a record may be before that of an older one, when a clock was set."""

LOOKED_THROUGH = 20_000
"""Records that one page of the audit trail may search; the next page goes on from there."""


_EVENT = re.compile(EVENT)
_CURSOR = Parameter("cursor", {"type": "string", "pattern": "^[0-9]{0,15}$"})
"""A cursor that is a position."""


class Audit(Resource):
    """The records of the journal."""

    def __init__(self, engine: Engine, feed: Feed) -> None:
        super().__init__(engine)
        self._feed = feed
        self._turns = asyncio.Semaphore(MOST_AT_ONCE)

    def calls(self) -> list[Call]:
        """The rows of the table."""
        viewer, page, feed = Role.VIEWER, {200: o.Page[o.Record]}, {200: "text/event-stream"}
        query = ("actor", "action", "event", "from", "to", "after", "before", _CURSOR, "limit")
        about, live = "What has happened, oldest first unless `before` is given", "What happens, as server-sent events"
        history = "/v1/events/{id}/history"
        return [
            Call("GET", "/v1/audit", viewer, self.audit, about, page, None, query, (503,)),
            Call("GET", "/v1/feed", viewer, self.live, live, feed, None, ("after",), (429, 503)),
            Call(
                "GET",
                history,
                viewer,
                self.history,
                "What happened to an event",
                page,
                None,
                (_CURSOR, "limit"),
                (503,),
            ),
        ]

    async def audit(self, request: Request) -> Response:
        """A page of records; with a rare actor or action a page may be short and still have a `next`."""
        if not _EVENT.fullmatch(event := request.query_params.get("event", "")):
            hint = "Use digits, letters A to F and dashes."
            raise Malformed(f"{event[:40]!r} is not the beginning of an id.", hint=hint)
        if (action := request.query_params.get("action", "")) not in ("", *o.ACTIONS):
            raise Malformed(f"{action[:40]!r} is not an action.", hint=near_miss(action[:40], o.ACTIONS, "actions"))
        backwards = bool(request.query_params.get("before"))
        limit, after, before = limit_of(request), *(number(request, key, 0, 0, LAST) for key in ("after", "before"))
        begin = before if backwards else after
        if request.query_params.get("cursor"):  # empty is the first page, as everywhere
            begin = number(request, "cursor", begin, 0, LAST)
        async with self._turns:  # each may hold some megabytes
            times = await self._times(request)
            begin = min(begin, times.to) if backwards else max(begin, times.since)
            return await self._found(Wish(request.query_params, times), begin, backwards, limit)

    async def _times(self, request: Request) -> "Times":
        """Where in the journal the times are that a request asks for; a clock may have been set back a little."""
        since, until = moment_of(request, "from", EARLIEST), moment_of(request, "to", LATEST)
        to = self._feed.position + 1
        return Times(
            since,
            until,
            0 if since == EARLIEST else await self._at(since - min(SET_BACK, since - EARLIEST)),
            to if until == LATEST else min(to, await self._at(until + min(SET_BACK, LATEST - until)) + 1),
        )

    async def _at(self, moment: datetime) -> int:
        """The position of the last record before a moment, found by halving: times grow with positions."""
        low, high = self._engine.remembers_from - 1, self._feed.position
        while low < high:
            middle = (low + high + 1) // 2
            found = await self._engine.history_as(middle - 1, 1, lambda record: record.at)
            low, high = (middle, high) if found and found[0] < moment else (low, middle - 1)
        return low

    async def _found(self, wish: "Wish", begin: int, backwards: bool, limit: int) -> Response:
        """The first records that are wanted, in bytes as soon as they are read: a whole fleet may be in one of them."""
        last, found, size, convert = begin, list[bytes](), 0, partial(_entry, wish)
        async for position, text in (self._before if backwards else self._after)(begin, convert):
            if not wish.times.since < position < wish.times.to:
                break
            size += 0 if text is None else len(text) + 1
            is_full = len(found) == limit or (size > PAGE_BYTES and found and text is not None)
            if is_full or abs(position - begin) > LOOKED_THROUGH:
                return _page(found, str(last))
            last = position
            if text is not None:
                found.append(text)
        return _page(found, None)

    async def history(self, request: Request) -> Response:
        """All records of one event, also when it is gone."""
        wanted = canonical_id(request.path_params["id"]).upper()
        found = await self._engine.history_of(wanted, READ_AT_ONCE)
        ids = {event_id_of(record) for record in found}
        if not ids:
            raise NotFound(f"There is no event {wanted} {self._since()}.", look_at=LookAt.AUDIT)
        if len(ids) > 1:
            raise Conflict(f"Several events begin with {wanted}.", hint="Give more of the id.")
        after = place_of(request)
        paging = Paging(limit_of(request), f"{after:015d}")
        return await self._written(lambda: paging.page(found, _key, from_domain.record))

    def _since(self) -> str:
        oldest = self._engine.remembers_from
        return "and never was one" if oldest == 1 else f"since record {oldest}; older ones are not kept in memory"

    async def live(self, request: Request) -> Response:
        """From the position named on, or from now."""
        after = number(request, "after", self._feed.position, 0, LAST)
        last = request.headers.get("last-event-id", "")
        if last.isascii() and last.isdigit() and len(last) <= 18:
            after = int(last)
        return FeedResponse(self._feed, after, request.state.token.id)

    async def _after(self, after: int, convert: Callable[[Record], Entry]) -> AsyncIterator[Entry]:
        while entries := await self._engine.history_as(after, READ_AT_ONCE, convert):
            for entry in entries:
                yield entry
            after = entries[-1][0]

    async def _before(self, before: int, convert: Callable[[Record], Entry]) -> AsyncIterator[Entry]:
        while before > 1:
            begin = max(0, before - 1 - READ_AT_ONCE)
            for entry in reversed(await self._engine.history_as(begin, before - 1 - begin, convert)):
                yield entry
            before = begin + 1


class Times(NamedTuple):
    """A span of time, and the positions between which its records are, both left out."""

    first: datetime
    last: datetime
    since: int
    to: int


class Wish(NamedTuple):
    """Which records a request asks for."""

    query: Mapping[str, str]
    times: Times


def _entry(wish: Wish, record: Record) -> Entry:
    wanted = wish.times.first <= record.at <= wish.times.last and _is_wanted(record, wish.query)
    return record.position, encode(from_domain.record(record)) if wanted else None


def _key(record: Record) -> str:
    return f"{record.position:015d}"


def _page(items: list[bytes], cursor: str | None) -> Response:
    body = b'{"items":[%b],"next":%b}' % (b",".join(items), encode(cursor))
    return Response(body, media_type=JSON)


def _is_wanted(record: Record, query: Mapping[str, str]) -> bool:
    what, actor, action, event = action_of(record), *(query.get(key, "") for key in ("actor", "action", "event"))
    return (
        actor in ("", record.actor, record.actor.partition("/")[2])
        and (what == action if action else not from_domain.is_quiet(record))
        and (not event or (event_id_of(record) or "").startswith(event.upper()))
    )
