"""Where messages may go: a name is resolved, its address is checked, and only a checked address is connected to.

Without that, somebody who may subscribe could make the service ask what only this machine can reach: itself, by any of
its addresses, its neighbours on the link, or the metadata service of the cloud that it runs in. Addresses come and go
while a service runs, and a name may lead to us for a moment; so the check is made for each connection, and again once
it is there.
"""

import errno
import os
import socket
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from struct import Struct

from duenotice.errors import Misconfigured, Refused, Unavailable

Address = IPv4Address | IPv6Address

METADATA = frozenset(
    map(ip_address, ("168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254"))
)
"""Where clouds have what only a VM may ask, beside the link-local 169.254.169.254."""

_NAT64 = IPv6Network("64:ff9b::/96")

_FAMILY = {4: socket.AF_INET, 6: socket.AF_INET6}
_HEAD, _ROUTE, _ATTRIBUTE, _ERROR = Struct("=IHHII"), Struct("=BBBBBBBBI"), Struct("=HH"), Struct("=i")
"""The parts of a netlink message about a route; the numbers below are those of linux/rtnetlink.h."""
_NEW_ROUTE, _GET_ROUTE, _REQUEST, _TO, _LOCAL, _ANYCAST = 24, 26, 1, 1, 2, 4


class NotAllowedNow(Unavailable):
    """A name or an address that leads where messages may not go. It may lead elsewhere later, so it is tried again."""


_MAY_NOT = "{why}, and messages may not go there."
_HINT = "An operator can allow it with --push-allow."


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
        address = _parsed(text)
        if self._is_allowed(address):
            return ""
        kind = _never(address) or ("an address of this machine" if any(map(_is_ours, _meant(address))) else "")
        return f"{address} is {kind}" if kind else ""

    def check(self, address: str) -> None:
        """Raise when a connection to this address must not be used."""
        if why := self.refusal(address):
            raise NotAllowedNow(_MAY_NOT.format(why=why), hint=_HINT)

    def _is_allowed(self, address: Address) -> bool:
        return any(address in network for network in self._networks if network.version == address.version)


def _inside(address: Address) -> Iterator[Address]:
    """The IPv4 addresses that an IPv6 address leads to."""
    if isinstance(address, IPv6Address):
        if address in _NAT64 or address.packed[:12] == bytes(12):
            yield IPv4Address(address.packed[12:])
        yield from (each for each in (address.ipv4_mapped, address.sixtofour, *(address.teredo or ())) if each)


def _meant(address: Address) -> tuple[Address, ...]:
    """An address, and the ones that it leads to."""
    return (address, *_inside(address))


def _never(address: Address) -> str:
    """What an address is that nobody else can ever have; empty for all others."""
    return next(filter(None, map(_kind, _meant(address))), "")


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


def _is_ours(address: Address) -> bool:
    """Whether the kernel would lead a connection to this machine itself; it is asked, and nothing is sent.

    Only its routes know: a list of interfaces would miss routes of the kind `local`. Where they cannot be asked (not
    Linux, or a sandbox without AF_NETLINK), an address is ours when we may bind to it. With `ip_nonlocal_bind`, as
    beside a load balancer, that is true of all, and then nothing is sent anywhere.
    """
    try:
        return _kind_of_route(address) in (_LOCAL, _ANYCAST)
    except (AttributeError, OSError):
        return _may_bind(address)


def _kind_of_route(address: Address) -> int:
    """The kind of the route to an address; 0 when there is none."""
    family = _FAMILY[address.version]
    to = _ATTRIBUTE.pack(_ATTRIBUTE.size + len(address.packed), _TO) + address.packed
    route = _ROUTE.pack(family, 8 * len(address.packed), 0, 0, 0, 0, 0, 0, 0) + to
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
        kernel.settimeout(1.0)
        kernel.send(_HEAD.pack(_HEAD.size + len(route), _GET_ROUTE, _REQUEST, 1, 0) + route)
        told = kernel.recv(65536)
    if _HEAD.unpack_from(told)[1] == _NEW_ROUTE:
        return int(_ROUTE.unpack_from(told, _HEAD.size)[7])
    error = -_ERROR.unpack_from(told, _HEAD.size)[0]
    if error in (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EACCES, errno.EINVAL):
        return 0
    raise OSError(error, os.strerror(error))


def _may_bind(address: Address) -> bool:
    try:
        with socket.socket(_FAMILY[address.version], socket.SOCK_DGRAM) as tried:
            tried.bind((str(address), 0))
    except OSError:
        return False
    return True


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
        never = _is_written_out(host) and all(map(_never, map(_parsed, addresses)))
        raise (Refused if never else NotAllowedNow)(_MAY_NOT.format(why=why), hint=_HINT)
    return good


def _parsed(text: str) -> Address:
    return ip_address(text.partition("%")[0])


def _is_written_out(host: str) -> bool:
    """Whether it is an address, in any way to write one, and no name."""
    try:
        socket.getaddrinfo(host, None, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return False
    return True
