"""What every page of the console is made with: the visit it answers, and the row that says where it is."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp

from duenotice.bounds import LARGE_BYTES, SMALL, CallBounds, body_of, form_fields
from duenotice.client.operator.client import AsyncOperatorClient
from duenotice.client.operator.errors import Denied, UnknownToken
from duenotice.console.attention import open_plans
from duenotice.errors import Conflict, DuenoticeError, Malformed, NotFound, Refused, TooLarge, Unavailable
from duenotice.wire.operator import ROLES, Attention, Clock, Token

SAID = "duenotice_said"
"""The cookie with a message about what was done.

It is not in the address, where another site could put its own message.
"""

SAID_SECONDS = 20
METADATA = ("169.254.169.254", 80)
"""Where VMs ask when nothing else is said."""

STATUS: dict[type[DuenoticeError], int] = {
    TooLarge: 413,
    Malformed: 400,
    UnknownToken: 401,
    Denied: 403,
    NotFound: 404,
    Conflict: 409,
    Refused: 422,
    Unavailable: 503,
    DuenoticeError: 500,
}


def status_of(error: DuenoticeError) -> int:
    """The status of a page that says what is wrong: that of the operator's API."""
    return next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)


class Visit(NamedTuple):
    """One request of a visitor who has signed in."""

    request: Request
    client: AsyncOperatorClient
    api: ASGIApp
    """The operator's API, asked with the visitor's token by what goes on when the visitor has signed out."""
    me: Token
    clock: Clock
    position: int
    render: Callable[..., str]
    fleet_problem: str | None = None
    attention: Attention | None = None
    vms_ask: tuple[str, int] = METADATA

    @property
    def now(self) -> datetime:
        """The time on the service's clock."""
        return self.clock.now

    @property
    def is_refresh(self) -> bool:
        """Whether an open page asks for its changed parts."""
        return "x-part" in self.request.headers

    def may(self, role: str) -> bool:
        """Whether the visitor's token is enough for a role."""
        return ROLES.index(self.me.role) >= ROLES.index(role)

    def query(self, name: str, default: str = "") -> str:
        """A parameter of the address."""
        return self.request.query_params.get(name, default)

    def name(self, key: str) -> str:
        """A part of the path."""
        return str(self.request.path_params[key])

    def page(self, template: str, title: str, live: str = "", status: int = 200, **values: object) -> Response:
        """A whole page; `live` names the changes after which the page is loaded again."""
        kind, _, text = unquote(self.request.cookies.get(SAID, "")).partition(" ")
        url = self.request.url
        common = {
            "title": title,
            "live": live,
            "every": "",
            "path": url.path,
            "back": f"{url.path}?{url.query}" if url.query else url.path,
            "me": self.me,
            "clock": self.clock,
            "now": self.now,
            "may": self.may,
            "said": text if kind == "said" else "",
            "failed": text if kind == "failed" else "",
            "position": self.position,
            "fleet_problem": self.fleet_problem,
            **self._open(),
        }
        response = HTMLResponse(self.render(template, **common | values), status)
        if text and not self.is_refresh:
            response.delete_cookie(SAID)
        return response

    def refusal(self, status: int, title: str, hint: str) -> Response:
        """A page that says what is wrong, and what to do."""
        return self.page("refusal.html", title, status=status, frame="base.html", hint=hint)

    def parts(self, template: str, **values: object) -> Response:
        """Pieces of a page, to be put in place of those with the same ids."""
        common = {"now": self.now, "may": self.may, "clock": self.clock, **self._open()}
        return HTMLResponse(self.render(template, **common | values))

    def _open(self) -> dict[str, object]:
        """What all pages tell: how many things need a person, and the plans that are not over."""
        seen = self.attention
        return {"needed": seen.needed if seen else 0, "open_plans": open_plans(seen), "attention": seen}

    async def done(self, path: str, act: Callable[[], Awaitable[object]], said: str) -> Response:
        """Do what a form asks for and go to a page that shows the result. Without the role it is refused at once."""
        try:
            await act()
        except Denied:
            raise
        except DuenoticeError as problem:
            return go(path, failed=f"{problem.message} {problem.hint}")
        return go(path, said=said)


async def form_of(request: Request) -> dict[str, str]:
    """The fields of a form; the row of its page bounds it."""
    return dict(await fields_of(request))


async def fields_of(request: Request) -> list[tuple[str, str]]:
    """The same for a form in which a name may stand more than once."""
    bounds: CallBounds = request.state.bounds
    body = await body_of(request.receive, request.headers.get("content-length", ""), bounds)
    if len(body) > LARGE_BYTES:
        fields = await asyncio.to_thread(form_fields, body, bounds.fields)
    else:
        fields = form_fields(body, bounds.fields)
    return [(name, value) for name, value in fields if value]


class PageRoute(NamedTuple):
    """One method of one path, who may ask for it, and what it may cost.

    Pages are put together in the workroom, unless they have to stay `at_home`.
    """

    method: str
    path: str
    handler: Callable[[Visit], Coroutine[Any, Any, Response]]
    role: str = "viewer"
    bounds: CallBounds = SMALL
    at_home: bool = False


def go(path: str, said: str = "", failed: str = "") -> Response:
    """Redirect to another page, with a message about what was done."""
    response = RedirectResponse(path, 303)
    if text := f"failed {failed}" if failed else f"said {said}" if said else "":
        response.set_cookie(SAID, quote(text[:1000]), SAID_SECONDS, httponly=True, samesite="strict")
    return response
