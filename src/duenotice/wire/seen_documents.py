"""The VM's half of the wire: documents as a client reads them, approvals as it sends them. Standard library only.

What an api-version does not show has its default. Unknown keys and types are accepted: the service may be newer than we
are. Everything else is strict. A body that is not a whole document is an error, never "no events" (H06, S14).
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NoReturn

from duenotice.errors import Malformed
from duenotice.wire.spans import format_rfc1123, parse_time

ADVICE = "SpotRebalanceRecommendation"
"""The type that is not a deadline: nothing starts at its NotBefore. The same word as in `api_versions`."""


_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class SeenEvent:
    """An event as a VM sees it."""

    event_id: str
    """Upper case (B03)."""
    status: str
    """`Scheduled` or `Started`."""
    type: str
    """`Freeze`, `Reboot`, `Redeploy`, `Preempt`, `Terminate`, `SpotRebalanceRecommendation`, or a newer one."""
    resources: tuple[str, ...]
    not_before: datetime | None
    """Aware, in UTC; None where the wire says `""`: the event has started (B08)."""
    description: str = ""
    source: str = "Platform"
    duration: int = -1
    """Seconds of impact; -1 is unknown, 0 is none (B09)."""
    resource_type: str = "VirtualMachine"

    @property
    def leader(self) -> str | None:
        """The VM that approves for all: the first of those hit (H03)."""
        return self.resources[0] if self.resources else None

    @property
    def started(self) -> bool:
        """Whether it is too late to prepare."""
        return self.status == "Started"

    @property
    def is_advice(self) -> bool:
        """Whether it is not a deadline: it is never approved, and nothing starts at `not_before`."""
        return self.type == ADVICE

    def hits(self, name: str) -> bool:
        """Whether the VM of that name is hit (H01). An exact match: a neighbour's event is never taken for ours."""
        return name in self.resources


@dataclass(frozen=True, slots=True)
class SeenDocument:
    """All events the VM is told of. Equal documents say the same; do not compare only the incarnation."""

    incarnation: int
    events: tuple[SeenEvent, ...]


def read_document(body: bytes, *, underscore: bool = False) -> SeenDocument:
    """Any version's document; `underscore` says that it is the preview's, whose names have an extra `_` (B10)."""
    try:
        top = _object(load_json(body), "the whole")
        events = tuple(_event(_object(each, "an event"), underscore) for each in _list(top, "Events"))
        _check_ids([event.event_id for event in events])
        return SeenDocument(_incarnation(top), events)
    except (ValueError, Malformed) as error:
        raise Malformed(f"This is not a Scheduled Events document: {_said(error)}.", hint="Ask again.") from None


def event_to_json(event: SeenEvent) -> dict[str, Any]:
    """The event under the contract's keys, in its order: what hooks and peers are given."""
    return {
        "EventId": event.event_id,
        "EventStatus": event.status,
        "EventType": event.type,
        "ResourceType": event.resource_type,
        "Resources": list(event.resources),
        "NotBefore": format_rfc1123(event.not_before) if event.not_before else "",
        "Description": event.description,
        "EventSource": event.source,
        "DurationInSeconds": event.duration,
    }


def event_from_json(shown: object) -> SeenEvent:
    """Reads what `event_to_json` writes, as strictly as a document."""
    try:
        return _event(_object(shown, "the event"), underscore=False)
    except (ValueError, Malformed) as error:
        raise Malformed(f"This is not an event: {_said(error)}.", hint="It must be as the document shows it.") from None


def encode_start_requests(event_ids: Iterable[str]) -> bytes:
    """The body of an approval (C01)."""
    requests = [{"EventId": event_id} for event_id in event_ids]
    return json.dumps({"StartRequests": requests}, separators=(",", ":"), ensure_ascii=False).encode()


def load_json(body: bytes) -> Any:
    """Strict JSON: UTF-8, no NaN, no key twice. ValueError otherwise."""
    try:
        text = body.removeprefix(_BYTE_ORDER_MARK).decode()
        return json.loads(text, object_pairs_hook=_without_duplicates, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _event(shown: dict[str, Any], underscore: bool) -> SeenEvent:
    names = tuple(_text(name, "a name in Resources") for name in _list(shown, "Resources"))
    not_before = _optional(shown, "NotBefore", "")
    return SeenEvent(
        event_id=_required(shown, "EventId").upper(),
        status=_required(shown, "EventStatus"),
        type=_required(shown, "EventType"),
        resources=tuple(name.removeprefix("_") for name in names) if underscore else names,
        not_before=parse_time(not_before) if not_before else None,
        description=_optional(shown, "Description", ""),
        source=_optional(shown, "EventSource", "Platform"),
        duration=_number(shown.get("DurationInSeconds"), "DurationInSeconds", default=-1),
        resource_type=_optional(shown, "ResourceType", "VirtualMachine"),
    )


def _incarnation(top: dict[str, Any]) -> int:
    number = _number(top.get("DocumentIncarnation"), "DocumentIncarnation")
    if number < 0:
        raise ValueError("DocumentIncarnation is below 0")
    return number


def _check_ids(ids: list[str]) -> None:
    """An id names one event (B03): two events with the same id could not be told apart."""
    if len(set(ids)) < len(ids):
        raise ValueError("two events have the same EventId")


def _object(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{what} is not an object")
    return value


def _list(shown: dict[str, Any], key: str) -> list[Any]:
    value = shown.get(key)
    if not isinstance(value, list):
        raise ValueError(f"{key} is not a list")
    return value


def _required(shown: dict[str, Any], key: str) -> str:
    if not (text := _text(shown.get(key), key)):
        raise ValueError(f"{key} is empty")
    return text


def _optional(shown: dict[str, Any], key: str, default: str) -> str:
    value = shown.get(key)
    return default if value is None else _text(value, key)


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{what} is not a text")
    value.encode()  # half a surrogate pair can be neither logged nor stored: it raises here
    return value


def _number(value: Any, what: str, default: int | None = None) -> int:
    """A whole number; also one written as text, as some clients and servers do."""
    if value is None and default is not None:
        return default
    if isinstance(value, str) and value.removeprefix("-").isdecimal() and value.isascii():
        return int(value)
    if type(value) is not int:  # True is an int to isinstance
        raise ValueError(f"{what} is not a whole number")
    return value


def _said(error: Exception) -> str:
    return str(error).rstrip(".")


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(keys := dict(pairs)) < len(pairs):
        raise ValueError("a key is there twice")
    return keys


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
