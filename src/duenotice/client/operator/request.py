"""One call of the operator's API as a value: what to send, and the type of its answer. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Generic, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from duenotice import __version__
from duenotice.errors import Malformed
from duenotice.http.http1 import Request
from duenotice.wire.operator import Page

if TYPE_CHECKING:
    from duenotice.wire.operator.words import RequestBody

T = TypeVar("T")
_AGENT = f"duenotice/{__version__}"

QueryValue = str | int | bool | datetime | None
"""None and an empty text are left out."""

SpanToGive = str | timedelta
"""A span of time: `30s`, `1h30m`, or a timedelta."""


@dataclass(frozen=True, slots=True)
class OperatorRequest(Generic[T]):
    """`kind` is the type of the answer: a struct, `bytes` for the answer as it is, or NoneType when there is none.

    A request with a `key` is done once however often it is sent (S6), if it `takes_key`; without one only a GET may be
    sent again.
    """

    method: str
    target: str
    kind: type[T]
    body: bytes = b""
    media: str = "application/json"
    takes_key: bool = False
    key: str = ""
    last_event_id: str = ""

    @property
    def may_be_repeated(self) -> bool:
        """Whether sending it twice does no more than sending it once."""
        return self.method == "GET" or bool(self.key)

    def to_http(self, token: str) -> Request:
        """As it goes to the service."""
        headers = {"Accept-Encoding": "identity"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        headers["User-Agent"] = _AGENT
        if self.body:
            headers["Content-Type"] = self.media
        if self.key:
            headers["Idempotency-Key"] = self.key
        if self.last_event_id:
            headers["Last-Event-ID"] = self.last_event_id
        return Request(self.method, self.target, headers, self.body)


class ListRequest(Generic[T]):
    """A long list, which is asked for one page at a time; `kind` is what is on it."""

    def __init__(self, kind: type[T], *path: str, **query: QueryValue) -> None:
        self._kind, self._path, self._query = kind, path, query

    def page(self, cursor: str, limit: int) -> OperatorRequest[Page[T]]:
        """The page behind a cursor, or the first one."""
        kind: type[Page[T]] = Page[self._kind]  # type: ignore[name-defined]
        return get(kind, *self._path, **self._query, limit=limit, cursor=cursor)


def target(*path: str, **query: QueryValue) -> str:
    """`/v1/…` from parts that may contain any characters; `from_` is written `from`, `api_version` `api-version`."""
    return "/v1/" + "/".join(quote(part, safe="", errors="replace") for part in path) + _query(query)


def _query(query: Mapping[str, QueryValue]) -> str:
    given = {_parameter(name): _text(value) for name, value in query.items() if value not in (None, "")}
    return "?" + urlencode(given, errors="replace") if given else ""


def _parameter(name: str) -> str:
    return {"api_version": "api-version"}.get(name, name.rstrip("_"))


def _text(value: QueryValue) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value).lower() if isinstance(value, bool) else str(value)


def get(kind: type[T], *path: str, **query: QueryValue) -> OperatorRequest[T]:
    """Ask for something."""
    return OperatorRequest("GET", target(*path, **query), kind)


def probe(kind: type[T], path: str, **query: QueryValue) -> OperatorRequest[T]:
    """Ask for something outside of `/v1`."""
    return OperatorRequest("GET", path + _query(query), kind)


def post(
    kind: type[T], *path: str, body: "RequestBody | None" = None, once: bool = False, **query: QueryValue
) -> OperatorRequest[T]:
    """Do something; with `once` it gets no key, because the service does not remember its answer."""
    return OperatorRequest("POST", target(*path, **query), kind, _json(body), takes_key=not once)


def put(
    kind: type[T], *path: str, body: "RequestBody | None" = None, toml: str | bytes = b"", **query: QueryValue
) -> OperatorRequest[T]:
    """Replace what is there, by JSON or by TOML."""
    if body is not None:
        return OperatorRequest("PUT", target(*path, **query), kind, _json(body))
    text = toml.encode() if isinstance(toml, str) else toml
    return OperatorRequest("PUT", target(*path, **query), kind, text, "application/toml")


def delete(*path: str) -> OperatorRequest[None]:
    """Remove something."""
    return OperatorRequest("DELETE", target(*path), type(None))


def format_span(span: SpanToGive) -> str:
    """A span of time as the service reads it."""
    return span if isinstance(span, str) else f"{span.total_seconds():f}s"


def _json(body: "RequestBody | None") -> bytes:
    try:
        return b"" if body is None else msgspec.json.encode(body)
    except UnicodeEncodeError:  # half a character, as Python reads bytes of a shell that are not UTF-8
        raise Malformed("A text in the request is not Unicode.", hint="Is it written in UTF-8?") from None
