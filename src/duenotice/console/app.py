"""The console as one ASGI application: which page is where, who may see it, and how a page is put together."""

from collections.abc import Awaitable, Callable
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from duenotice import __version__
from duenotice.client.operator.errors import Denied, UnknownToken
from duenotice.client.operator.streaming import AsyncOperatorClient
from duenotice.console import attention, door, plan_views, words
from duenotice.console.audit_page import AuditPage
from duenotice.console.calendar_page import CalendarPage
from duenotice.console.clock_page import ClockPage
from duenotice.console.event_pages import EventPages
from duenotice.console.fleet_pages import FleetPages
from duenotice.console.hints import with_pages
from duenotice.console.history_page import HistoryPage
from duenotice.console.host_pages import HostPages
from duenotice.console.live import Live
from duenotice.console.maintenance_pages import MaintenancePages
from duenotice.console.node_page import NodePage
from duenotice.console.pages import PageRoute, Visit, form_of, status_of
from duenotice.console.plays import Plays
from duenotice.console.scenario_pages import ScenarioPages
from duenotice.console.subscription_pages import SubscriptionPages
from duenotice.console.timeline_page import TimelinePage
from duenotice.engine.workroom import Workroom
from duenotice.errors import DuenoticeError, NotFound, Unavailable
from duenotice.plain_text import lines

NAVIGATION = (
    ("/", "Fleet"),
    ("/timeline", "Timeline"),
    ("/events", "Events"),
    ("/maintenances", "Maintenance"),
    ("/hosts", "Hosts"),
    ("/subscriptions", "Push"),
    ("/scenarios", "Scenarios"),
    ("/audit", "Audit"),
    ("/history", "History"),
    ("/nodes", "Nodes"),
)
SEE_OTHER = 303


class Console:
    """Brings the pages together, each behind the door."""

    def __init__(self, operator_api: ASGIApp) -> None:
        self._operator_api = operator_api
        self._plays = Plays(operator_api)
        self._workroom = Workroom("console")
        self._templates = Environment(
            loader=PackageLoader("duenotice.console"),
            autoescape=True,
            finalize=words.plain,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters |= words.FILTERS | attention.FILTERS | plan_views.FILTERS
        self._templates.globals |= {"duenotice_version": __version__, "navigation": NAVIGATION}

    def app(self) -> ASGIApp:
        """The ASGI application."""
        rooms = (FleetPages, TimelinePage, EventPages, MaintenancePages, HostPages, AuditPage, NodePage, ClockPage)
        pages: list[PageRoute] = [
            page for room in (CalendarPage, HistoryPage, *rooms, SubscriptionPages, Live) for page in room().pages()
        ]
        pages += ScenarioPages(self._plays).pages()
        by_path: dict[str, dict[str, PageRoute]] = {}
        for page in pages:
            by_path.setdefault(page.path, {})[page.method] = page
        routes: list[BaseRoute] = [
            Route("/sign-in", self._sign_in, methods=["GET", "POST"]),
            Route("/sign-out", self._sign_out, methods=["POST"]),
            Mount("/static", StaticFiles(packages=[("duenotice.console", "static")])),
            *(Route(path, self._behind_the_door(ways), methods=list(ways)) for path, ways in by_path.items()),
        ]
        return door.SafeHeaders(Starlette(routes=routes, exception_handlers={HTTPException: self._on_http_error}))

    async def close(self) -> None:
        """Stop scenarios that are being played."""
        await self._plays.close()
        self._workroom.close()

    def _behind_the_door(self, ways: dict[str, PageRoute]) -> Callable[[Request], Awaitable[Response]]:
        async def visit(request: Request) -> Response:
            if request.method == "POST" and door.is_cross_site(request):
                return self._refusal(403, "This came from another site.", "Use the console's own page.")
            page = ways["GET" if request.method == "HEAD" else request.method]
            try:
                made = page.handler(await self._visit(request, page.method == "GET" and not page.at_home))
                return await (made if page.at_home or page.method != "GET" else self._workroom.do(made))
            except UnknownToken:
                return _to_sign_in(request)
            except Unavailable as problem:
                return Response(lines(problem.message), 503, {"Retry-After": "5"})
            except DuenoticeError as problem:
                # Something that an open page shows is gone: the page says so. It is not an error of the page.
                is_gone = isinstance(problem, NotFound) and "x-part" in request.headers
                return self._refusal(200 if is_gone else status_of(problem), problem.message, problem.hint)

        return visit

    async def _visit(self, request: Request, looks: bool) -> Visit:
        token = door.token_of(request)
        client = AsyncOperatorClient.in_process(self._operator_api, token, explain=with_pages)
        # The position is read first: what happens after it is told live, so nothing is missed.
        me, fleet, clock = await client.me(), await client.fleet(), await client.clock()
        needs = await client.attention() if looks else None
        return Visit(request, client, token, me, clock, fleet.position, self._render, fleet.problem, needs)

    async def _sign_in(self, request: Request) -> Response:
        if request.method != "POST":
            return self._sign_in_page("", door.safe(request.query_params.get("next", "/")))
        if door.is_cross_site(request):
            return self._refusal(403, "This came from another site.", "Open the console itself.")
        form = await form_of(request)
        token, goes_to = form.get("token", "").strip(), door.safe(form.get("next", "/"))
        try:
            await AsyncOperatorClient.in_process(self._operator_api, token).me()
        except Denied:
            return self._sign_in_page("The service does not know this token.", goes_to, 401)
        response = RedirectResponse(goes_to, SEE_OTHER)
        door.sign_in(response, request, token)
        return response

    async def _sign_out(self, request: Request) -> Response:
        if door.is_cross_site(request):
            return self._refusal(403, "This came from another site.", "Open the console itself.")
        response = RedirectResponse("/sign-in", SEE_OTHER)
        door.sign_out(response, request)
        return response

    def _sign_in_page(self, problem: str, goes_to: str, status: int = 200) -> Response:
        return HTMLResponse(self._render("sign_in.html", problem=problem, next=goes_to), status)

    async def _on_http_error(self, _: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        response = self._refusal(
            error.status_code, f"{error.detail}.", "The navigation: the pages listed at the top of each page."
        )
        response.headers.update(error.headers or {})
        return response

    def _refusal(self, status: int, title: str, hint: str) -> Response:
        return HTMLResponse(self._render("refusal.html", status=status, title=title, hint=hint), status)

    def _render(self, template: str, **values: object) -> str:
        return self._templates.get_template(template).render(**values)


def _to_sign_in(request: Request) -> Response:
    asks_for_itself = "x-part" in request.headers or "text/event-stream" in request.headers.get("accept", "")
    if asks_for_itself:
        return Response(status_code=401)  # a page that is open already says so itself
    where = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return RedirectResponse(f"/sign-in?next={quote(where, safe='/')}", SEE_OTHER)
