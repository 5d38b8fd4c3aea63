"""Where messages may go: a name is resolved, its address is checked, and only a checked address is connected to.

Without that, somebody who may subscribe could make the service ask what only this machine can reach: itself, its
neighbours on the link, or the metadata service of the cloud that it runs in.
"""

import socket
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

from duenotice.errors import Misconfigured, Refused, Unavailable

Address = IPv4Address | IPv6Address

METADATA = frozenset(
    map(ip_address, ("168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254"))
)
"""Where clouds have what only a VM may ask, beside the link-local 169.254.169.254."""

_NAT64 = IPv6Network("64:ff9b::/96")


class AllowedAddresses:
    """All except those that are refused, and of the refused ones the networks that the operator has allowed."""

    def __init__(self, networks: Iterable[str] = ()) -> None:
        try:
            self._networks = [ip_network(text.strip(), strict=False) for text in networks]
        except ValueError as error:
            hint = "Write networks like 127.0.0.0/8,10.1.2.3/32."
            raise Misconfigured(f"push_allow is not valid: {error}.", hint=hint) from None

    def refusal(self, text: str) -> str:
        """Why an address may not be asked; empty when it may."""
        address = ip_address(text.partition("%")[0])
        if self._is_allowed(address):
            return ""
        kinds = (kind for meant in (address, *_inside(address)) if (kind := _kind(meant)))
        kind = next(kinds, "")
        return f"{address} is {kind}" if kind else ""

    def _is_allowed(self, address: Address) -> bool:
        return any(address in network for network in self._networks if network.version == address.version)


def _inside(address: Address) -> Iterator[Address]:
    """The IPv4 addresses that an IPv6 address leads to."""
    if isinstance(address, IPv6Address):
        if address in _NAT64 or address.packed[:12] == bytes(12):
            yield IPv4Address(address.packed[12:])
        yield from (each for each in (address.ipv4_mapped, address.sixtofour, *(address.teredo or ())) if each)


def _kind(address: Address) -> str:
    if address in METADATA:
        return "a metadata service"
    table = {
        "loopback": address.is_loopback,
        "link-local": address.is_link_local,
        "no address": address.is_unspecified,
        "a multicast address": address.is_multicast,
        "a reserved address": address.is_reserved or str(address) == "255.255.255.255",
    }
    return next((kind for kind, holds in table.items() if holds), "")


def resolve(host: str, port: int, allowed: AllowedAddresses) -> list[str]:
    """The addresses of a host that may be asked; waits for the resolver, so it needs a thread of its own."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Unavailable(f"{host} cannot be resolved: {error}.", hint="Is the name right?") from None
    addresses = list(dict.fromkeys(str(info[4][0]) for info in found))
    good = [address for address in addresses if not allowed.refusal(address)]
    if not good:
        why = next(filter(None, map(allowed.refusal, addresses)), f"{host} has no address")
        raise Refused(f"{why}, and messages may not go there.", hint="An operator can allow it with --push-allow.")
    return good
