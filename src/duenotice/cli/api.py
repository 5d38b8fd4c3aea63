"""A small client of the operator's API: JSON in and out, problems as our errors."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

from duenotice.cli.errors import Denied, TimedOut
from duenotice.errors import Conflict, DuenoticeError, Malformed, Misconfigured, NotFound, Refused, Unavailable

if TYPE_CHECKING:
    from http.client import HTTPResponse

DEFAULT_ENDPOINT = "http://127.0.0.1:16926"
PAGE = 1000
SILENCE = 40.0
"""A feed that is silent for this many seconds is lost; the service sends a sign of life every 15."""
ERRORS: dict[int, type[DuenoticeError]] = {
    400: Malformed,
    401: Denied,
    403: Denied,
    404: NotFound,
    409: Conflict,
    422: Refused,
    429: Unavailable,
    503: Unavailable,
}
SAME_HERE = {
    "GET /v1/vms": "'duenotice vm list'",
    "GET /v1/groups": "'duenotice scale-set list'",
    "GET /v1/hosts": "'duenotice host list'",
    "GET /v1/events": "'duenotice events list'",
    "GET /v1/maintenances": "'duenotice maintenance list'",
    "GET /v1/tokens": "'duenotice token list'",
}
"""What to write on the command line instead of what a hint of the API says."""


class Api:
    """One service at one endpoint; every call is one request on a connection of its own."""

    def __init__(self, endpoint: str, token: str, timeout: float) -> None:
        try:
            parts = urlsplit(endpoint if "//" in endpoint else f"http://{endpoint}")
            self._secure, self._port = {"http": False, "https": True}[parts.scheme], parts.port
            self._host = parts.hostname or ""
            if not self._host:
                raise ValueError(endpoint)
        except (ValueError, KeyError):
            hint = f"Write it like {DEFAULT_ENDPOINT}."
            raise Misconfigured(f"The endpoint {endpoint!r} is not an address.", hint=hint) from None
        self.endpoint = f"{parts.scheme}://{parts.netloc}"
        if not (token.isascii() and token.isprintable()):
            raise Denied(
                "The token has characters that a token cannot have.", hint="Is DUENOTICE_TOKEN_FILE the right file?"
            )
        self._token, self._timeout = token, timeout

    def get(self, *path: str, **query: Any) -> Any:
        """What is there."""
        return self.call("GET", target(*path, **query))

    def post(self, *path: str, body: Any = None, **query: Any) -> Any:
        """Do something."""
        return self.call("POST", target(*path, **query), None if body is None else json.dumps(body).encode())

    def pages(self, *path: str, **query: Any) -> Iterator[Any]:
        """All items of a list, page after page; a bare list is one page."""
        cursor: Any = None
        while True:
            page = self.get(*path, **query, limit=PAGE, cursor=cursor)
            yield from items_of(page)
            cursor = page.get("next") if isinstance(page, dict) else None
            if cursor is None:
                return

    def full_id(self, kind: str, prefix: str) -> str:
        """The whole id of the thing whose id begins with this."""
        return str(self.get(kind, prefix)["id"])

    def call(self, method: str, path: str, body: bytes | None = None) -> Any:
        """One request; its JSON, or None."""
        raw = self.raw(method, path, body)
        try:
            return json.loads(raw) if raw else None
        except ValueError:
            raise DuenoticeError(
                f"The answer of {self.endpoint} is not JSON.", hint="Is this the operator's port?"
            ) from None

    def raw(self, method: str, path: str, body: bytes | None = None) -> bytes:
        """One request; the bytes of its answer."""
        with self._asked(method, path, body, {}, self._timeout) as answer:
            return answer.read()

    @contextmanager
    def lines(self, path: str, headers: dict[str, str]) -> Iterator[Iterator[bytes]]:
        """The lines of an endless answer, until the service falls silent."""
        with self._asked("GET", path, None, headers, max(self._timeout, SILENCE)) as answer:
            yield iter(answer.readline, b"")

    @contextmanager
    def _asked(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str], timeout: float
    ) -> Iterator["HTTPResponse"]:
        """One good answer; anything that goes wrong is raised as one of our errors."""
        import http.client  # costs milliseconds that --help should not pay

        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        connection = kind(self._host, self._port, timeout=timeout)
        try:
            connection.request(method, path, body, headers | {"Authorization": f"Bearer {self._token}"})
            answer = connection.getresponse()
            if answer.status >= 300:
                raise _error(answer.status, answer.read(), self._token)
            yield answer
        except TimeoutError:
            raise TimedOut(f"{self.endpoint} did not answer in {timeout:g} s.", hint="Is it overloaded?") from None
        except (OSError, UnicodeError, http.client.HTTPException) as error:
            raise Unavailable(
                f"Cannot reach duenotice at {self.endpoint}: {getattr(error, 'strerror', None) or error}.",
                hint="Start it with 'duenotice serve', or name another with --endpoint or DUENOTICE_ENDPOINT.",
            ) from None
        finally:
            connection.close()


def target(*path: str, **query: Any) -> str:
    """`/v1/…` with the given values as its query; `api_version` is written `api-version`."""
    given = {key: str(value) for key, value in query.items() if value is not None and value != ""}
    given = {"api-version" if key == "api_version" else key: value for key, value in given.items()}
    asked = "?" + urlencode(given, errors="replace") if given else ""
    return "/v1/" + "/".join(quote(part, safe="", errors="replace") for part in path) + asked


def items_of(answer: Any) -> list[Any]:
    """The items of an answer: a bare list, a page, or the events that were raised."""
    if isinstance(answer, dict):
        answer = answer.get("items", answer.get("events", []))
    return list(answer or [])


def _error(status: int, data: bytes, token: str) -> DuenoticeError:
    try:
        said = json.loads(data)
        title, hint = str(said["title"]), str(said.get("hint") or "")
    except (ValueError, KeyError, TypeError, AttributeError):
        title, hint = f"The service answers {status}.", ""
    if status == 401:
        title = "The service does not know this token." if token else "No token was found, and the service needs one."
        hint = "Set DUENOTICE_TOKEN, or DUENOTICE_TOKEN_FILE to admin.token in the service's data directory."
    for call, command in SAME_HERE.items():
        hint = hint.replace(call, command)
    return ERRORS.get(status, DuenoticeError)(title, hint=hint)
