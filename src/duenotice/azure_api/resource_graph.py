"""The call of Resource Graph: a query over all events, present and past, in pages (M12)."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field
from starlette.requests import Request
from starlette.responses import Response

from duenotice.azure_api.calls import AzureCall, AzureResource
from duenotice.azure_api.graph_query import GraphQuery, InvalidQuery, parse
from duenotice.azure_api.graph_rows import COLUMNS, rows_of
from duenotice.azure_api.graph_steps import Row, column_type
from duenotice.azure_api.shape import JSON, AzureJson, AzureProblem, encode, read
from duenotice.azure_api.sign_in import TENANT
from duenotice.clock import monotonic
from duenotice.domain.state import State
from duenotice.domain.token import Role
from duenotice.engine.engine import Engine
from duenotice.engine.event_traces import EventTrace, lives_of
from duenotice.errors import Unavailable

PATH = "/providers/Microsoft.ResourceGraph/resources"
MOST = 1000
"""Rows of one page, and how many it has by default."""
PATIENCE_SECONDS = 20.0
_ASK_EVERY = 1024


_Rows = Annotated[int, Meta(ge=0, le=1_000_000_000)]


class QueryOptions(Struct, frozen=True, rename="camel"):
    """How the answer is wanted; other options of Azure change nothing here."""

    skip_token: str | None = field(default=None, name="$skipToken")
    top: Annotated[int, Meta(ge=1, le=MOST)] | None = field(default=None, name="$top")
    skip: _Rows | None = field(default=None, name="$skip")
    result_format: str | None = None


class QueryAsked(Struct, frozen=True):
    """The body of a query; without `subscriptions` all are meant."""

    query: str
    subscriptions: tuple[str, ...] | None = None
    options: QueryOptions | None = None


class TableColumnShown(AzureJson, frozen=True):
    """A column of an answer in the form of a table."""

    name: str
    type: str


class TableShown(AzureJson, frozen=True):
    """An answer in the form of a table."""

    columns: tuple[TableColumnShown, ...]
    rows: tuple[tuple[object, ...], ...]


class QueryAnswer(AzureJson, frozen=True):
    """One page of rows."""

    total_records: int
    count: int
    data: TableShown | list[Row]
    result_truncated: str
    facets: tuple[()] = ()
    skip_token: str | UnsetType = field(default=UNSET, name="$skipToken")


class _Place(Struct, frozen=True, array_like=True):
    """Where the next page begins, and how many rows it has."""

    skip: _Rows
    top: Annotated[int, Meta(ge=1, le=MOST)]


class ResourceGraph(AzureResource):
    """Events as rows."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._lives = lives_of(engine)

    def calls(self) -> list[AzureCall]:
        """The rows of the table."""
        return [AzureCall("POST", PATH, Role.VIEWER, self.resources)]

    async def resources(self, request: Request) -> Response:
        """A page of what a query gives; it is worked out off the loop that answers VMs (S26)."""
        asked = await read(request, QueryAsked)
        options = asked.options or QueryOptions()
        query, place, as_table = _query(asked.query), _place(options), _is_table(options)
        known = await self._lives.traces(self._engine)
        traces = known.all() if self._means_here(asked) else ()
        until = monotonic() + PATIENCE_SECONDS

        def look(state: State) -> bytes:
            rows = query.run(rows_of(_patient(traces, until), state.fleet.site, TENANT))
            return encode(_answer(rows, query, place, as_table))

        return Response(await self._engine.look(look), media_type=JSON)

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
    last = _Place(0, MOST)
    if options.skip_token:
        try:
            last = msgspec.json.decode(urlsafe_b64decode(options.skip_token), type=_Place)
        except (ValueError, msgspec.MsgspecError):
            message = "The $skipToken is not one of ours."
            raise AzureProblem.of(
                400, "InvalidParameter", message, hint="Take it from an answer.", target="$skipToken"
            ) from None
    return _Place(last.skip if options.skip is None else options.skip, options.top or last.top)


def _patient(traces: Iterable[EventTrace], until: float) -> Iterator[EventTrace]:
    """All of them, unless it takes longer than anybody waits."""
    for number, trace in enumerate(traces):
        if number % _ASK_EVERY == 0 and monotonic() > until:
            raise Unavailable("The query takes too long.", hint="There are very many events; ask again later.")
        yield trace


def _answer(rows: Iterator[Row], query: GraphQuery, place: _Place, as_table: bool) -> QueryAnswer:
    skipped = sum(1 for _ in islice(rows, place.skip))
    page = list(islice(rows, place.top))
    behind = sum(1 for _ in rows)
    following = _Place(place.skip + len(page), place.top)
    token = urlsafe_b64encode(encode(following)).decode() if behind else UNSET
    return QueryAnswer(
        total_records=skipped + len(page) + behind,
        count=len(page),
        data=_table(page, query.columns) if as_table else page,
        result_truncated="false",
        skip_token=token,
    )


def _table(page: list[Row], names: tuple[str, ...]) -> TableShown:
    columns = tuple(TableColumnShown(name, column_type(page, name)) for name in names)
    return TableShown(columns, tuple(tuple(row.get(name) for name in names) for row in page))
