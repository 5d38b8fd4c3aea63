"""Requests of the contract as bytes, and what each answer means: a value or a typed error. Pure."""

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
)
from duenotice.client.versions import PREVIEW
from duenotice.errors import Malformed
from duenotice.http.http1 import Response
from duenotice.wire.seen_documents import SeenDocument, load_json, read_document

EVENTS_PATH = "/metadata/scheduledevents"
INSTANCE_PATH = "/metadata/instance"

_LONGEST_REASON = 300
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


def get_request(host: str, path: str, version: str, wait: str = "", tag: str = "") -> bytes:
    """A GET; with `wait` and `tag` the service may hold the answer until there is another document."""
    target = f"{path}?api-version={version}{f'&wait={wait}' if wait else ''}"
    return _head("GET", target, host, f"If-None-Match: {tag}" if tag else "")


def post_request(host: str, version: str, body: bytes) -> bytes:
    """An approval (C01)."""
    target = f"{EVENTS_PATH}?api-version={version}"
    return _head("POST", target, host, "Content-Type: application/json", f"Content-Length: {len(body)}") + body


def _head(method: str, target: str, host: str, *more: str) -> bytes:
    lines = [
        f"{method} {target} HTTP/1.1",
        f"Host: {host}",
        "Metadata: true",  # on every request, POST too (A03)
        f"User-Agent: duenotice/{__version__}",
        "Accept: application/json",
        "Accept-Encoding: identity",
        *filter(None, more),
    ]
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode()


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
