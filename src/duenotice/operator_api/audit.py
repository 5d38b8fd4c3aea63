"""The routes of what has happened: the audit trail, the history of one event, and the live feed."""

import re
from collections.abc import AsyncIterator, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from duenotice.domain.token import Role
from duenotice.domain.transitions import Record
from duenotice.engine.engine import Engine
from duenotice.errors import Conflict, Malformed, NotFound
from duenotice.operator_api.feed import Feed, FeedResponse
from duenotice.operator_api.looking import written
from duenotice.operator_api.pages import limit_of, number
from duenotice.operator_api.parameters import CURSOR, LAST, QUERY
from duenotice.operator_api.table import Call, Parameter
from duenotice.wire import operator_shapes as shapes
from duenotice.wire.record_json import QUIET, action_of, event_id_of, record_to_json
from duenotice.wire.start_requests_json import canonical_id

READ_AT_ONCE = 1000
"""Records read from the journal at a time: a commit waits no longer than that takes."""

LOOKED_THROUGH = 20_000
"""Records that one page of the audit trail may search; the next page goes on from there."""


_EVENT = re.compile(str(QUERY["event"]["pattern"]))


class Audit:
    """Translates from the journal to JSON."""

    def __init__(self, engine: Engine, feed: Feed) -> None:
        self._engine = engine
        self._feed = feed

    def calls(self) -> list[Call]:
        """The rows of the table."""
        viewer = Role.VIEWER
        query = ("actor", "action", "event", "after", "before", Parameter("cursor", CURSOR), "limit")
        page: dict[str, Any] = {"answers": {200: shapes.Page[shapes.Record]}, "refusals": (503,)}
        feed: dict[str, Any] = {"answers": {200: "text/event-stream"}, "refusals": (429, 503)}
        return [
            Call(
                "GET",
                "/v1/audit",
                viewer,
                self.audit,
                "What has happened, oldest first unless `before` is given",
                query=query,
                **page,
            ),
            Call("GET", "/v1/feed", viewer, self.live, "What happens, as server-sent events", None, ("after",), **feed),
            Call("GET", "/v1/events/{id}/history", viewer, self.history, "What became of an event", **page),
        ]

    async def audit(self, request: Request) -> Response:
        """A page of records; with a rare actor or action a page may be short and still have a `next`."""
        if not _EVENT.fullmatch(event := request.query_params.get("event", "")):
            raise Malformed(
                f"{event[:40]!r} cannot be the beginning of an id.", hint="Use digits, letters A to F and dashes."
            )
        backwards = bool(request.query_params.get("before"))
        limit, after, before = limit_of(request), *(number(request, key, 0, 0, LAST) for key in ("after", "before"))
        begin = before if backwards else after
        if request.query_params.get("cursor"):  # empty is the first page, as everywhere
            begin = number(request, "cursor", begin, 0, LAST)
        if backwards:
            begin = min(begin, self._feed.position + 1)
        last, found = begin, list[Record]()
        async for record in self._records_before(begin) if backwards else self._records(begin):
            if len(found) == limit or abs(record.position - begin) > LOOKED_THROUGH:
                return await self._page(found, str(last))
            last = record.position
            if _is_wanted(record, request.query_params):
                found.append(record)
        return await self._page(found, None)

    async def history(self, request: Request) -> Response:
        """All records of one event, also when it is gone."""
        wanted = canonical_id(request.path_params["id"]).upper()
        found = await self._engine.history_of(wanted, READ_AT_ONCE)
        ids = {event_id_of(record) for record in found}
        if not ids:
            raise NotFound(f"There is no event {wanted} {self._since()}.", hint="GET /v1/audit lists what happened.")
        if len(ids) > 1:
            raise Conflict(f"Several events begin with {wanted}.", hint="Give more of the id.")
        return await self._page(found, None)

    async def _page(self, records: list[Record], cursor: str | None) -> Response:
        def write() -> shapes.Page[shapes.Record]:
            return {"items": [record_to_json(record) for record in records], "next": cursor}

        return await written(self._engine, write)

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

    async def _records(self, after: int) -> AsyncIterator[Record]:
        while records := await self._engine.history(after, READ_AT_ONCE):
            for record in records:
                yield record
            after = records[-1].position

    async def _records_before(self, before: int) -> AsyncIterator[Record]:
        while before > 1:
            begin = max(0, before - 1 - READ_AT_ONCE)
            for record in reversed(await self._engine.history(begin, before - 1 - begin)):
                yield record
            before = begin + 1


def _is_wanted(record: Record, query: Mapping[str, str]) -> bool:
    what, actor, action, event = action_of(record), *(query.get(key, "") for key in ("actor", "action", "event"))
    return (
        actor in ("", record.actor)
        and (what == action if action else what not in QUIET)
        and (not event or (event_id_of(record) or "").startswith(event.upper()))
    )
