"""One row per call of the operator's API: how it is asked for, who may, what it reads and what it is for."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from duenotice.domain.token import Role

Handler = Callable[[Request], Awaitable[Response]]


class Call(NamedTuple):
    """One method of one path; `role` None is anybody, `body` the type of its JSON, `query` the parameters it knows."""

    method: str
    path: str
    role: Role | None
    handler: Handler
    summary: str
    body: Any = None
    query: tuple[str, ...] = ()
