"""The call of Resource Graph: a query over all events, present and past, in pages (M12).

An event is a row of `maintenanceresources`. The answer is bounded in rows, columns and bytes, and so is what a query
keeps and how long it works (S24): a page ends at a number of rows or of bytes, and `$skipToken` goes on behind it.
"""

import asyncio
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field
from starlette.requests import Request
from starlette.responses import Response

from duenotice.azure_api.kql import Forgetful, GraphQuery, InvalidQuery, Row, column_type, parse
from duenotice.azure_api.resource import AzureCall, AzureResource
from duenotice.azure_api.shape import AzureJson, AzureProblem, EncodedResponse, encode, read, too_large
from duenotice.azure_api.sign_in import TENANT
from duenotice.bounds import LONGEST_ITEM, PAGE_BYTES, PAGE_ROWS, PAGES
from duenotice.clock import monotonic
from duenotice.domain.bulk import in_order
from duenotice.domain.event import Phase
from duenotice.domain.fleet import Site, Vm
from duenotice.domain.state import State
from duenotice.domain.token import Role
from duenotice.engine.engine import Engine
from duenotice.engine.event_traces import EventTrace, lives_of
from duenotice.errors import Unavailable
from duenotice.wire.azure import event_resource, target_id

COLUMNS = ("id", "name", "type", "location", "properties", "tenantId", "resourceGroup", "subscriptionId", "zones")


class EventRow(Forgetful):
    """One event as a row. Its values are made when the first is asked for, and may be forgotten again."""

    __slots__ = ("_made", "_site", "_tenant", "_trace", "_vms")

    def __init__(self, trace: EventTrace, site: Site, tenant: str, vms: Mapping[str, Vm]) -> None:
        self._trace, self._site, self._tenant, self._vms = trace, site, tenant, vms
        self._made: dict[str, object] | None = None

    def get(self, name: str) -> object:
        """The value of a column; None if there is none."""
        if name == "zones":  # only when it is asked for: an event may have a thousand VMs, and a query all events
            return _zones(self._trace.event.resources, self._vms)
        if self._made is None:
            self._made = _made(self._trace, self._site, self._tenant)
        return self._made.get(name)

    def forget(self) -> None:
        """Keep none of them."""
        self._made = None


def rows_of(traces: Iterable[EventTrace], site: Site, tenant: str, vms: Mapping[str, Vm]) -> Iterator[EventRow]:
    """All events as rows, in the order in which they were raised: an order that does not change while they live.

    `vms` are those of today: their zones are those of their events.
    """
    return (EventRow(trace, site, tenant, vms) for trace in in_order(traces, key=_raised))


def _raised(trace: EventTrace) -> tuple[float, str]:
    return 0.0 if trace.raised_at is None else trace.raised_at.timestamp(), trace.event.id


def _made(trace: EventTrace, site: Site, tenant: str) -> dict[str, object]:
    event = trace.event.with_(phase=Phase(trace.outcome)) if trace.outcome else trace.event
    resource = event_resource(event, site, trace.reason)
    return {
        **resource,
        "properties": {**resource["properties"], "TargetResourceId": target_id(event, site)},
        "tenantId": tenant,
        "resourceGroup": site.resource_group.lower(),
        "subscriptionId": site.subscription_id,
    }


def _zones(names: Iterable[str], vms: Mapping[str, Vm]) -> list[str] | None:
    return sorted({vm.zone for name in names if (vm := vms.get(name)) is not None and vm.zone is not None}) or None


PATH = "/providers/Microsoft.ResourceGraph/resources"
PATIENCE_SECONDS = 20.0
MOST_ASKING, MOST_OF_ONE = 16, 4
"""Queries that wait or are worked out, of all tokens together and of one. One at a time is worked out."""
_LONGEST_TOKEN = 64
"""Letters of a `$skipToken`."""

_Rows = Annotated[int, Meta(ge=0, le=1_000_000_000)]


class QueryOptions(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """How the answer is wanted. The last two say whose resources are meant: as there is one owner, nothing changes."""

    skip_token: str | None = field(default=None, name="$skipToken")
    top: Annotated[int, Meta(ge=1, le=PAGE_ROWS)] | None = field(default=None, name="$top")
    skip: _Rows | None = field(default=None, name="$skip")
    result_format: str | None = None
    allow_partial_scopes: bool | None = None
    authorization_scope_filter: str | None = None


class QueryAsked(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The body of a query; without `subscriptions` all are meant. What is not answered must be empty (M16)."""

    query: str
    subscriptions: tuple[str, ...] | None = None
    options: QueryOptions | None = None
    management_groups: Annotated[tuple[str, ...], Meta(max_length=0)] | None = None
    facets: Annotated[tuple[object, ...], Meta(max_length=0)] | None = None


class QueryHead(AzureJson, frozen=True):
    """What an answer says beside its rows."""

    total_records: int
    count: int
    result_truncated: str = "false"
    facets: tuple[()] = ()
    skip_token: str | UnsetType = field(default=UNSET, name="$skipToken")


class _Place(Struct, frozen=True, array_like=True):
    """Where the next page begins, and how many rows it has."""

    skip: _Rows
    top: Annotated[int, Meta(ge=1, le=PAGE_ROWS)]


class ResourceGraph(AzureResource):
    """Events as rows."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._lives = lives_of(engine)
        self._asking, self._one_at_a_time = Counter[str](), asyncio.Lock()

    def calls(self) -> list[AzureCall]:
        """The rows of the table."""
        return [AzureCall("POST", PATH, Role.VIEWER, self.resources, PAGES)]

    async def resources(self, request: Request) -> Response:
        """A page of what a query gives; it is worked out off the loop that answers VMs (S26)."""
        asked = await read(request, QueryAsked)
        options = asked.options or QueryOptions()
        place, as_table = _place(options), _is_table(options)
        with self._share_of(request.state.token.id):
            known = await self._lives.traces(self._engine)
            async with self._one_at_a_time:
                traces = known.all() if self._means_here(asked) else ()
                until = monotonic() + PATIENCE_SECONDS

                def look(state: State) -> bytes:
                    query = _query(asked.query)
                    rows = query.run(rows_of(_patient(traces, until), state.fleet.site, TENANT, state.fleet.vms))
                    return _page(rows, query, place, as_table)

                return EncodedResponse(await self._engine.look(look))

    @contextmanager
    def _share_of(self, token_id: str) -> Iterator[None]:
        """A place among those who ask; nobody has all of them."""
        if self._asking.total() >= MOST_ASKING or self._asking[token_id] >= MOST_OF_ONE:
            raise Unavailable("Too many queries are asked at once.", hint="Try again in a moment.")
        self._asking[token_id] += 1
        try:
            yield
        finally:
            self._asking[token_id] -= 1
            self._asking += Counter()  # who asks nothing is forgotten

    def _means_here(self, asked: QueryAsked) -> bool:
        if asked.subscriptions is None:
            return True
        return self._site.subscription_id.lower() in (each.lower() for each in asked.subscriptions)


def _query(text: str) -> GraphQuery:
    try:
        return parse(text, COLUMNS)
    except InvalidQuery as error:
        raise AzureProblem.of(400, "InvalidQuery", error.message, hint=error.hint, target="query") from None


def _is_table(options: QueryOptions) -> bool:
    if options.result_format not in (None, "objectArray", "table"):
        message = f"The format {options.result_format[:40]!r} is not known."
        raise AzureProblem.of(400, "InvalidParameter", message, hint="Use objectArray or table.", target="resultFormat")
    return options.result_format == "table"


def _place(options: QueryOptions) -> _Place:
    """As asked, and where nothing is said as the token of the last page says."""
    last = _Place(0, PAGE_ROWS)
    if options.skip_token:
        try:
            short = options.skip_token if len(options.skip_token) <= _LONGEST_TOKEN else ""
            last = msgspec.json.decode(urlsafe_b64decode(short), type=_Place)
        except (ValueError, msgspec.MsgspecError):
            message = "The $skipToken is not one of ours."
            raise AzureProblem.of(
                400, "InvalidParameter", message, hint="Take it from an answer.", target="$skipToken"
            ) from None
    return _Place(last.skip if options.skip is None else options.skip, options.top or last.top)


def _patient(traces: Iterable[EventTrace], until: float) -> Iterator[EventTrace]:
    """All of them, unless it takes longer than anybody waits."""
    for trace in traces:
        if monotonic() > until:
            raise Unavailable("The query takes too long.", hint="Leave rows out with where, or compare less.")
        yield trace


def _page(rows: Iterator[Row], query: GraphQuery, place: _Place, as_table: bool) -> bytes:
    """The page at a place as JSON. It ends at its number of rows, or before the row that would make it too large."""
    skipped = sum(1 for _ in islice(rows, place.skip))
    page, size, behind, types = list[bytes](), 0, 0, dict[str, str]()
    for row in islice(rows, place.top):
        shown = _row(row, query, as_table, types)
        size += len(shown)
        if page and size > PAGE_BYTES:
            behind = 1
            break
        page.append(shown)
    behind += sum(1 for _ in rows)
    following = _Place(skipped + len(page), place.top)
    token = urlsafe_b64encode(encode(following)).decode() if behind else UNSET
    head = encode(QueryHead(skipped + len(page) + behind, len(page), skip_token=token))
    data = [b"[", b",".join(page), b"]"]
    if as_table:
        columns = [{"name": name, "type": types.get(name, column_type(None))} for name in query.columns]
        data = [b'{"columns":', encode(columns), b',"rows":', *data, b"}"]
    return b"".join((head[:-1], b',"data":', *data, b"}"))


def _row(row: Row, query: GraphQuery, as_table: bool, types: dict[str, str]) -> bytes:
    """One row as JSON, made value by value; a column is of the type of its first value."""
    cells, size = list[bytes](), 0
    for name, value in zip(query.columns, query.cells(row), strict=True):
        cell = encode(value)
        cells.append(cell if as_table else encode(name) + b":" + cell)
        size += len(cells[-1])
        if size > LONGEST_ITEM:
            raise too_large("One row of the answer", LONGEST_ITEM, "Name fewer columns, or properties one by one.")
        if value is not None and name not in types:
            types[name] = column_type(value)
    return b"[%b]" % b",".join(cells) if as_table else b"{%b}" % b",".join(cells)
