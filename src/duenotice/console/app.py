"""The console as one ASGI application: which page is where, who may see it, and how a page is put together."""

from collections.abc import Awaitable, Callable, Coroutine
from functools import cached_property
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from duenotice import __version__
from duenotice.bounds import SIGNING_IN
from duenotice.client.operator.client import AsyncOperatorClient
from duenotice.client.operator.errors import Denied, UnknownToken
from duenotice.console import attention, door, plan_views, words
from duenotice.console.assets import Assets, shrunk
from duenotice.console.audit_page import AuditPage
from duenotice.console.calendar_page import CalendarPage
from duenotice.console.clock_page import ClockPage
from duenotice.console.event_list import EventList
from duenotice.console.event_pages import EventPages
from duenotice.console.fleet_file_pages import FleetFilePages
from duenotice.console.fleet_pages import FleetPages
from duenotice.console.hints import with_pages
from duenotice.console.history_page import HistoryPage
from duenotice.console.host_pages import HostPages
from duenotice.console.live import Live
from duenotice.console.maintenance_pages import MaintenancePages
from duenotice.console.node_page import NodePage
from duenotice.console.pages import METADATA, PageRoute, Visit, form_of, go, status_of
from duenotice.console.plays import Plays
from duenotice.console.scale_set_pages import ScaleSetPages
from duenotice.console.scenario_pages import ScenarioPages
from duenotice.console.search_page import KEYS, SearchPage
from duenotice.console.sessions import Sessions
from duenotice.console.subscription_pages import SubscriptionPages
from duenotice.console.timeline_page import TimelinePage
from duenotice.console.token_pages import TokenPages
from duenotice.console.vm_table import VmActs
from duenotice.engine.workroom import Workroom
from duenotice.errors import DuenoticeError, NotFound, Refused, Unavailable
from duenotice.escape import lines

NAVIGATION = (
    ("/", "Fleet"),
    ("/timeline", "Timeline"),
    ("/events", "Events"),
    ("/maintenances", "Maintenance"),
    ("/hosts", "Hosts"),
    ("/scale-sets", "Scale sets"),
    ("/subscriptions", "Push"),
    ("/scenarios", "Scenarios"),
    ("/audit", "Audit"),
    ("/history", "History"),
    ("/nodes", "Nodes"),
)
MENU = (("/tokens", "Tokens"), ("/fleet-file", "Fleet file"))
"""What admins find in the menu with their name."""

ROOMS = (
    FleetPages,
    CalendarPage,
    TimelinePage,
    EventList,
    EventPages,
    MaintenancePages,
    HostPages,
    SearchPage,
    VmActs,
    AuditPage,
    HistoryPage,
    NodePage,
    ClockPage,
    SubscriptionPages,
    TokenPages,
    ScaleSetPages,
    FleetFilePages,
)
"""Everything that has pages of its own, and needs nothing to make them."""

SEE_OTHER = 303
ABOUT_HTTP = {
    404: ("There is no such page.", "The menu on top has all pages. VMs, hosts and events are found with the search."),
    405: ("This page cannot be used like that.", "Use the buttons of the console."),
    500: ("Something went wrong here.", "The service's log says what. Load the page again, and report it if it stays."),
}
"""What went wrong with a request, in words for people."""


class Console:
    """Brings the pages together, each behind the door."""

    def __init__(
        self,
        operator_api: ASGIApp,
        asked_with: Callable[[ASGIApp, Callable[[], str]], ASGIApp],
        sessions: Sessions,
        vms_ask: Callable[[], tuple[str, int]] = lambda: METADATA,
    ) -> None:
        """`asked_with` gives the API for the holder of a token; `vms_ask` the address that is really served to VMs."""
        self._operator_api, self._asked_with, self._vms_ask = operator_api, asked_with, vms_ask
        self._sessions, self._plays, self.live = sessions, Plays(), Live()
        self._workroom, self._assets = Workroom("console"), Assets()
        self._templates = Environment(
            loader=PackageLoader("duenotice.console"),
            autoescape=True,
            finalize=words.plain,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters |= words.FILTERS | attention.FILTERS | plan_views.FILTERS
        self._templates.globals |= {"duenotice_version": __version__, "navigation": NAVIGATION, "console_keys": KEYS}
        self._templates.globals |= {"static": self._assets.root, "admins_menu": MENU}

    def pages(self) -> list[PageRoute]:
        """The rows of all rooms."""
        pages = [page for room in ROOMS for page in room().pages()]
        return [*pages, *ScenarioPages(self._plays).pages(), *self.live.pages()]

    def app(self) -> ASGIApp:
        """The ASGI application."""
        by_path: dict[str, dict[str, PageRoute]] = {}
        for page in self.pages():
            by_path.setdefault(page.path, {})[page.method] = page
        routes: list[BaseRoute] = [
            Route("/sign-in", self._sign_in, methods=["GET", "POST"]),
            Route("/sign-out", self._sign_out, methods=["POST"]),
            Route("/static/{name}", self._assets.serve),
            Route("/static/{digest}/{name}", self._assets.serve),
            *(Route(path, self._behind_the_door(ways), methods=list(ways)) for path, ways in by_path.items()),
        ]
        handlers = {HTTPException: self._on_http_error, Exception: self._on_failure}
        return door.SafeHeaders(Starlette(routes=routes, exception_handlers=handlers))

    async def close(self) -> None:
        """Stop scenarios that are being played."""
        await self._plays.close()
        await self._sessions.close()
        self._workroom.close()

    def _behind_the_door(self, ways: dict[str, PageRoute]) -> Callable[[Request], Awaitable[Response]]:
        async def visit(request: Request) -> Response:
            if request.method == "POST" and door.is_cross_site(request):
                return self._refusal(403, "This came from another site.", "Use the console's own page.")
            page = ways["GET" if request.method == "HEAD" else request.method]
            visitor: Visit | None = None
            try:
                visitor = await self._visit(request, page.method == "GET" and not page.at_home)
                _check_role(visitor, page.role)
                request.state.bounds = page.bounds
                made = page.handler(visitor)
                return await (
                    made if page.at_home or page.method != "GET" else self._workroom.do(_small(made, request))
                )
            except UnknownToken:
                return _to_sign_in(request)
            except DuenoticeError as problem:
                return self._refused(request, visitor, problem)

        return visit

    def _refused(self, request: Request, visitor: Visit | None, problem: DuenoticeError) -> Response:
        """What is wrong, in the frame of all pages. If a page asks for itself, it says so where it is."""
        asks_for_itself = "x-part" in request.headers
        if isinstance(problem, Unavailable):
            later = {"Retry-After": "5"}
            if asks_for_itself or visitor is None or request.url.path == "/live":
                return Response(lines(problem.message), 503, later)
            response = visitor.refusal(503, problem.message, f"{problem.hint} Then load this page again.")
            response.headers.update(later)
            return response
        # Something that an open page shows is gone: the page says so. It is not an error of the page.
        is_gone = isinstance(problem, NotFound) and asks_for_itself
        status = 200 if is_gone else status_of(problem)
        if visitor is None:
            return self._refusal(status, problem.message, problem.hint)
        return visitor.refusal(status, problem.message, problem.hint)

    async def _visit(self, request: Request, looks: bool) -> Visit:
        secret = door.secret_of(request)
        token = await self._sessions.token_now(secret)
        if token is None:
            raise UnknownToken("Nobody is signed in.", hint="Sign in.")

        def token_id() -> str:
            """Of this moment: an answer that is long ends with its session (S35)."""
            return "" if (known := self._sessions.token_of(secret)) is None else known.id

        api = self._asked_with(self._operator_api, token_id)
        client = AsyncOperatorClient.in_process(api, "", explain=with_pages)
        # The position is read first: what happens after it is told live, so nothing is missed.
        me, fleet, clock = await client.me(), await client.fleet(), await client.clock()
        needs = await client.attention() if looks else None
        lasting = self._asked_with(self._operator_api, lambda: token.id)
        visit = Visit(request, client, lasting, me, clock, fleet.position, self._render, fleet.problem, needs)
        return visit._replace(vms_ask=self._vms_ask())

    async def _sign_in(self, request: Request) -> Response:
        if request.method != "POST":
            return await self._ask_for_token(request)
        if door.is_cross_site(request):
            return self._refusal(403, "This came from another site.", "Open the console itself.")
        request.state.bounds = SIGNING_IN
        try:
            form = await form_of(request)
        except DuenoticeError as problem:
            return self._refusal(status_of(problem), problem.message, problem.hint)
        token, goes_to = form.get("token", "").strip(), door.safe(form.get("next", "/"))
        try:
            me = await AsyncOperatorClient.in_process(self._operator_api, token).me()
            begun = await self._sessions.begin(me.id, f"token/{me.name}", door.secret_of(request))
        except (Denied, NotFound):
            return self._sign_in_page("The service does not know this token.", goes_to, 401)
        except DuenoticeError as problem:
            status = 429 if isinstance(problem, Refused) else status_of(problem)
            return self._sign_in_page(f"{problem.message} {problem.hint}", goes_to, status)
        response = go(goes_to, failed=_alone("You are signed in", begun.problem))
        door.sign_in(response, request, begun.secret)
        return response

    async def _ask_for_token(self, request: Request) -> Response:
        """The form; who comes with a session that has ended is told so."""
        secret, goes_to = door.secret_of(request), door.safe(request.query_params.get("next", "/"))
        ended = bool(secret) and await self._sessions.token_now(secret) is None
        if goes_to == "/" and not ended:
            return HTMLResponse(self._usual_sign_in)  # anybody may ask for it
        return self._sign_in_page("", goes_to, ended=ended)

    @cached_property
    def _usual_sign_in(self) -> str:
        return self._render("sign_in.html", problem="", next="/", ended=False)

    async def _sign_out(self, request: Request) -> Response:
        if door.is_cross_site(request):
            return self._refusal(403, "This came from another site.", "Open the console itself.")
        problem = await self._sessions.end(door.secret_of(request))
        response: Response = RedirectResponse("/sign-in", SEE_OTHER)
        if problem is not None:
            response = self._sign_in_page(_alone("You are signed out", problem), "/")
        door.sign_out(response, request)
        return response

    def _sign_in_page(self, problem: str, goes_to: str, status: int = 200, ended: bool = False) -> Response:
        return HTMLResponse(self._render("sign_in.html", problem=problem, next=goes_to, ended=ended), status)

    async def _on_http_error(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        title, hint = ABOUT_HTTP.get(error.status_code, (f"{error.detail}.", "Use the menu on top."))
        response = await self._refusal_in_frame(request, error.status_code, title, hint)
        response.headers.update(error.headers or {})
        return response

    async def _on_failure(self, request: Request, _: Exception) -> Response:
        title, hint = ABOUT_HTTP[500]
        return await self._refusal_in_frame(request, 500, title, hint)

    async def _refusal_in_frame(self, request: Request, status: int, title: str, hint: str) -> Response:
        """In the frame of all pages for who has signed in, else alone."""
        try:
            visitor = await self._visit(request, looks=False)
        except DuenoticeError:
            return self._refusal(status, title, hint)
        return visitor.refusal(status, title, hint)

    def _refusal(self, status: int, title: str, hint: str) -> Response:
        return HTMLResponse(self._render("refusal.html", frame="bare.html", title=title, hint=hint), status)

    def _render(self, template: str, **values: object) -> str:
        return self._templates.get_template(template).render(**values)


def _alone(what: str, problem: DuenoticeError | None) -> str:
    """What people are told while nothing can be stored, and other nodes do not know."""
    return "" if problem is None else f"{what} at this node alone, until it can be stored. {problem.message}"


async def _small(made: Coroutine[Any, Any, Response], request: Request) -> Response:
    return shrunk(request, await made)


def _check_role(visitor: Visit, needed: str) -> None:
    """Before anything of a form is read (S29)."""
    if not visitor.may(needed):
        what = f"Token {visitor.me.name!r} has the role {visitor.me.role}; this needs {needed}."
        raise Denied(what, hint="Use a token with that role; an admin can create one.")


def _to_sign_in(request: Request) -> Response:
    asks_for_itself = "x-part" in request.headers or "text/event-stream" in request.headers.get("accept", "")
    if asks_for_itself:
        return Response(status_code=401)  # a page that is open already says so itself
    where = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return RedirectResponse(f"/sign-in?next={quote(where, safe='/')}", SEE_OTHER)
