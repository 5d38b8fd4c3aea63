"""What every page is made with: the request of a signed-in visitor, its form, rows by page, and things done to many."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, unquote

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp

from duenotice.bounds import FORM_FIELDS, LARGE_BYTES, SMALL, CallBounds, body_of, form_fields
from duenotice.client.operator.client import AsyncOperatorClient
from duenotice.client.operator.errors import Denied, UnknownToken
from duenotice.console.attention import open_plans
from duenotice.errors import Conflict, DuenoticeError, LookAt, Malformed, NotFound, Refused, TooLarge, Unavailable
from duenotice.wire.operator import ROLES, Attention, Clock, EventTable, Token, VmTable

FLASH_COOKIE = "duenotice_flash"
"""A message about what was done. It is not in the address, where another site could put its own message."""

FLASH_SECONDS = 20
METADATA_ADDRESS = ("169.254.169.254", 80)
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


def refusal_text(error: DuenoticeError) -> str:
    """What a form says that was refused; who has not the role gets a page that says so instead."""
    if isinstance(error, Denied):
        raise error
    return f"{error.message} {error.hint}"


class Flash(NamedTuple):
    """A message about what was done, shown once: `kind` is done or failed."""

    kind: str
    text: str


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
    metadata_address: tuple[str, int] = METADATA_ADDRESS

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
        kind, _, text = unquote(self.request.cookies.get(FLASH_COOKIE, "")).partition(" ")
        flash = Flash(kind, text if kind in ("done", "failed") else "")
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
            "flash": flash,
            "position": self.position,
            "fleet_problem": self.fleet_problem,
            **self._attention(),
        }
        response = HTMLResponse(self.render(template, **common | values), status)
        if flash.text and not self.is_refresh:
            response.delete_cookie(FLASH_COOKIE)
        return response

    def refusal(self, status: int, title: str, hint: str) -> Response:
        """A page that says what is wrong, and what to do."""
        return self.page("refusal.html", title, status=status, frame="base.html", hint=hint)

    def parts(self, template: str, **values: object) -> Response:
        """Pieces of a page, to be put in place of those with the same ids."""
        common = {"now": self.now, "may": self.may, "clock": self.clock, **self._attention()}
        return HTMLResponse(self.render(template, **common | values))

    def _attention(self) -> dict[str, object]:
        """What all pages tell: how many things need a person, and the plans that are not over."""
        seen = self.attention
        return {"needed": seen.needed if seen else 0, "open_plans": open_plans(seen), "attention": seen}

    async def submit(self, path: str, act: Callable[[], Awaitable[object]], done: str) -> Response:
        """Do what a form asks for and go to a page that shows the result. Without the role it is refused at once."""
        try:
            await act()
        except DuenoticeError as problem:
            return redirect(path, failed=refusal_text(problem))
        return redirect(path, done=done)


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

    What is read is put together on the render thread, unless it has to stay `on_main_loop`.
    """

    method: str
    path: str
    handler: Callable[[Visit], Coroutine[Any, Any, Response]]
    role: str = "viewer"
    bounds: CallBounds = SMALL
    on_main_loop: bool = False


def redirect(path: str, done: str = "", failed: str = "") -> Response:
    """To another page, with a message about what was done."""
    response = RedirectResponse(path, 303)
    if text := f"failed {failed}" if failed else f"done {done}" if done else "":
        response.set_cookie(FLASH_COOKIE, quote(text[:1000]), FLASH_SECONDS, httponly=True, samesite="strict")
    return response


ROWS = 100
Table = TypeVar("Table", EventTable, VmTable)


class ShownRows(NamedTuple):
    """Which rows are shown, and of how many."""

    page: int
    total: int
    size: int = ROWS

    @property
    def pages(self) -> int:
        """There is always one, if only an empty one."""
        return max(1, -(-self.total // self.size))

    @property
    def first(self) -> int:
        """The number of the first row that is shown."""
        return min((self.page - 1) * self.size + 1, self.total)

    @property
    def last(self) -> int:
        """The number of the last row that is shown."""
        return min(self.page * self.size, self.total)


def page_of(visit: Visit) -> int:
    """Which page; what is not a number is the first."""
    text = visit.query("page")
    return max(1, int(text)) if text.isascii() and text.isdigit() and len(text) < 7 else 1


async def whole_page(page: int, ask: Callable[[int, int], Awaitable[Table]]) -> Table:
    """All rows of a page, asked for by offset and number: an answer ends at its bytes, and the next goes on there."""
    begin = (page - 1) * ROWS
    found: Table = await ask(begin, ROWS)
    while len(found.items) < min(ROWS, found.total - begin):
        more: Table = await ask(begin + len(found.items), ROWS - len(found.items))
        if not more.items:
            break  # there are fewer by now
        found = replace(found, items=(*found.items, *more.items))
    return found


MOST_CHOSEN = 500
TABLE_FORM = CallBounds(fields=MOST_CHOSEN + FORM_FIELDS)
"""What the form of a table may be: its rows that were chosen, and what is to be done."""
BULK_CONCURRENCY = 20
"""How many are under way at the same time; the service stores those in one batch."""


class BulkResult(NamedTuple):
    """How many were done, and the others with the reason in the words of the service."""

    done: int
    refused: tuple[tuple[str, str], ...]
    answers: tuple[object, ...] = ()


async def chosen_rows(visit: Visit) -> tuple[list[str], dict[str, str]]:
    """The rows that a form names, each once, and its other fields."""
    fields = await fields_of(visit.request)
    rows = [value for name, value in fields if name == "row"]
    return list(dict.fromkeys(rows)), {name: value for name, value in fields if name != "row"}


async def bulk_action(rows: Sequence[str], do: Callable[[str], Awaitable[object]]) -> BulkResult:
    """Do it to each; who may not do it at all is refused as a whole."""
    limit = asyncio.Semaphore(BULK_CONCURRENCY)
    answers: list[object] = []

    async def one(row: str) -> str:
        async with limit:
            try:
                answers.append(await do(row))
            except DuenoticeError as problem:
                return refusal_text(problem)
        return ""

    refusals = await asyncio.gather(*map(one, rows))
    refused = tuple((row, why) for row, why in zip(rows, refusals, strict=True) if why)
    return BulkResult(len(answers), refused, tuple(answers))


_PATH_OF_OURS = re.compile(r"/(?![/\\])[^\\\x00-\x1f\x7f]*")


def safe_path(path: str) -> str:
    """A path of the console. If a browser could read it as another site, it is the front page."""
    return path if _PATH_OF_OURS.fullmatch(path) else "/"


PAGE_OF_LIST = {
    LookAt.VMS: "The page Fleet",
    LookAt.GROUPS: "The page Fleet",
    LookAt.HOSTS: "The page Hosts",
    LookAt.EVENTS: "The page Events",
    LookAt.MAINTENANCES: "The page Maintenance",
    LookAt.SUBSCRIPTIONS: "The page Push",
    LookAt.AUDIT: "The page Audit",
    LookAt.TOKENS: "The page Tokens",
}


def with_page_hint(error: DuenoticeError) -> DuenoticeError:
    """The error with a hint that names a page, where the service's hint names a list."""
    error.hint = error.hint_in(PAGE_OF_LIST)
    return error
