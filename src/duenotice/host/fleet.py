"""From domains to a fleet: each domain is a VM of the same name, on the host where it is. Pure."""

from collections.abc import Iterable, Mapping, Sequence, Set
from ipaddress import IPv4Address
from typing import NamedTuple

from msgspec import structs

from duenotice.domain.fleet import Declaration, Group, GroupKind, Host, Site, Vm
from duenotice.domain.last_applied import digest_of, lines_of
from duenotice.host.hypervisor import DomainState, GuestDomain, Note, is_ipv4
from duenotice.host.network import METADATA_ADDRESS, GuestPort
from duenotice.wire.fleet_file import is_name

_REMOVED = ("preempt", "terminate")
_HOST = "this host"


class Composed(NamedTuple):
    """A fleet, and why some domains are not in it, by name."""

    declaration: Declaration
    troubles: dict[str, str]


def compose(
    guests: Iterable[GuestDomain],
    hosts: Sequence[str],
    file: Declaration | None,
    present: Mapping[str, Vm],
    busy: set[str],
    own: Set[str] = frozenset(),
) -> Composed:
    """The fleet that these domains are.

    `file` says more about domains of the same names. A VM of the fleet as it is (`present`) that is just being hit
    (`busy`) stays as it is: it may be shut off, or on two hosts. `own` are the addresses of this host.
    """
    troubles: dict[str, str] = {}
    found: dict[str, Vm] = {name: present[name] for name in sorted(busy & present.keys())}
    addresses = dict.fromkeys(own, _HOST) | {vm.address: vm.name for vm in found.values()}
    guests = list(_each_once(guests))
    macs = {(guest.host, guest.mac): guest.name for guest in guests if guest.name in found}
    said = {} if file is None else {vm.name: vm for vm in file.vms}
    for guest in sorted(guests, key=lambda guest: (not _keeps_address(guest, said, present), guest.name)):
        if guest.name in found or _is_removed(guest):
            continue
        trouble = _trouble(guest, vm := _vm(guest, said.get(guest.name)), addresses, macs)
        if trouble:
            troubles[guest.name] = trouble
        else:
            found[guest.name], addresses[vm.address] = vm, guest.name
            macs[guest.host, guest.mac] = guest.name
    vms = tuple(found[name] for name in sorted(found))
    return Composed(_declared(vms, hosts, file), troubles)


def guest_ports(guests: Iterable[GuestDomain], vms: Mapping[str, Vm], host: str) -> list[GuestPort]:
    """Who is on the bridge of a host, with the address that the fleet has for it."""
    return [
        GuestPort(guest.name, guest.tap, guest.mac, vms[guest.name].address)
        for guest in guests
        if guest.host == host and guest.tap and guest.name in vms
    ]


def _each_once(guests: Iterable[GuestDomain]) -> Iterable[GuestDomain]:
    """A domain that is on two hosts counts where it runs."""
    found: dict[str, GuestDomain] = {}
    for guest in guests:
        if guest.name not in found or found[guest.name].state is DomainState.OFF:
            found[guest.name] = guest
    return found.values()


def _keeps_address(guest: GuestDomain, said: Mapping[str, Vm], present: Mapping[str, Vm]) -> bool:
    """Whether it has had this address before: then it keeps it against one that comes later."""
    old = present.get(guest.name)
    return old is not None and old.address == _vm(guest, said.get(guest.name)).address


def _vm(guest: GuestDomain, said: Vm | None) -> Vm:
    if said is not None:
        return structs.replace(said, host=guest.host, address=said.address or guest.address)
    return Vm(
        guest.name,
        guest.address,
        group=f"{GroupKind.AVAILABILITY_SET.value}/{guest.set}" if guest.set else None,
        update_domain=guest.update_domain,
        fault_domain=0 if guest.set else None,
        zone=None if guest.set else guest.zone,
        host=guest.host,
        spot=guest.spot,
    )


def _trouble(guest: GuestDomain, vm: Vm, addresses: Mapping[str, str], macs: Mapping[tuple[str, str], str]) -> str:
    """Why a domain cannot be told, with what to do; empty if it can."""
    if not is_name(guest.name):
        return "its name is not valid for a VM. Use letters, digits, dot, dash and underscore (virsh domrename)."
    if guest.trouble:
        return guest.trouble
    if guest.set and not is_name(guest.set):
        return f"its set {guest.set!r} is not a valid name."
    if guest.zone is not None and not is_name(guest.zone):
        return f"its zone {guest.zone!r} is not a valid name."
    if not vm.address:
        return "nothing says its address. Give it one in its metadata, in the fleet file, or by libvirt's DHCP."
    if not is_ipv4(vm.address):
        return f"its address {vm.address!r} is not an IPv4 address. Give it one in the fleet file."
    if vm.address == METADATA_ADDRESS:
        return f"its address is {METADATA_ADDRESS}, which is the service's."
    return _odd_address(vm.address) or _taken(guest, vm, addresses, macs)


def _odd_address(address: str) -> str:
    read = IPv4Address(address)
    odd = read.is_unspecified or read.is_loopback or read.is_multicast or read.is_reserved
    return f"its address {address} cannot be that of a guest. Give it its own." if odd else ""


def _taken(guest: GuestDomain, vm: Vm, addresses: Mapping[str, str], macs: Mapping[tuple[str, str], str]) -> str:
    """A guest is known by both, so two that share one cannot be told apart."""
    if vm.address in addresses:
        other = addresses[vm.address]
        return f"its address {vm.address} is that of {other}. Give {'it' if other == _HOST else 'each'} its own."
    if guest.mac and (guest.host, guest.mac) in macs:
        return f"its MAC {guest.mac} is that of {macs[guest.host, guest.mac]}. Give each its own (virsh edit)."
    return ""


def _is_removed(guest: GuestDomain) -> bool:
    """Whether it was evicted or deleted, and nobody has started it again; its domain may still be defined."""
    last: Note | None = guest.impact_notes[-1] if guest.impact_notes else None
    return guest.state is DomainState.OFF and last is not None and (last.type, last.step) in _ENDS


_ENDS = frozenset((kind, "done") for kind in _REMOVED)


def _declared(vms: tuple[Vm, ...], hosts: Sequence[str], file: Declaration | None) -> Declaration:
    groups = {} if file is None else {group.key: group for group in file.groups}
    sets = sorted({vm.group for vm in vms if vm.group is not None} - groups.keys())
    for key in sets:
        domains = max(5, *((vm.update_domain or 0) + 1 for vm in vms if vm.group == key))
        groups[key] = Group(GroupKind.AVAILABILITY_SET, key.partition("/")[2], domains)
    site = Site() if file is None else file.site
    made = Declaration("", site, tuple(map(Host, hosts)), tuple(groups.values()), vms)
    return structs.replace(made, digest=digest_of(lines_of(made)))
