"""Records the documents of an endpoint, serves them again at any speed, and compares those of two endpoints.

A recording is JSON lines: one for each answer that differs from the last, with the seconds since the beginning.
"""

import asyncio
import http.client
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from http import HTTPStatus
from typing import IO, Any, NamedTuple
from urllib.parse import urlsplit

from duenotice.clock import monotonic
from duenotice.errors import Malformed, Misconfigured
from duenotice.escape import one_line
from duenotice.metadata_api.http1 import RequestReader

TIMEOUT_SECONDS = 125.0
"""The first answer of a scope may take two minutes (F01)."""

KEPT_HEADERS = ("content-type", "etag", "retry-after", "server")
PATH = "/metadata/scheduledevents"


class RecordedAnswer(NamedTuple):
    """One answer of an endpoint; status 0 is none at all."""

    status: int
    headers: dict[str, str]
    body: str

    @property
    def matters(self) -> tuple[int, str]:
        """What makes it a different answer."""
        return self.status, self.body


class Frame(NamedTuple):
    """An answer, and when it was first seen: seconds after the beginning."""

    after: float
    answered: RecordedAnswer


def ask(endpoint: str, api_version: str) -> RecordedAnswer:
    """Ask an endpoint for its document, directly: no proxy, no redirect."""
    url = urlsplit(endpoint if "//" in endpoint else f"http://{endpoint}")
    if url.scheme != "http" or not url.hostname or url.path.strip("/") or url.query:
        raise Misconfigured(
            f"{endpoint!r} is not an endpoint.", hint="Use http://HOST or http://HOST:PORT, without a path."
        )
    connection = http.client.HTTPConnection(url.hostname, url.port or 80, timeout=TIMEOUT_SECONDS)
    with closing(connection):
        try:
            connection.request("GET", f"{PATH}?api-version={api_version}", headers={"Metadata": "true"})
            answer = connection.getresponse()
            body = answer.read().decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            return RecordedAnswer(0, {}, f"{type(error).__name__}: {error}")
    headers = {name.lower(): value for name, value in answer.getheaders() if name.lower() in KEPT_HEADERS}
    return RecordedAnswer(answer.status, headers, body)


def record(
    endpoint: str, api_version: str, every: float, seconds: float, sleep: Callable[[float], object] = time.sleep
) -> Iterator[Frame]:
    """Each answer that differs from the last, as it comes, for this long."""
    begun, last = monotonic(), None
    while (now := monotonic() - begun) < seconds:
        answered = ask(endpoint, api_version)
        if answered.matters != last:
            last = answered.matters
            yield Frame(round(now, 3), answered)
        sleep(every)


def frame_to_json(frame: Frame) -> str:
    """One line of a recording."""
    return one_line(json.dumps({"after": frame.after, **frame.answered._asdict()}, ensure_ascii=False))


def read_recording(file: IO[str], source: str) -> list[Frame]:
    """A recording, in the order of time; a wrong line is named."""
    frames = [
        _frame(json_line, f"{source}:{number}") for number, json_line in enumerate(file, start=1) if json_line.strip()
    ]
    if not frames:
        raise Malformed(f"{source} has no answers.", hint="Record some with 'duenotice record'.")
    return sorted(frames, key=lambda frame: frame.after)


def _frame(line: str, place: str) -> Frame:
    try:
        found: dict[str, Any] = json.loads(line)
        headers = {str(name): str(value) for name, value in found["headers"].items()}
        return Frame(float(found["after"]), RecordedAnswer(int(found["status"]), headers, str(found["body"])))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Malformed(f"{place}: not a line of a recording: {error!r}.", hint="Record it again.") from None


def frame_at(frames: Sequence[Frame], seconds: float) -> Frame:
    """The answer at a time after the beginning; the last one stays."""
    return next((frame for frame in reversed(frames) if frame.after <= seconds), frames[0])


_READ = 65536


class Replay:
    """A recording being played; time begins with the first request."""

    def __init__(self, frames: Sequence[Frame], speed: float) -> None:
        self._frames, self._speed = frames, speed
        self._begun: float | None = None
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen, and tell on which address: port 0 takes a free one."""
        self._server = await asyncio.start_server(self._serve, host, port)
        bound: tuple[str, int] = self._server.sockets[0].getsockname()[:2]
        return bound

    def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests = RequestReader()
        try:
            while data := await reader.read(_READ):
                requests.feed(data)
                while (request := requests.next()) is not None:
                    writer.write(self._answer(request.head.method))
        except (Malformed, OSError):
            pass
        finally:
            writer.close()

    def _answer(self, method: str) -> bytes:
        """Approvals are accepted and change nothing."""
        frame = self._now()
        if method == "POST":
            return _rendered(200, {}, b"")
        return b"" if not frame.answered.status else _recorded(frame)

    def _now(self) -> Frame:
        now = monotonic()
        self._begun = now if self._begun is None else self._begun
        return frame_at(self._frames, (now - self._begun) * self._speed)


def _recorded(frame: Frame) -> bytes:
    return _rendered(frame.answered.status, frame.answered.headers, frame.answered.body.encode())


def _rendered(status: int, headers: dict[str, str], body: bytes) -> bytes:
    phrase = HTTPStatus(status).phrase if status in set(HTTPStatus) else "Recorded"
    lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body


class Difference(NamedTuple):
    """One thing that is not the same: where, and what either endpoint has."""

    api_version: str
    where: str
    first: str
    second: str


def differences(api_version: str, first: RecordedAnswer, second: RecordedAnswer) -> list[Difference]:
    """Status, the kind of content, and the shape of the body; ids, times and numbers may differ."""
    return [Difference(api_version, where, *pair) for where, pair in _compared(first, second) if pair[0] != pair[1]]


def _compared(first: RecordedAnswer, second: RecordedAnswer) -> Iterable[tuple[str, tuple[str, str]]]:
    yield "status", (str(first.status), str(second.status))
    yield "content-type", (_kind(first), _kind(second))
    yield "has an ETag", (str("etag" in first.headers), str("etag" in second.headers))
    shapes = _shape(_parsed(first.body)), _shape(_parsed(second.body))
    for place in sorted(set(shapes[0]) | set(shapes[1])):
        if any(_is_empty(shape, place) for shape in shapes):
            continue
        yield f"body {place}".strip(), (shapes[0].get(place, "–"), shapes[1].get(place, "–"))


def _is_empty(shape: dict[str, str], place: str) -> bool:
    """Whether a place is inside a list that has no items here."""
    parts = place.split("[]")
    lists = ("[]".join(parts[:count]) for count in range(1, len(parts)))
    return any(around in shape and not any(at.startswith(f"{around}[]") for at in shape) for around in lists)


def _kind(answered: RecordedAnswer) -> str:
    return answered.headers.get("content-type", "").replace(" ", "").lower()


def _parsed(body: str) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body


def _shape(value: Any, place: str = "") -> dict[str, str]:
    """The type at every place of a JSON value; all items of a list are one place, so their number does not matter."""
    if isinstance(value, dict):
        keys = {place: f"object with {' '.join(value)}"}
        return keys | {at: kind for key, inner in value.items() for at, kind in _shape(inner, f"{place}.{key}").items()}
    if isinstance(value, list):
        return {place: "list"} | {at: kind for inner in value for at, kind in _shape(inner, f"{place}[]").items()}
    return {place: "nothing" if value == "" and not place else type(value).__name__}
