"""Signing in: a token once, then a cookie that no other site can use; and headers that keep other sites out."""

import re
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "duenotice_token"
SIGNED_IN_SECONDS = 12 * 3600
"""The length of a shift; after that people sign in again."""

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


def token_of(request: Request) -> str:
    """The token of the visitor's cookie; empty when there is none."""
    return request.cookies.get(_cookie(request), "")


def sign_in(response: Response, request: Request, token: str) -> None:
    """Let the browser keep the token where no script and no other site can reach it."""
    secure = request.url.scheme == "https"
    response.set_cookie(_cookie(request), token, SIGNED_IN_SECONDS, httponly=True, samesite="strict", secure=secure)


def sign_out(response: Response, request: Request) -> None:
    """Let the browser forget the token."""
    response.delete_cookie(_cookie(request), httponly=True, samesite="strict")


def is_cross_site(request: Request) -> bool:
    """Whether a form of another site sent this; a client that sends neither header is not a browser."""
    if (fetch_site := request.headers.get("sec-fetch-site")) is not None:
        return fetch_site not in ("same-origin", "none")
    origin = request.headers.get("origin")
    return origin is not None and urlsplit(origin).netloc != request.headers.get("host", "")


def safe(path: str) -> str:
    """A path of the console. If a browser could read it as another site, it is the front page."""
    return path if _OURS.fullmatch(path) else "/"


def _cookie(request: Request) -> str:
    """Browsers share cookies between the ports of a host; so two services on one host use two names."""
    return f"{COOKIE}_{request.url.port or request.url.scheme}"


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
