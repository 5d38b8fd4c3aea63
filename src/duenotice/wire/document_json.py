"""A document as each api-version shows it (section B, S8); `seen_document` reads it."""

import msgspec

from duenotice.domain.document import Document
from duenotice.domain.event import Event, Phase
from duenotice.domain.scope import is_cloud_service
from duenotice.wire.api_versions import ApiVersion
from duenotice.wire.event_names import SOURCE_NAMES, STATUS_NAMES, TYPE_NAMES
from duenotice.wire.times import format_iso, format_rfc1123

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
