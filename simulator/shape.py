"""The shape of a document in each api-version, written down from the contract (section B) and not from our code."""

import json
import re
from typing import Any

_SIX = ("EventId", "EventStatus", "EventType", "ResourceType", "Resources", "NotBefore")
_FIRST = frozenset({"Freeze", "Reboot", "Redeploy"})
_ALL = _FIRST | {"Preempt", "Terminate"}
_SEVEN, _EIGHT = (*_SIX, "Description"), (*_SIX, "Description", "EventSource")

KEYS = {
    "2017-03-01": _SIX,
    "2017-08-01": _SIX,
    "2017-11-01": _SIX,
    "2019-01-01": _SIX,
    "2019-04-01": _SEVEN,
    "2019-08-01": _EIGHT,
    "2020-07-01": (*_EIGHT, "DurationInSeconds"),
    "2024-07-09": (*_EIGHT, "DurationInSeconds"),
}
TYPES = dict.fromkeys(KEYS, _ALL) | {
    "2017-03-01": _FIRST,
    "2017-08-01": _FIRST,
    "2017-11-01": _FIRST | {"Preempt"},
    "2024-07-09": _ALL | {"SpotRebalanceRecommendation"},
}
PREVIEW = "2017-03-01"

_GUID = re.compile(r"[0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12}")
_RFC_1123 = re.compile(r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT")
_ISO_8601 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def faults(body: bytes, version: str, is_role: bool) -> list[str]:
    """Everything about a document that its api-version does not allow; `is_role` when a cloud service reads it."""
    document = json.loads(body)
    if list(document) != ["DocumentIncarnation", "Events"]:
        return [f"keys are {list(document)}"]
    found = [] if type(document["DocumentIncarnation"]) is int else ["DocumentIncarnation is no integer"]
    if json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode() != body:
        found.append("not compact")
    return found + [fault for event in document["Events"] for fault in _event_faults(event, version, is_role)]


def _event_faults(event: dict[str, Any], version: str, is_role: bool) -> list[str]:
    if tuple(event) != KEYS[version]:
        return [f"an event has the keys {list(event)}"]
    allowed = {
        "EventId": bool(_GUID.fullmatch(event["EventId"])),
        "EventStatus": event["EventStatus"] in ("Scheduled", "Started"),
        "EventType": event["EventType"] in TYPES[version],
        "ResourceType": event["ResourceType"] == "VirtualMachine",
        "Resources": _are_names(event["Resources"], version == PREVIEW and not is_role),
        "NotBefore": _is_not_before(event["NotBefore"], event["EventStatus"], version),
        "Description": isinstance(event.get("Description", ""), str),
        "EventSource": event.get("EventSource", "User") in ("Platform", "User"),
        "DurationInSeconds": _is_duration(event.get("DurationInSeconds", -1)),
    }
    return [f"{key} is {event[key]!r}" for key, fine in allowed.items() if not fine]


def _are_names(names: object, underscored: bool) -> bool:
    """The preview wrote an underscore before the names of IaaS VMs, and only there (B10)."""
    if not isinstance(names, list) or not names or not all(isinstance(name, str) and name for name in names):
        return False
    return all(name.startswith("_") == underscored for name in names)


def _is_not_before(text: object, status: str, version: str) -> bool:
    if status == "Started" or not isinstance(text, str):
        return text == ""
    return bool((_ISO_8601 if version == PREVIEW else _RFC_1123).fullmatch(text))


def _is_duration(value: object) -> bool:
    return type(value) is int and value >= -1
