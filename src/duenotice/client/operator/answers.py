"""What an answer of the operator's API means: a value of the type asked for, or an error with its hint. Pure."""

import json
from functools import cache
from types import NoneType
from typing import Any, TypeVar, cast

import msgspec

from duenotice.client.operator.errors import BY_STATUS, CallFailed, ForeignAnswer, NoAnswer, NotReached
from duenotice.errors import DuenoticeError, LookAt, Unavailable
from duenotice.http.flow import ConnectionClosed, why
from duenotice.http.http1 import ProtocolError, Response

T = TypeVar("T")
LARGEST = 512 * 1024 * 1024
"""Bytes of an answer: the preview of a maintenance of a million VMs fits."""

_OTHER_VERSION = "Is this the operator's port, and is the service of the same version as this client?"
_OTHER_PORT = "Is that the operator's port? VMs ask at another one. Or a proxy on the way has answered."
_LONGEST_TITLE = 2000


def value_in(response: Response, kind: type[T], where: str) -> T:
    """The value that was asked for."""
    if not 200 <= response.status < 300:
        raise problem_in(response, where)
    if kind is NoneType:
        return cast(T, None)
    if kind is bytes:
        return cast(T, response.body)
    if kind is str:
        return cast(T, response.body.decode(errors="replace"))
    return decoded(response.body, kind, where)


def decoded(data: bytes, kind: type[T], where: str) -> T:
    """JSON of a known type."""
    try:
        value: T = _decoder(kind).decode(data)  # type: ignore[arg-type]  # a type is hashable
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        # Also a ValidationError: what came has another shape.
        raise ForeignAnswer(f"Cannot read an answer of {where}: {error}.", hint=_OTHER_VERSION) from None
    return value


@cache
def _decoder(kind: Any) -> "msgspec.json.Decoder[Any]":
    return msgspec.json.Decoder(kind)


def problem_in(response: Response, where: str) -> DuenoticeError:
    """What the service says is wrong, in its own words."""
    status = response.status
    if status < 400:
        return ForeignAnswer(f"{where} answers {status}.", hint=_OTHER_VERSION)
    try:
        said = json.loads(response.body)
        title, hint = str(said["title"])[:_LONGEST_TITLE], str(said.get("hint") or "")[:_LONGEST_TITLE]
        look_at = next((each for each in LookAt if each.value == said.get("look_at")), None)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        title, hint, look_at = f"The service answers {status}.", _OTHER_PORT, None
    kind = BY_STATUS.get(status, CallFailed)
    if issubclass(kind, Unavailable):
        return kind(title, hint=hint, retry_after=_retry_after(response))
    return kind(title, hint=hint, look_at=look_at)


def failure_of(error: Exception, where: str, seconds: float) -> DuenoticeError:
    """Why there is no answer; `seconds` is how long was waited for one."""
    if isinstance(error, TimeoutError):
        return NoAnswer(f"{where} did not answer in {seconds:.3g} s.", hint="Is it overloaded?", retry_after=0.0)
    if isinstance(error, ProtocolError):
        return ForeignAnswer(f"The answer of {where} is not valid: {error}.", hint=_OTHER_VERSION)
    reason = "the connection ended before an answer" if isinstance(error, ConnectionClosed) else why(error)
    return NotReached(
        f"Cannot reach duenotice at {where}: {reason}.",
        hint="Is 'duenotice serve' running there? Say where it is with endpoint= or DUENOTICE_ENDPOINT.",
        retry_after=0.0,
    )


def _retry_after(response: Response) -> float:
    """Only in seconds; one when the service does not say."""
    text = response.headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 1.0
