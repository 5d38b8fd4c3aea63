"""A document as the service writes it, and an approval as it reads it."""

from uuid import UUID

import msgspec

from duenotice.domain.event import Event, Phase
from duenotice.domain.fleet import is_cloud_service
from duenotice.domain.state import Document
from duenotice.errors import Malformed
from duenotice.wire.api_versions import SOURCE_NAMES, STATUS_NAMES, TYPE_NAMES, ApiVersion
from duenotice.wire.spans import format_iso, format_rfc1123

RESOURCE_TYPE = "VirtualMachine"

_encoder = msgspec.json.Encoder()


def encode_document(document: Document, version: ApiVersion) -> bytes:
    """Compact JSON, keys in the order of the contract; types the version does not know are left out (B10)."""
    events = [_shown(event, version) for event in document.events if event.type in version.types]
    return _encoder.encode({"DocumentIncarnation": document.incarnation, "Events": events})


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


_HINT = 'Send {"StartRequests":[{"EventId":"…"}]} with the EventId from the document.'


class _StartRequest(msgspec.Struct, rename="pascal"):
    event_id: str


class _StartRequests(msgspec.Struct, rename="pascal"):
    """`DocumentIncarnation` may be there, as string or number, and is ignored like any other key."""

    start_requests: list[_StartRequest]


_decoder = msgspec.json.Decoder(_StartRequests)


def decode_start_requests(body: bytes) -> tuple[str, ...]:
    """The ids to approve, in the one form we use: upper case (B03)."""
    try:
        asked = _decoder.decode(body.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(f"The body is not a list of StartRequests: {error}.", hint=_HINT) from None
    if not asked.start_requests:
        raise Malformed("StartRequests is empty.", hint=_HINT)
    return tuple(canonical_id(request.event_id) for request in asked.start_requests)


def canonical_id(text: str) -> str:
    """An EventId as we write it; one that is not a GUID stays as it is, and is then unknown."""
    try:
        return str(UUID(text)).upper()
    except ValueError:
        return text
