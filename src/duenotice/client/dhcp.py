"""Finding the metadata service by DHCP, for VMs outside a virtual network (A13); it asks, and never takes a lease."""

import contextlib
import fcntl
import os
import secrets
import socket
import struct
from ipaddress import IPv4Address
from pathlib import Path

from duenotice.clock import monotonic
from duenotice.errors import Malformed, Misconfigured, Unavailable
from duenotice.wire import dhcp

RESEND_SECONDS = 1.0
BROADCAST = "255.255.255.255"
LARGEST_PACKET = 4096

_ROUTES = Path("/proc/thread-self/net/route")
_SIOCGIFHWADDR = 0x8927
_IFREQ = struct.Struct("16sH6s16x")  # name, kind of hardware, hardware address
_ETHERNET = 1


def discover_endpoint(interface: str | None = None, timeout: float = 10.0) -> str:
    """Ask by DHCP where the metadata service is; `http://A.B.C.D`.

    Asks on one interface, by default that of the default route, again every second until `timeout`. Replies that are
    broken, for another machine, or without option 245 are ignored. Needs root, or CAP_NET_BIND_SERVICE and CAP_NET_RAW.
    Raises Misconfigured for an interface that cannot be asked on, Unavailable if no answer came.
    """
    name = interface or _default_interface()
    with broadcast_socket(name, dhcp.CLIENT_PORT) as opened:
        asked = dhcp.Discover(secrets.randbits(32), _hardware_address(opened, name))
        try:
            return f"http://{_ask(opened, asked, name, timeout)}"
        except OSError as error:
            raise Unavailable(f"Cannot ask on {name}: {error.strerror}.", hint="Is the interface up?") from None


def broadcast_socket(interface: str, port: int) -> socket.socket:
    """A UDP socket that hears and sends broadcasts on one interface only."""
    _check_name(interface)
    opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        # The machine's own DHCP client may hold the port too; broadcasts reach both.
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, os.fsencode(interface))
        opened.bind(("", port))
    except OSError as error:
        opened.close()
        hint = "Run as root." if isinstance(error, PermissionError) else "Is another program holding the port?"
        raise Unavailable(f"Cannot use UDP port {port} on {interface}: {error.strerror}.", hint=hint) from None
    return opened


def _ask(opened: socket.socket, asked: dhcp.Discover, interface: str, timeout: float) -> IPv4Address:
    """Send, listen for a while, send again: broadcasts get lost."""
    deadline = monotonic() + timeout
    complaints: list[str] = []
    while True:
        opened.sendto(dhcp.encode_discover(asked), (BROADCAST, dhcp.SERVER_PORT))
        until = min(deadline, monotonic() + RESEND_SECONDS)
        if (endpoint := _listen(opened, asked, until, complaints)) is not None:
            return endpoint
        if monotonic() >= deadline:
            raise _no_answer(interface, timeout, complaints)


def _listen(opened: socket.socket, asked: dhcp.Discover, until: float, complaints: list[str]) -> IPv4Address | None:
    """The first good reply before `until`; what is wrong with bad ones is added to the complaints."""
    while (left := until - monotonic()) > 0:
        opened.settimeout(left)
        with contextlib.suppress(TimeoutError):
            data = opened.recv(LARGEST_PACKET)
            try:
                return dhcp.decode_offer(data, asked).endpoint
            except Malformed as error:
                complaints[:] = [error.message]
    return None


def _no_answer(interface: str, timeout: float, complaints: list[str]) -> Unavailable:
    if complaints:
        return Unavailable(
            f"No DHCP reply on {interface} within {timeout:g} s told where the metadata service is.",
            hint=f"The last reply is not valid: {complaints[-1]} Give the address instead, usually 169.254.169.254.",
        )
    return Unavailable(
        f"Nobody answered the DHCPDISCOVER on {interface} within {timeout:g} s.",
        hint="In a virtual network the address is http://169.254.169.254 and needs no discovery.",
    )


def _check_name(interface: str) -> None:
    known = [name for _, name in socket.if_nameindex()]
    if interface not in known:
        raise Misconfigured(f"There is no network interface {interface!r}.", hint=f"There are {', '.join(known)}.")


def _hardware_address(opened: socket.socket, interface: str) -> bytes:
    asked = _IFREQ.pack(os.fsencode(interface), 0, b"")
    _, hardware, mac = _IFREQ.unpack(fcntl.ioctl(opened, _SIOCGIFHWADDR, asked))
    if hardware != _ETHERNET:
        raise Misconfigured(f"The interface {interface!r} is not Ethernet.", hint="Name one that leads to the network.")
    return bytes(mac)


def _default_interface() -> str:
    """The interface of the default route: on other interfaces a container or a guest could answer."""
    rows = [line.split() for line in _ROUTES.read_text().splitlines()[1:]]
    for name, destination, *_, mask in (row[:8] for row in rows):
        if destination == mask == "00000000":
            return name
    raise Misconfigured(
        "There is no default route, so it is not known which interface to ask on.", hint="Name the interface."
    )
