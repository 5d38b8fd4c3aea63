"""One row per call of the operator's API: how it is asked for, who may, what it reads and what it is for."""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from duenotice.domain.token import Role

Handler = Callable[[Request], Awaitable[Response]]


class Parameter(NamedTuple):
    """A parameter of a query whose schema is not the one that its name has elsewhere."""

    name: str
    schema: dict[str, Any]


class Call(NamedTuple):
    """One method of one path; `role` None is anybody, `query` has the parameters it knows.

    `body` is the type of its JSON, or the media types of something else. `answers` has for each status of success
    the type of its JSON, a media type of something else, several of these, or None when there is no body. `refusals`
    are statuses beyond those that follow from the rest, see `openapi.refusals`.
    """

    method: str
    path: str
    role: Role | None
    handler: Handler
    summary: str
    body: Any = None
    query: tuple[str | Parameter, ...] = ()
    answers: Mapping[int, Any] = MappingProxyType({200: Any})
    refusals: tuple[int, ...] = ()
