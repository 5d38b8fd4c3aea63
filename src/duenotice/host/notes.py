"""What we write into a domain's metadata: which impact has begun or is over, so that nothing is ever done twice.

A note in the *kept* configuration stays while the domain is shut off. A mark in the *running* configuration is gone
with that run: so libvirt itself tells whether a domain was started again since an impact began.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from xml.etree import ElementTree

NAMESPACE = "urn:duenotice:libvirt:1"
NOTES_NAMESPACE = "urn:duenotice:libvirt:impacts:1"
"""Of its own: libvirt has one metadata element for each namespace."""
KEY = "duenotice-impacts"
MOST = 8
"""Notes of so many events are kept; more than can be under way for one VM."""


class Note(NamedTuple):
    """How far the impact of an event is at this domain.

    `step` is `begun`, `paused` or `done`; `until` is when patience with the guest ends, or its pause; `mark` says that
    this is the run that the impact began with; `starts` whether the domain is to run afterwards; `what` happened.
    `ends` is the same moment as `until`, in microseconds since the `boot` of the machine that wrote it: that count goes
    on evenly when somebody sets the clock. `target` is the host that it moves to. `uuid`
    is that of the domain: a copy of it has our notes too, and another one.
    """

    event: str
    type: str
    step: str
    until: datetime | None = None
    starts: bool = True
    mark: bool = False
    what: str = ""
    boot: str = ""
    ends: int = 0
    target: str = ""
    uuid: str = ""


def notes_in(domain: ElementTree.Element) -> tuple[Note, ...]:
    """The notes in the XML of a domain."""
    found = domain.find(f"metadata/{{{NOTES_NAMESPACE}}}impacts")
    return () if found is None else tuple(map(_note, found))


def notes_of(xml: str) -> tuple[Note, ...]:
    """The notes in our element alone."""
    return tuple(map(_note, ElementTree.fromstring(xml))) if xml else ()


def element(notes: Sequence[Note]) -> str:
    """Our element with these notes."""
    whole = ElementTree.Element("impacts")
    for note in notes[-MOST:]:
        fields = {
            "event": note.event,
            "type": note.type,
            "step": note.step,
            "until": "" if note.until is None else note.until.isoformat(),
            "starts": "" if note.starts else "no",
            "mark": "yes" if note.mark else "",
            "what": note.what,
            "boot": note.boot,
            "ends": str(note.ends) if note.boot else "",
            "target": note.target,
            "uuid": note.uuid,
        }
        ElementTree.SubElement(whole, "impact", {key: value for key, value in fields.items() if value})
    return ElementTree.tostring(whole, encoding="unicode")


def find(notes: Sequence[Note], event: str) -> Note | None:
    """The note of an event."""
    return next((note for note in notes if note.event == event), None)


def put(notes: Sequence[Note], note: Note) -> tuple[Note, ...]:
    """The notes with this one as the last, in place of an older one of the same event."""
    return (*(other for other in notes if other.event != note.event), note)


def _note(found: ElementTree.Element) -> Note:
    until = found.get("until")
    return Note(
        found.get("event", ""),
        found.get("type", ""),
        found.get("step", ""),
        datetime.fromisoformat(until) if until else None,
        found.get("starts") != "no",
        found.get("mark") == "yes",
        found.get("what", ""),
        found.get("boot", ""),
        int(found.get("ends", 0)),
        found.get("target", ""),
        found.get("uuid", ""),
    )
