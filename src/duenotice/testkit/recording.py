"""Records the documents of an endpoint, and serves them again later at any speed.

A recording is JSON lines: one for each answer that differs from the last, with the seconds since the beginning.
"""

import http.client
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import IO, Any, NamedTuple
from urllib.parse import urlsplit

from duenotice.clock import monotonic
from duenotice.errors import Malformed, Misconfigured
from duenotice.escape import one_line

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
