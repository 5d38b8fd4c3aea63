"""The lines of which the rows are made: what a client asked and was told, and what happened meanwhile."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from duenotice.testkit.verdicts.checks import Said
from duenotice.testkit.verdicts.evidence import Evidence
from tests.testkit.transcript import Line, decode

A, B, E = "A Scheduled Reboot me", "B Scheduled Reboot me", "E Scheduled Reboot me"
OF_USER = "U Scheduled Reboot me"
A_STARTED, B_STARTED = "A Started Reboot me", "B Started Reboot me"
THEIRS, THEIRS_STARTED = "T Scheduled Reboot other", "T Started Reboot other"
LED, OURS = "L Scheduled Reboot other,me", "O Scheduled Reboot me,other"
"""Events as a document shows them: A, B, E and U are the client's, T is a neighbour's, L and O are of two VMs."""

ENDS_AT = 100.0
UNANSWERED = {"status": 0, "after": None}
WAIT = {"wait": "300s"}


def get(at: float, *events: str, **unusual: Any) -> Line:
    """A poll, and the events it was shown at once, unless something is unusual."""
    shows = {} if unusual.keys() & {"answer", "status", "path"} else {"events": list(events)}
    return {"at": at, "request": "GET", **shows, **unusual}


def post(at: float, *event_ids: str, **unusual: Any) -> Line:
    """An approval of events."""
    body = {"StartRequests": [{"EventId": event_id} for event_id in event_ids]}
    return {"at": at, "request": "POST", "body": body, **unusual}


def raised(event_id: str, *vms: str, type: str = "reboot", source: str = "platform") -> Line:
    """An event of ours, if no VMs are named."""
    return {"at": 0.0, "raised": event_id, "vms": vms or ("me",), "type": type, "source": source}


def duty(until: float, rule: str, *event_ids: str) -> Line:
    """By when it had to handle events, and which rule asks for it."""
    return {"at": until, "had_to_handle": event_ids, "rule": rule}


def fault(begun: float, ended: float, name: str = "500") -> Line:
    """A time in which answers were wrong on purpose."""
    return {"at": begun, "fault": name, "for": ended - begun}


def evidence(*lines: Line, ended: float = ENDS_AT, **head: Any) -> Evidence:
    """What is known at the end. Requests are numbered, and an incarnation is the next when the events are others."""
    numbered: list[Line] = []
    number, incarnation, before = 0, 0, None
    for line in lines:
        if "request" in line:
            number += 1
            line = line | {"request": f"{line['request']} {number}"}
        if "events" in line:
            incarnation += before not in (None, line["events"])
            before = line["events"]
            incarnation = line.get("incarnation", incarnation)
            line = line | {"incarnation": incarnation}
        numbered.append(line)
    return decode([{"vm": "me", "ended": ended, **head}, *numbered])


class Row(NamedTuple):
    """Lines, and what a rule says of them."""

    sentence: str
    lines: list[Line]
    said: Said
    head: Mapping[str, Any] = MappingProxyType({})


OVER = [raised("A"), {"at": 3, "completed": "A"}]
"""An event of its own, and when it was over."""

EARLIER = [raised("E"), get(0, E), duty(0.5, "comes-back", "E")]
"""An event of its own that it had to handle before."""
