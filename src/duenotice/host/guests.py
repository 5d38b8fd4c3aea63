"""A domain as libvirt describes it becomes a guest: how it is known on the bridge, and where it stands in the fleet."""

from collections.abc import Mapping
from ipaddress import IPv4Address
from typing import NamedTuple
from xml.etree import ElementTree

from duenotice.host.notes import NAMESPACE, Note, notes_in
from duenotice.host.ports import DomainState
from duenotice.toml import near_miss

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
    notes: tuple[Note, ...] = ()
    trouble: str = ""


def guest_of(xml: str, host: str, state: DomainState, bridge: str, leases: Mapping[str, str]) -> GuestDomain:
    """What libvirt's XML says; `leases` are addresses by MAC that libvirt's own DHCP server has given out."""
    domain = ElementTree.fromstring(xml)
    mac, tap = _plug(domain, bridge)
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
        notes=notes_in(domain),
    )
    return _with_update_domain(guest, facts)


def _plug(domain: ElementTree.Element, bridge: str) -> tuple[str, str]:
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
