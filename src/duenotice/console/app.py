"""The console as one ASGI application: which page is where, who may see it, and how a page is put together."""

from collections.abc import Awaitable, Callable, Coroutine
from functools import cached_property
from typing import Any
from urllib.parse import quote, urlsplit

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from duenotice import __version__
from duenotice.bounds import SIGNING_IN
from duenotice.client.operator.client import AsyncOperatorClient
from duenotice.client.operator.errors import Denied, UnknownToken
from duenotice.console import (
    admin,
    attention,
    audit,
    events,
    fleet,
    formats,
    history,
    maintenance,
    search,
    session,
    timeline,
)
from duenotice.console.assets import Assets, shrunk
from duenotice.console.live import Live
from duenotice.console.scenarios import Scenarios
from duenotice.console.session import Sessions
from duenotice.console.visit import (
    METADATA_ADDRESS,
    TABLE_FORM,
    PageRoute,
    Visit,
    form_of,
    redirect,
    safe_path,
    status_of,
    with_page_hint,
)
from duenotice.engine.threads import LoopThread
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

PAGES = (
    PageRoute("GET", "/", fleet.fleet_page),
    PageRoute("GET", "/groups/{key:path}", fleet.group_page),
    PageRoute("GET", "/parts", fleet.board_parts),
    PageRoute("POST", "/vms", fleet.vms_action, "operator", TABLE_FORM),
    PageRoute("GET", "/vms/{name}", fleet.vm_page),
    PageRoute("POST", "/vms/{name}/{action}", fleet.vm_action, "operator"),
    PageRoute("GET", "/hosts", fleet.hosts_page),
    PageRoute("GET", "/hosts/{name}", fleet.host_page),
    PageRoute("POST", "/hosts/{name}/{action}", fleet.host_action, "operator"),
    PageRoute("GET", "/scale-sets", fleet.scale_sets_page),
    PageRoute("POST", "/scale-sets/{name}/scale", fleet.scale, "operator"),
    PageRoute("POST", "/scale-sets/{name}/delete", fleet.delete_instances, "operator"),
    PageRoute("GET", "/timeline", timeline.timeline_page),
    PageRoute("GET", "/events", events.events_page),
    PageRoute("POST", "/events", events.events_action, "operator", TABLE_FORM),
    PageRoute("GET", "/events/{id}", events.event_page),
    PageRoute("POST", "/events/{id}/{action}", events.event_action, "operator"),
    PageRoute("GET", "/maintenances", maintenance.maintenances_page),
    PageRoute("POST", "/maintenances", maintenance.begin, "operator"),
    PageRoute("GET", "/maintenances/calendar", maintenance.calendar_page),
    PageRoute("GET", "/maintenances/new", maintenance.new_page),
    PageRoute("GET", "/maintenances/preview", maintenance.preview_part),
    PageRoute("GET", "/maintenances/{id}", maintenance.maintenance_page),
    PageRoute("POST", "/maintenances/{id}/{action}", maintenance.maintenance_action, "operator"),
    PageRoute("GET", "/search", search.search_page),
    PageRoute("GET", "/audit", audit.audit_page),
    PageRoute("GET", "/audit/export", audit.export, on_main_loop=True),
    PageRoute("GET", "/history", history.history_page),
    PageRoute("GET", "/history/days.csv", history.days_csv),
    PageRoute("GET", "/history/events.csv", history.events_csv),
    PageRoute("GET", "/subscriptions", admin.subscriptions_page),
    PageRoute("POST", "/subscriptions", admin.create_subscription, "operator"),
    PageRoute("GET", "/subscriptions/{id}", admin.subscription_page),
    PageRoute("POST", "/subscriptions/{id}/{action}", admin.subscription_action, "operator"),
    PageRoute("GET", "/nodes", admin.nodes_page),
    PageRoute("POST", "/clock/{action}", admin.clock_action, "admin"),
    PageRoute("GET", "/tokens", admin.tokens_page),
    PageRoute("POST", "/tokens", admin.create_token, "admin"),
    PageRoute("POST", "/tokens/{id}/revoke", admin.revoke_token, "admin"),
    PageRoute("GET", "/fleet-file", admin.fleet_file_page),
    PageRoute("POST", "/fleet-file", admin.take_fleet_file, "admin", admin.FLEET_FORM),
    PageRoute("GET", "/fleet-file/sample.toml", admin.fleet_file_sample),
)
"""Every page, who may ask for it, and what its form may cost; beside these, scenarios and the live feed have state."""

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "same-origin",  # with none, forms over plain HTTP say that they come from nowhere: Origin: null
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}

SEE_OTHER = 303
ABOUT_HTTP = {
    404: ("There is no such page.", "The menu on top has all pages. VMs, hosts and events are found with the search."),
    405: ("This page cannot be used like that.", "Use the buttons of the console."),
    500: ("Something went wrong here.", "The service's log says what. Load the page again, and report it if it stays."),
}
"""What went wrong with a request, in words for people."""


class SafeHeaders:
    """Adds the headers above to every answer of the console; no page is cached."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._headers = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                kept = () if scope.get("path", "").startswith("/static/") else ((b"cache-control", b"no-store"),)
                message["headers"] = [*message["headers"], *self._headers, *kept]
            await send(message)

        await self._app(scope, receive, with_headers)


class Console:
    """All pages; each is made for a visitor who has signed in."""

    def __init__(
        self,
        operator_api: ASGIApp,
        asked_with: Callable[[ASGIApp, Callable[[], str]], ASGIApp],
        sessions: Sessions,
        metadata_address: Callable[[], tuple[str, int]] = lambda: METADATA_ADDRESS,
    ) -> None:
        """`asked_with` gives the API for the holder of a token; `metadata_address` is what is really served to VMs."""
        self._operator_api, self._asked_with, self._metadata_address = operator_api, asked_with, metadata_address
        self._sessions, self._scenarios, self.live = sessions, Scenarios(), Live()
        self._render_thread, self._assets = LoopThread("console"), Assets()
        self._templates = Environment(
            loader=PackageLoader("duenotice.console"),
            autoescape=True,
            finalize=formats.plain,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters |= formats.FILTERS | attention.FILTERS | maintenance.FILTERS
        self._templates.globals |= {
            "duenotice_version": __version__,
            "navigation": NAVIGATION,
            "console_keys": search.KEYS,
        }
        self._templates.globals |= {"static": self._assets.root, "admins_menu": MENU}

    def pages(self) -> list[PageRoute]:
        """All of them, in the order in which a path is looked up."""
        return [*PAGES, *self._scenarios.pages(), PageRoute("GET", "/live", self.live.stream, on_main_loop=True)]

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
            *(Route(path, self._with_session(methods), methods=list(methods)) for path, methods in by_path.items()),
        ]
        handlers = {HTTPException: self._on_http_error, Exception: self._on_failure}
        return SafeHeaders(Starlette(routes=routes, exception_handlers=handlers))

    async def close(self) -> None:
        """Stop scenarios that run."""
        await self._scenarios.close()
        await self._sessions.close()
        self._render_thread.close()

    def _with_session(self, methods: dict[str, PageRoute]) -> Callable[[Request], Awaitable[Response]]:
        async def visit(request: Request) -> Response:
            if request.method == "POST" and _is_cross_site(request):
                return self._refusal(403, "This came from another site.", "Use the console's own page.")
            page = methods["GET" if request.method == "HEAD" else request.method]
            visitor: Visit | None = None
            try:
                visitor = await self._visit(request, page.method == "GET" and not page.on_main_loop)
                _check_role(visitor, page.role)
                request.state.bounds = page.bounds
                response = page.handler(visitor)
                if page.on_main_loop or page.method != "GET":
                    return await response
                return await self._render_thread.do(_compressed(response, request))
            except UnknownToken:
                return _to_sign_in(request)
            except DuenoticeError as problem:
                return self._refused(request, visitor, problem)

        return visit

    def _refused(self, request: Request, visitor: Visit | None, problem: DuenoticeError) -> Response:
        """What is wrong, in the frame of all pages. If a page asks for itself, it says so where it is."""
        is_refresh = "x-part" in request.headers
        if isinstance(problem, Unavailable):
            later = {"Retry-After": "5"}
            if is_refresh or visitor is None or request.url.path == "/live":
                return Response(lines(problem.message), 503, later)
            response = visitor.refusal(503, problem.message, f"{problem.hint} Then load this page again.")
            response.headers.update(later)
            return response
        # Something that an open page shows is gone: the page says so. It is not an error of the page.
        is_gone = isinstance(problem, NotFound) and is_refresh
        status = 200 if is_gone else status_of(problem)
        if visitor is None:
            return self._refusal(status, problem.message, problem.hint)
        return visitor.refusal(status, problem.message, problem.hint)

    async def _visit(self, request: Request, is_read: bool) -> Visit:
        secret = session.secret_of(request)
        token = await self._sessions.token_now(secret)
        if token is None:
            raise UnknownToken("Nobody is signed in.", hint="Sign in.")

        def token_id() -> str:
            """Of this moment: an answer that is long ends with its session (S35)."""
            return "" if (known := self._sessions.token_of(secret)) is None else known.id

        api = self._asked_with(self._operator_api, token_id)
        client = AsyncOperatorClient.in_process(api, "", explain=with_page_hint)
        # The position is read first: what happens after it is told live, so nothing is missed.
        me, state, clock = await client.me(), await client.fleet(), await client.clock()
        needs = await client.attention() if is_read else None
        lasting = self._asked_with(self._operator_api, lambda: token.id)
        visit = Visit(request, client, lasting, me, clock, state.position, self._render, state.problem, needs)
        return visit._replace(metadata_address=self._metadata_address())

    async def _sign_in(self, request: Request) -> Response:
        if request.method != "POST":
            return await self._ask_for_token(request)
        if _is_cross_site(request):
            return self._refusal(403, "This came from another site.", "Open the console itself.")
        request.state.bounds = SIGNING_IN
        try:
            form = await form_of(request)
        except DuenoticeError as problem:
            return self._refusal(status_of(problem), problem.message, problem.hint)
        token, goes_to = form.get("token", "").strip(), safe_path(form.get("next", "/"))
        try:
            me = await AsyncOperatorClient.in_process(self._operator_api, token).me()
            begun = await self._sessions.begin(me.id, f"token/{me.name}", session.secret_of(request))
        except (Denied, NotFound):
            return self._sign_in_page("The service does not know this token.", goes_to, 401)
        except DuenoticeError as problem:
            status = 429 if isinstance(problem, Refused) else status_of(problem)
            return self._sign_in_page(f"{problem.message} {problem.hint}", goes_to, status)
        response = redirect(goes_to, failed=_this_node_only("You are signed in", begun.problem))
        session.set_cookie(response, request, begun.secret)
        return response

    async def _ask_for_token(self, request: Request) -> Response:
        """The form; who comes with a session that has ended is told so."""
        secret, goes_to = session.secret_of(request), safe_path(request.query_params.get("next", "/"))
        ended = bool(secret) and await self._sessions.token_now(secret) is None
        if goes_to == "/" and not ended:
            return HTMLResponse(self._usual_sign_in)  # anybody may ask for it
        return self._sign_in_page("", goes_to, ended=ended)

    @cached_property
    def _usual_sign_in(self) -> str:
        return self._render("sign_in.html", problem="", next="/", ended=False)

    async def _sign_out(self, request: Request) -> Response:
        if _is_cross_site(request):
            return self._refusal(403, "This came from another site.", "Open the console itself.")
        problem = await self._sessions.end(session.secret_of(request))
        response: Response = RedirectResponse("/sign-in", SEE_OTHER)
        if problem is not None:
            response = self._sign_in_page(_this_node_only("You are signed out", problem), "/")
        session.delete_cookie(response, request)
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
            visitor = await self._visit(request, is_read=False)
        except DuenoticeError:
            return self._refusal(status, title, hint)
        return visitor.refusal(status, title, hint)

    def _refusal(self, status: int, title: str, hint: str) -> Response:
        return HTMLResponse(self._render("refusal.html", frame="bare.html", title=title, hint=hint), status)

    def _render(self, template: str, **values: object) -> str:
        return self._templates.get_template(template).render(**values)


def _this_node_only(what: str, problem: DuenoticeError | None) -> str:
    """What people are told while nothing can be stored, and other nodes do not know."""
    return "" if problem is None else f"{what} at this node alone, until it can be stored. {problem.message}"


async def _compressed(made: Coroutine[Any, Any, Response], request: Request) -> Response:
    return shrunk(request, await made)


def _check_role(visitor: Visit, needed: str) -> None:
    """Before anything of a form is read (S29)."""
    if not visitor.may(needed):
        what = f"Token {visitor.me.name!r} has the role {visitor.me.role}; this needs {needed}."
        raise Denied(what, hint="Use a token with that role; an admin can create one.")


def _to_sign_in(request: Request) -> Response:
    is_refresh = "x-part" in request.headers or "text/event-stream" in request.headers.get("accept", "")
    if is_refresh:
        return Response(status_code=401)  # a page that is open already says so itself
    where = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return RedirectResponse(f"/sign-in?next={quote(where, safe='/')}", SEE_OTHER)


def _is_cross_site(request: Request) -> bool:
    """Whether a form of another site sent this; a client that sends neither header is not a browser."""
    if (fetch_site := request.headers.get("sec-fetch-site")) is not None:
        return fetch_site not in ("same-origin", "none")
    origin = request.headers.get("origin")
    try:
        return origin is not None and urlsplit(origin).netloc != request.headers.get("host", "")
    except ValueError:  # `http://[` is not an origin, so it is not ours
        return True
