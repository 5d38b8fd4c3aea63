"""A document as each api-version shows it, and back (section B, S8)."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import msgspec

from duenotice.domain.document import Document
from duenotice.domain.event import Event, EventType, Phase, Source
from duenotice.domain.scope import is_cloud_service
from duenotice.errors import Malformed
from duenotice.wire.api_versions import ApiVersion

TYPE_NAMES = {
    EventType.FREEZE: "Freeze",
    EventType.REBOOT: "Reboot",
    EventType.REDEPLOY: "Redeploy",
    EventType.PREEMPT: "Preempt",
    EventType.TERMINATE: "Terminate",
}
STATUS_NAMES = {Phase.SCHEDULED: "Scheduled", Phase.STARTED: "Started"}
SOURCE_NAMES = {Source.PLATFORM: "Platform", Source.USER: "User"}
RESOURCE_TYPE = "VirtualMachine"

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_encoder = msgspec.json.Encoder()


class SeenEvent(msgspec.Struct, frozen=True, rename="pascal"):
    """An event as a client reads it; what its api-version does not show is at its default."""

    event_id: str
    event_status: str
    event_type: str
    resource_type: str
    resources: tuple[str, ...]
    not_before: str = ""
    description: str = ""
    event_source: str = "Platform"
    duration_in_seconds: int = -1

    @property
    def starts_after(self) -> datetime | None:
        """`NotBefore` as a moment; None once Started, when it is empty (B08)."""
        return parse_time(self.not_before) if self.not_before else None


class SeenDocument(msgspec.Struct, frozen=True, rename="pascal"):
    """A document as a client reads it."""

    document_incarnation: int
    events: tuple[SeenEvent, ...]


_decoder = msgspec.json.Decoder(SeenDocument, strict=False)


def encode_document(document: Document, version: ApiVersion) -> bytes:
    """Compact JSON, keys in the order of the contract; types the version does not know are left out (B10)."""
    events = [_shown(event, version) for event in document.events if event.type in version.types]
    return _encoder.encode({"DocumentIncarnation": document.incarnation, "Events": events})


def decode_document(body: bytes) -> SeenDocument:
    """Any version's document; anything else is an error, never "no events" (H06)."""
    try:
        return _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(f"This is not a Scheduled Events document: {error}.", hint="Ask again.") from None


def _shown(event: Event, version: ApiVersion) -> dict[str, object]:
    shown: dict[str, object] = {
        "EventId": event.id,
        "EventStatus": STATUS_NAMES[event.phase],
        "EventType": TYPE_NAMES[event.type],
        "ResourceType": RESOURCE_TYPE,
        "Resources": _resources(event, version),
        "NotBefore": _not_before(event, version),
    }
    if version.description:
        shown["Description"] = event.description
    if version.source:
        shown["EventSource"] = SOURCE_NAMES[event.source]
    if version.duration:
        shown["DurationInSeconds"] = event.duration
    return shown


def _resources(event: Event, version: ApiVersion) -> list[str]:
    """The names of the VMs hit; the preview put an underscore before those of IaaS VMs (B10, E06)."""
    prefix = "_" if version.underscore and not is_cloud_service(event.scope) else ""
    return [prefix + name for name in event.resources]


def _not_before(event: Event, version: ApiVersion) -> str:
    if event.phase is not Phase.SCHEDULED:
        return ""
    return format_iso(event.not_before) if version.iso_dates else format_rfc1123(event.not_before)


def format_rfc1123(moment: datetime) -> str:
    """`Mon, 19 Sep 2016 18:29:47 GMT`, whatever the locale."""
    day, month = _DAYS[moment.weekday()], _MONTHS[moment.month - 1]
    return f"{day}, {moment:%d} {month} {moment.year:04d} {moment:%H:%M:%S} GMT"


def format_iso(moment: datetime) -> str:
    """`2016-09-19T18:29:47Z`."""
    return f"{moment.year:04d}-{moment:%m-%dT%H:%M:%SZ}"


def parse_time(text: str) -> datetime:
    """Either format; without an offset it is UTC."""
    try:
        moment = datetime.fromisoformat(text) if text[:1].isdigit() else parsedate_to_datetime(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise Malformed(f"{text!r} is not a time.", hint="Use RFC 1123 or ISO 8601.") from None
