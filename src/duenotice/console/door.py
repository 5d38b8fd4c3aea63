"""Signing in: a token once, then a cookie of a session that no other site can use; and headers that keep them out."""

import re
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from duenotice.domain.token import LASTS

COOKIE = "duenotice_session"
HOST_ALONE = "__Host-"
"""Browsers take a cookie with such a name only over TLS, for all paths, and from no other host than this one."""

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "same-origin",  # with none, forms over plain HTTP say that they come from nowhere: Origin: null
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_OURS = re.compile(r"/(?![/\\])[^\\\x00-\x1f\x7f]*")


def secret_of(request: Request) -> str:
    """The secret of the visitor's session; empty when there is none."""
    return request.cookies.get(_cookie(request), "")


def sign_in(response: Response, request: Request, secret: str) -> None:
    """Let the browser keep the secret where no script and no other site can reach it; the server ends it in time."""
    _set(response, request, secret, int(LASTS.total_seconds()))


def sign_out(response: Response, request: Request) -> None:
    """Let the browser forget it."""
    _set(response, request, "", 0)


def _set(response: Response, request: Request, secret: str, seconds: int) -> None:
    secure = request.url.scheme == "https"
    response.set_cookie(_cookie(request), secret, seconds, httponly=True, samesite="strict", secure=secure)


def is_cross_site(request: Request) -> bool:
    """Whether a form of another site sent this; a client that sends neither header is not a browser."""
    if (fetch_site := request.headers.get("sec-fetch-site")) is not None:
        return fetch_site not in ("same-origin", "none")
    origin = request.headers.get("origin")
    try:
        return origin is not None and urlsplit(origin).netloc != request.headers.get("host", "")
    except ValueError:  # `http://[` is not an origin, so it is not ours
        return True


def safe(path: str) -> str:
    """A path of the console. If a browser could read it as another site, it is the front page."""
    return path if _OURS.fullmatch(path) else "/"


def _cookie(request: Request) -> str:
    """Browsers share cookies between the ports of a host; so two services on one host use two names."""
    name = f"{COOKIE}_{request.url.port or request.url.scheme}"
    return HOST_ALONE + name if request.url.scheme == "https" else name


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
