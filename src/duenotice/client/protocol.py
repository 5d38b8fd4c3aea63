"""The contract as a client speaks it: what it asks, what each answer means, and in which api-version it asks.

It does no I/O: a call is a flow, which `metadata` runs on a connection.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from duenotice import __version__
from duenotice.client.errors import (
    BadAnswer,
    Gone,
    MetadataError,
    Redirected,
    Rejected,
    ServerFailed,
    Throttled,
    TimedOut,
    Unreachable,
)
from duenotice.client.retry import JITTER, IsWanted, RetryPolicy, always, retry
from duenotice.clock import monotonic, wall
from duenotice.errors import DuenoticeError, Malformed, Misconfigured
from duenotice.http.flow import FAILURES, ConnectionClosed, Exchange, Flow, T, why
from duenotice.http.http1 import ProtocolError, Request, Response
from duenotice.wire.seen_documents import SeenDocument, encode_start_requests, load_json, read_document

EVENT_VERSIONS = (
    "2020-07-01",
    "2019-08-01",
    "2019-04-01",
    "2019-01-01",
    "2017-11-01",
    "2017-08-01",
    "2017-03-01",
)
"""Newest first, as in `wire.api_versions`, which needs more than the standard library."""

WITH_ADVICE = "2024-07-09"
"""Shows the advice that spot VMs are given; most services do not have it."""

INSTANCE_VERSIONS = ("2021-02-01", "2019-08-01", "2017-08-01")
PREVIEW = "2017-03-01"
"""Its names have an extra underscore (B10)."""

EVENTS_PATH = "/metadata/scheduledevents"
INSTANCE_PATH = "/metadata/instance"

_HEADERS = {
    "Metadata": "true",  # on every request, POST too (A03)
    "User-Agent": f"duenotice/{__version__}",
    "Accept": "application/json",
    "Accept-Encoding": "identity",
}
_LONGEST_REASON = 300
_GOOD = (200, 304)
_ERRORS: dict[int, tuple[type[MetadataError], str]] = {
    304: (BadAnswer, "The answer is 304 although nothing was sent to compare with. Ask again."),
    404: (Rejected, "Is this VM known to the service, and is this its metadata address?"),
    408: (TimedOut, "Ask again."),
    410: (Gone, "It comes back within 70 seconds."),
    429: (Throttled, "Ask less often: once a second is enough."),
}
_BY_HUNDRED: dict[int, tuple[type[MetadataError], str]] = {
    3: (Redirected, "Is there a proxy or a captive portal on this address? Redirects are never followed."),
    4: (Rejected, "The request itself is wrong; asking again does not help."),
    5: (ServerFailed, "Ask again in a moment."),
}
_DATE = re.compile(r"\b20[0-9]{2}-[0-9]{2}-[0-9]{2}\b")


def get_request(path: str, version: str, wait: str = "", tag: str = "") -> Request:
    """A GET; with `wait` and `tag` the service may hold the answer until there is another document."""
    target = f"{path}?api-version={version}{f'&wait={wait}' if wait else ''}"
    return Request("GET", target, _HEADERS | {"If-None-Match": tag} if tag else _HEADERS)


def post_request(version: str, body: bytes) -> Request:
    """An approval (C01)."""
    headers = _HEADERS | {"Content-Type": "application/json"}
    return Request("POST", f"{EVENTS_PATH}?api-version={version}", headers, body)


def check_status(response: Response) -> None:
    """Anything but 200 is an error."""
    status = response.status
    if status == 200:
        return
    kind, hint = _ERRORS.get(status) or _BY_HUNDRED.get(status // 100) or (BadAnswer, "Ask again.")
    message = f"The metadata service answered {status}{_reason(response)}"
    raise kind(message, hint=hint, status=status, retry_after=_retry_after(response))


def check_approved(response: Response) -> None:
    """Only an answer of ours approves (H08): 200 in HTTP/1.1 with no body, or some JSON as other services write it.

    A sign-in page, or a proxy that speaks HTTP/1.0, answers 200 too.
    """
    check_status(response)
    hint = "Which program answers at this address? The event is not approved."
    if response.minor == 0:
        raise BadAnswer("The approval was answered in HTTP/1.0.", hint=hint, status=200)
    if response.body:
        try:
            load_json(response.body)
        except ValueError:
            raise BadAnswer("The approval was answered with a page.", hint=hint, status=200) from None


def document_in(response: Response, version: str) -> SeenDocument:
    """The document of an answer (H06: an empty 200 is an error, like any other answer that is not a document)."""
    check_status(response)
    _check_is_json(response)
    try:
        return read_document(response.body, underscore=version == PREVIEW)
    except Malformed as error:
        raise BadAnswer(error.message, hint=error.hint, status=200) from None


def instance_in(response: Response) -> dict[str, Any]:
    """What the service says of the VM itself (A12)."""
    check_status(response)
    _check_is_json(response)
    try:
        instance = load_json(response.body)
    except ValueError as error:
        raise BadAnswer(f"The answer is not JSON: {error}.", hint="Ask again.", status=200) from None
    if not isinstance(instance, dict):
        raise BadAnswer("The instance is not an object.", hint="Ask again.", status=200)
    return instance


def name_in(instance: dict[str, Any]) -> str:
    """The VM's own name, as `Resources` has it."""
    compute = instance.get("compute")
    name = compute.get("name") if isinstance(compute, dict) else None
    if not isinstance(name, str) or not name:
        raise BadAnswer("The instance has no compute.name.", hint="Give the VM's name instead.", status=200)
    return name


def _check_is_json(response: Response) -> None:
    media, _, parameters = response.headers.get("content-type", "application/json").partition(";")
    name, _, charset = parameters.strip().partition("=")
    encoding = response.headers.get("content-encoding", "identity")
    if media.strip().lower() != "application/json":
        raise BadAnswer(
            f"The answer is {media.strip()[:80]!r}, not JSON.",
            hint="Which program answers at this address?",
            status=200,
        )
    if name.strip().lower() == "charset" and charset.strip('" ').lower() not in ("utf-8", "utf8"):
        raise BadAnswer(
            f"The answer is in {charset[:80]!r}, not UTF-8.", hint="Which program answers at this address?", status=200
        )
    if encoding.lower() != "identity":
        raise BadAnswer(
            f"The answer is compressed with {encoding[:80]!r}.",
            hint="Which program answers at this address?",
            status=200,
        )


def _reason(response: Response) -> str:
    """The service's own message, on one line and cut short; the status alone if there is no message."""
    try:
        top = load_json(response.body)
    except ValueError:
        return "."
    words = top.get("error") if isinstance(top, dict) else None
    plain = "".join(each if each.isprintable() else " " for each in words) if isinstance(words, str) else ""
    return f": {plain[:_LONGEST_REASON]}" if plain else "."


def _retry_after(response: Response) -> float | None:
    """Only in seconds: a date would need two clocks to be right."""
    text = response.headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def chosen_versions(only: str | None, advice: bool = False) -> tuple[str, ...]:
    """All that we know, or the one that was asked for; with `advice` first the one that shows it."""
    if only is None:
        return (WITH_ADVICE, *EVENT_VERSIONS) if advice else EVENT_VERSIONS
    known = (WITH_ADVICE, *EVENT_VERSIONS)
    if only not in known:
        raise Misconfigured(f"The api-version {only!r} is unknown.", hint=f"Use one of {', '.join(known)}.")
    return (only,)


@dataclass(slots=True)
class Choice:
    """The version that is asked in, remembered while it works."""

    known: tuple[str, ...]
    current: str = ""
    settled: bool = False
    """Whether one has worked, or all were refused: then a refusal that names no version is about something else.

    A VM that falls back to the preview because of a passing 404 would never hear of a Preempt.
    """

    def __post_init__(self) -> None:
        self.current = self.current or self.known[0]

    def worked(self, version: str) -> None:
        """Stay with this one."""
        self.current, self.settled = version, True


@dataclass(slots=True)
class Search:
    """The versions that one request tries, from the newest to the oldest."""

    choice: Choice
    version: str = ""
    blind: bool = False
    """Whether a version was tried that the service had not offered."""
    tried: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.version = self.choice.current

    def next(self, refusal: Response) -> bool:
        """Go on to the next version worth a try; False when this refusal is not about the version, or none is left."""
        named = versions_named(refusal)
        self.tried.add(self.version)
        left = [version for version in self.choice.known if version not in self.tried]
        offered = [version for version in left if version in named]
        if not offered and (self.choice.settled or not _may_be_about_the_version(refusal, named)):
            return False
        if not left:
            self.choice.settled = True
            return False
        self.blind = not offered
        self.version = (offered or left)[0]
        return True


def _may_be_about_the_version(refusal: Response, named: set[str]) -> bool:
    """A04: 400 names the versions that are known; some services answer 404 and name none."""
    return refusal.status == 404 or (refusal.status == 400 and bool(named))


def versions_named(refusal: Response) -> set[str]:
    """The api-versions that a refusal offers, under `newest-versions` or in its message."""
    if refusal.status not in (400, 404):
        return set()
    try:
        top = load_json(refusal.body)
    except ValueError:
        return set()
    offered = top.get("newest-versions") if isinstance(top, dict) else None
    words = top.get("error") if isinstance(top, dict) else None
    listed = {name for name in offered if isinstance(name, str)} if isinstance(offered, list) else set()
    return listed | set(_DATE.findall(words) if isinstance(words, str) else ())


@dataclass(slots=True)
class MetadataFlows:
    """What a client knows of its service, and each of its calls as a flow."""

    policy: RetryPolicy = field(default_factory=RetryPolicy)
    events: Choice = field(default_factory=lambda: Choice(EVENT_VERSIONS))
    instances: Choice = field(default_factory=lambda: Choice(INSTANCE_VERSIONS))
    now: Callable[[], float] = monotonic
    jitter: Callable[[], float] = JITTER
    time_of_day: Callable[[], datetime] = wall
    date: str = ""
    """The Date of the last answer."""
    dated_at: datetime | None = None
    """When that answer came, by our own clock: the two may differ."""
    read_at: float | None = None
    """When a document was last read, in seconds of `now`; one that says what the last one said counts too."""

    def document(self, failed: MetadataError | None = None) -> Flow[SeenDocument]:
        """The document as it is now; `failed` is a try that was made before."""
        return self._retried(self.read_once, failed)

    def approve(self, event_ids: Iterable[str], is_wanted: IsWanted = always) -> Flow[None]:
        """Let these events start. An unclear failure is tried again, because approving twice does no harm (S17)."""
        body = encode_start_requests(event_ids)

        def attempt(deadline: float) -> Flow[None]:
            _, response = yield from self._negotiated(
                self.events, lambda version: post_request(version, body), deadline
            )
            check_approved(response)

        return self._retried(attempt, is_wanted=is_wanted)

    def instance(self) -> Flow[dict[str, Any]]:
        """What the service says of the VM."""

        def attempt(deadline: float) -> Flow[dict[str, Any]]:
            _, response = yield from self._negotiated(
                self.instances, lambda version: get_request(INSTANCE_PATH, version), deadline
            )
            return instance_in(response)

        return self._retried(attempt)

    def read_once(self, deadline: float) -> Flow[SeenDocument]:
        """One try at the document."""
        version, response = yield from self.poll_once(deadline)
        return document_in(response, version)

    def poll_once(self, deadline: float, wait: str = "", tag: str = "") -> Flow[tuple[str, Response]]:
        """One try at the document, held by the service if it can. Returns its version and the raw answer."""
        return self._negotiated(self.events, lambda version: get_request(EVENTS_PATH, version, wait, tag), deadline)

    def _negotiated(
        self, choice: Choice, request: Callable[[str], Request], deadline: float
    ) -> Flow[tuple[str, Response]]:
        """Ask in the version that works, going down when the service is older than we are."""
        search = Search(choice)
        first = response = yield from _exchange(request(search.version), deadline)
        while response.status not in _GOOD:
            if not search.next(response):
                return choice.current, first if response.status in (400, 404) else response
            response = yield from _exchange(request(search.version), deadline)
        if search.blind:  # was it the version, or a problem that has passed?
            again = yield from _exchange(request(choice.current), deadline)
            if again.status in _GOOD:
                search.version, response = choice.current, again
        choice.worked(search.version)
        self.date, self.dated_at = response.headers.get("date", ""), self.time_of_day()
        return search.version, response

    def _retried(
        self, attempt: Callable[[float], Flow[T]], failed: MetadataError | None = None, is_wanted: IsWanted = always
    ) -> Flow[T]:
        return retry(attempt, _least_pause, self.policy, self.now, self.jitter, failed, is_wanted)


def _least_pause(error: DuenoticeError) -> float | None:
    if not isinstance(error, MetadataError) or not error.transient:
        return None
    return max(error.retry_after or 0.0, error.least_pause)


def _exchange(request: Request, deadline: float) -> Flow[Response]:
    """The answer to a request; every failure is a MetadataError.

    All of ours may be sent again when a connection that was kept has ended: approvals are idempotent too (S17).
    """
    try:
        response: Response = yield Exchange(request, deadline)
    except FAILURES as error:
        raise _explained(error) from None
    return response


def _explained(error: Exception) -> MetadataError:
    if isinstance(error, TimeoutError):
        return TimedOut(hint="Asking again is safe. The first answer of all may take two minutes.")
    if isinstance(error, ProtocolError):
        hint = "Is there a proxy or another service on this address?"
        return BadAnswer(f"The answer is not one of the metadata service: {error}.", hint=hint)
    if isinstance(error, ConnectionClosed):
        return Unreachable("The metadata service ended the connection before it answered.", hint="Ask again.")
    return Unreachable(
        f"The metadata service cannot be reached: {why(error)}.",
        hint="Is this a VM? Say where the service is with endpoint= or DUENOTICE_METADATA_ENDPOINT.",
    )
