"""What we need of a hypervisor: its domains, our notes with them, and what it is asked to do. It knows no libvirt.

A note says which impact has begun or is over, so that nothing is ever done twice. In the *kept* configuration it stays
while the domain is shut off. A mark in the *running* configuration is gone with that run: so libvirt itself tells
whether a domain was started again since an impact began.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from enum import Enum
from ipaddress import IPv4Address
from typing import NamedTuple, Protocol
from xml.etree import ElementTree

from duenotice.errors import Refused
from duenotice.toml import near_miss

NAMESPACE = "urn:duenotice:libvirt:1"
NOTES_NAMESPACE = "urn:duenotice:libvirt:impacts:1"
"""Of its own: libvirt has one metadata element for each namespace."""
NOTES_KEY = "duenotice-impacts"
MOST_NOTES = 8
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


def notes_element(notes: Sequence[Note]) -> str:
    """Our element with these notes."""
    whole = ElementTree.Element("impacts")
    for note in notes[-MOST_NOTES:]:
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


def find_note(notes: Sequence[Note], event: str) -> Note | None:
    """The note of an event."""
    return next((note for note in notes if note.event == event), None)


def put_note(notes: Sequence[Note], note: Note) -> tuple[Note, ...]:
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


class HypervisorRefused(Refused):
    """The hypervisor did not do it; the message is its reason."""


class DomainState(Enum):
    """What a domain does."""

    RUNNING = "running"
    PAUSED = "paused"
    OFF = "off"
    GONE = "gone"
    """There is no domain of that name."""


class DomainStatus(NamedTuple):
    """A domain now. `kept` are the notes of its configuration, `running` those of the run that is on.

    `uuid` tells it from another domain of the same name, on another host.
    """

    state: DomainState
    is_transient: bool = False
    kept: "tuple[Note, ...]" = ()
    running: "tuple[Note, ...]" = ()
    uuid: str = ""


GONE = DomainStatus(DomainState.GONE)


class Hypervisor(Protocol):
    """One host. Every call may block, and raises `Unavailable` while the host cannot be asked."""

    name: str

    def guests(self, bridge: str) -> "list[GuestDomain]":
        """All domains."""

    def listen(self, changed: Callable[[], None]) -> None:
        """Call this from any thread whenever a domain or the connection has changed."""

    def look(self, domain: str) -> DomainStatus:
        """How a domain is."""

    def keep_notes(self, domain: str, notes: "Sequence[Note]") -> None:
        """In the kept configuration; of a transient domain in the running one."""

    def mark_run(self, domain: str, notes: "Sequence[Note]") -> None:
        """In the running configuration only."""

    def suspend(self, domain: str) -> None:
        """Pause it."""

    def resume(self, domain: str) -> None:
        """End its pause."""

    def press(self, domain: str) -> None:
        """Press its power button (ACPI)."""

    def destroy(self, domain: str) -> None:
        """Cut its power."""

    def start(self, domain: str) -> None:
        """Power it up."""

    def undefine(self, domain: str) -> None:
        """Forget its configuration."""

    def description(self, domain: str) -> str:
        """Its kept configuration."""

    def define(self, description: str) -> None:
        """Take over the configuration of another host's domain."""

    def migrate(self, domain: str, target: "Hypervisor") -> None:
        """Move it while it runs."""


FACTS = ("address", "zone", "set", "update-domain", "spot")
"""Attributes of our element in a domain's metadata."""


class GuestDomain(NamedTuple):
    """One domain. `tap` is its interface on the bridge while it runs; `trouble` is why it cannot be told."""

    name: str
    uuid: str
    host: str
    state: DomainState
    mac: str = ""
    tap: str = ""
    address: str = ""
    zone: str | None = None
    set: str = ""
    update_domain: int | None = None
    spot: bool = False
    impact_notes: tuple[Note, ...] = ()
    trouble: str = ""


def guest_of(xml: str, host: str, state: DomainState, bridge: str, leases: Mapping[str, str]) -> GuestDomain:
    """What libvirt's XML says; `leases` are addresses by MAC that libvirt's own DHCP server has given out."""
    domain = ElementTree.fromstring(xml)
    mac, tap = _interface(domain, bridge)
    said = domain.find(f"metadata/{{{NAMESPACE}}}vm")
    facts = dict(said.attrib) if said is not None else {}
    guest = GuestDomain(
        name=domain.findtext("name", ""),
        uuid=domain.findtext("uuid", ""),
        host=host,
        state=state,
        mac=mac,
        tap=tap if state in (DomainState.RUNNING, DomainState.PAUSED) else "",
        address=facts.get("address") or leases.get(mac, ""),
        zone=facts.get("zone"),
        set=facts.get("set", ""),
        spot=facts.get("spot") == "yes",
        impact_notes=notes_in(domain),
    )
    return _with_update_domain(guest, facts)


def _interface(domain: ElementTree.Element, bridge: str) -> tuple[str, str]:
    """MAC and tap of the first interface on the bridge; an empty `bridge` means any."""
    for interface in domain.iterfind("devices/interface"):
        source, mac, tap = (interface.find(name) for name in ("source", "mac", "target"))
        on = "" if source is None else source.get("bridge", "")
        if mac is not None and (not bridge or on == bridge):
            return mac.get("address", "").lower(), "" if tap is None else tap.get("dev", "")
    return "", ""


def _with_update_domain(guest: GuestDomain, facts: dict[str, str]) -> GuestDomain:
    """Its place in its set; a fact that is not valid is a trouble, and never guessed."""
    unknown = [name for name in facts if name not in FACTS]
    if unknown:
        hint = near_miss(unknown[0], FACTS, otherwise=f"Use {', '.join(FACTS)}.")
        return guest._replace(trouble=f"its metadata has an unknown attribute {unknown[0]!r}. {hint}")
    if guest.address and not is_ipv4(guest.address):
        return guest._replace(trouble=f"its address {guest.address!r} is not an IPv4 address.")
    if (spot := facts.get("spot", "no")) not in ("yes", "no"):
        return guest._replace(trouble=f"its spot {spot!r} is neither yes nor no.")
    text = facts.get("update-domain", "0")
    if not text.isdecimal() or int(text) > 19:
        return guest._replace(trouble=f"its update-domain {text!r} is not a number from 0 to 19.")
    return guest._replace(update_domain=int(text)) if guest.set else guest


def is_ipv4(text: str) -> bool:
    """Whether this is an IPv4 address: nftables has another type for others."""
    try:
        IPv4Address(text)
    except ValueError:
        return False
    return True
