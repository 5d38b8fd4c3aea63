"""The network of guests: who may ask, as nftables rules, and the bridge that gets them and the metadata address."""

import json
import os
import re
import shutil
import socket
import struct
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from duenotice.errors import DuenoticeError, Misconfigured, Unavailable
from duenotice.host.hypervisor import is_ipv4

METADATA_ADDRESS = "169.254.169.254"
TABLE = "duenotice"
FAMILIES = ("bridge", "inet")
"""Where we have a table of that name."""
_INTERFACE = re.compile(r"[\w.@:-]{1,15}")
_MAC = re.compile(r"([0-9a-f]{2}:){5}[0-9a-f]{2}")
_COMMENT = re.compile(r"[\w.-]{1,128}", re.ASCII)


class GuestPort(NamedTuple):
    """A guest on the bridge."""

    vm: str
    tap: str
    mac: str
    address: str

    @property
    def is_valid(self) -> bool:
        """Whether it can be told apart from others, and written into a script as it is.

        One that cannot is left out: else nftables would refuse the rules of all guests.
        """
        named = _INTERFACE.fullmatch(self.tap) and _MAC.fullmatch(self.mac) and _COMMENT.fullmatch(self.vm)
        return bool(named and is_ipv4(self.address))


def rules(bridge: str, guests: Sequence[GuestPort], ports: Iterable[str] = ()) -> str:
    """The script that puts these tables in place of ours, all at once; `ports` are all interfaces of the bridge.

    A port that is not of a guest, such as an uplink, may use nothing of our guests. Other bridges are left alone: there
    the same addresses may be somebody else's.
    """
    guests = sorted(guest for guest in guests if guest.is_valid)
    taps = {guest.tap: f"guest_{number}" for number, guest in enumerate(guests)}
    others = {port: "others" for port in sorted(ports) if _INTERFACE.fullmatch(port)}
    table = _BRIDGE_TABLE.format(
        addresses=_set([METADATA_ADDRESS, *(guest.address for guest in guests)]),
        macs=_elements(guest.mac for guest in guests),
        ways=_ways(others | taps),
        guests="".join(_chain(number, guest) for number, guest in enumerate(guests)),
    )
    return no_rules() + table + _INPUT_TABLE.format(bridge=bridge)


_BRIDGE_TABLE = f"""\
table bridge {TABLE} {{{{
    set addresses {{{{
        type ipv4_addr
        elements = {{addresses}}
    }}}}
    set macs {{{{
        type ether_addr
{{macs}}    }}}}
    chain frames {{{{
        type filter hook prerouting priority -300; policy accept;
        meta protocol {{{{ 8021q, 8021ad }}}} @nh,4,12 0 drop
{{ways}}        ip daddr {METADATA_ADDRESS} drop
    }}}}
{{guests}}    chain others {{{{
        ip daddr {METADATA_ADDRESS} drop
        meta protocol arp arp daddr ip {METADATA_ADDRESS} drop
        ether saddr @macs drop
        ip saddr @addresses drop
        meta protocol arp arp saddr ip @addresses drop
        meta protocol arp arp saddr ether @macs drop
    }}}}
}}}}
"""
_INPUT_TABLE = f"""\
table inet {TABLE} {{{{
    chain packets {{{{
        type filter hook input priority -300; policy accept;
        ip daddr {METADATA_ADDRESS} iifname != {{{{ "lo", "{{bridge}}" }}}} drop
    }}}}
}}}}
"""


def no_rules() -> str:
    """The script that takes ours away; it works whether they are there or not."""
    return "".join(f"table {family} {TABLE}\ndelete table {family} {TABLE}\n" for family in FAMILIES)


def _chain(number: int, guest: GuestPort) -> str:
    return f"""\
    chain guest_{number} {{
        comment "{guest.vm}"
        ether saddr != {guest.mac} ether saddr @macs drop
        ether saddr != {guest.mac} ip daddr {METADATA_ADDRESS} drop
        ip saddr != {guest.address} ip daddr {METADATA_ADDRESS} drop
        ip saddr != {guest.address} ip saddr @addresses drop
        meta protocol arp arp saddr ip != {guest.address} arp saddr ip @addresses drop
        meta protocol arp arp saddr ether != {guest.mac} arp saddr ether @macs drop
        meta protocol arp arp saddr ip {guest.address} arp saddr ether != {guest.mac} drop
    }}
"""


def _ways(chains: Mapping[str, str]) -> str:
    """Which chain is for the frames of which interface."""
    found = _set(f'"{port}" : goto {chain}' for port, chain in chains.items())
    return f"        iifname vmap {found}\n" if chains else ""


def _elements(values: Iterable[str]) -> str:
    """nftables knows no empty list of elements."""
    found = list(values)
    return f"        elements = {_set(found)}\n" if found else ""


def _set(values: Iterable[str]) -> str:
    return f"{{ {', '.join(values)} }}"


_ADMIN_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
_SECONDS = 10
_PROBE_SECONDS = 0.5
_ARP, _ASKS = 0x0806, 1
_RIGHTS = "Be root, or have the capability CAP_NET_ADMIN."


class Bridge:
    """One bridge, by the name of its interface."""

    def __init__(self, name: str) -> None:
        self.name = name

    @contextmanager
    def prepared(self, script: str) -> Iterator[None]:
        """First the rules, then the address; both are gone at the end."""
        self._check()
        self.put(script)
        try:
            with self._address():
                yield
        finally:
            with suppress(DuenoticeError):
                self.put(no_rules())

    def put(self, script: str) -> None:
        """Let nftables do this, all at once or not at all."""
        done = _run("nft", "nftables", "-f", "-", text=script)
        if done.returncode:
            said = _first_line(done.stderr)
            raise Misconfigured(
                f"nftables does not take our rules: {said}.", hint=f"{_RIGHTS} 'nft list tables' shows."
            )

    def is_prepared(self) -> bool:
        """Whether rules and address are still there: who loads a firewall again takes away the rules of all."""
        tables = _run("nft", "nftables", "list", "tables").stdout.splitlines()
        return self.name in _holders() and {f"table {family} {TABLE}" for family in FAMILIES} <= set(tables)

    def put_back(self, script: str) -> None:
        """As at the start: the rules first."""
        self.put(script)
        if self.name not in _holders():
            self._ip("add")

    def ports(self) -> list[str]:
        """Its interfaces."""
        return _names("master", self.name)

    def own_addresses(self) -> set[str]:
        """The IPv4 addresses of this machine: none of them is a guest's."""
        said = json.loads(_run("ip", "iproute2", "-json", "-4", "address", "show").stdout or "[]")
        return {address["local"] for each in said for address in each.get("addr_info", ()) if "local" in address}

    def announce(self, taps: Iterable[str]) -> None:
        """Tell the guests behind these interfaces the MAC of the service (RFC 5227).

        What a guest knows may be the MAC of the host that it came from, or of a bridge that had another one while some
        guest was there. There it gets no answer, for up to a minute. If it cannot be told now, then at the next time.
        """
        with suppress(OSError), socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as line:
            line.bind((self.name, 0))
            frame = _question(line.getsockname()[4], socket.inet_aton(METADATA_ADDRESS))
            for tap in taps:
                with suppress(OSError):  # it may have gone
                    line.sendto(frame, (tap, _ARP))

    def _check(self) -> None:
        if self.name not in (bridges := _names("type", "bridge")):
            there = ", ".join(bridges) or "none"
            hint = f"Name the one of your guests with --bridge. This machine has: {there}."
            raise Misconfigured(f"There is no bridge {self.name!r} on this machine.", hint=hint)
        holders = _holders()
        for holder in holders:
            if holder not in (self.name, "lo"):
                hint = f"Is another metadata service running? If not: ip address del {METADATA_ADDRESS}/32 dev {holder}"
                raise Misconfigured(f"{METADATA_ADDRESS} is already on {holder} of this machine.", hint=hint)
        # Before our rules are there: they would keep its answer from us.
        if self.name not in holders and (other := _who_has(self.name)):
            hint = "Stop that one, or give these guests a bridge of their own."
            raise Misconfigured(f"Another metadata service on {self.name} answers for us: {other}.", hint=hint)

    @contextmanager
    def _address(self) -> Iterator[None]:
        """Ours for the time of the block; one that is there already, as after a kill -9, is taken over."""
        if self.name not in _holders():
            self._ip("add")
        try:
            yield
        finally:
            with suppress(DuenoticeError):
                self._ip("del")

    def _ip(self, verb: str) -> None:
        done = _run("ip", "iproute2", "address", verb, f"{METADATA_ADDRESS}/32", "dev", self.name)
        if done.returncode:
            said = _first_line(done.stderr)
            raise Misconfigured(f"{METADATA_ADDRESS} cannot be put on {self.name}: {said}.", hint=_RIGHTS)


def _run(program: str, package: str, *arguments: str, text: str = "") -> "subprocess.CompletedProcess[str]":
    folders = os.pathsep.join([os.environ.get("PATH", os.defpath), *_ADMIN_FOLDERS])
    found = shutil.which(program, path=folders)
    if found is None:
        raise Misconfigured(f"The program {program} is not there.", hint=f"Install it (Debian package {package}).")
    try:
        return subprocess.run([found, *arguments], input=text, capture_output=True, text=True, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{program} does not end: {error}.", hint="Look at this machine.") from None


def _first_line(text: str) -> str:
    return (text.strip().splitlines() or ["no reason"])[0].removeprefix("Error: ").rstrip(".;")


def _names(*which: str) -> list[str]:
    done = _run("ip", "iproute2", "-json", "link", "show", *which)
    return [each["ifname"] for each in json.loads(done.stdout or "[]") if each.get("ifname")]


def _holders() -> list[str]:
    """The interfaces of this machine that have the metadata address."""
    done = _run("ip", "iproute2", "-json", "address", "show", "to", f"{METADATA_ADDRESS}/32")
    return [each["ifname"] for each in json.loads(done.stdout or "[]") if each.get("ifname")]


def _who_has(bridge: str) -> str:
    """The MAC of a neighbour on the bridge that has the metadata address; empty if nobody answers (RFC 5227)."""
    try:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ARP)) as line:
            line.bind((bridge, _ARP))
            line.send(_question(line.getsockname()[4], bytes(4)))
            line.settimeout(_PROBE_SECONDS)
            return _answer(line)
    except PermissionError:
        raise Misconfigured(f"ARP cannot be asked on {bridge}: not permitted.", hint=_RIGHTS) from None
    except OSError as error:
        raise Misconfigured(f"ARP cannot be asked on {bridge}: {error.strerror}.", hint="Is it up?") from None


def _question(mac: bytes, sender: bytes) -> bytes:
    """Who has the metadata address? Asked by one who has it already, it is an announcement."""
    asked = struct.pack("!HHBBH", 1, 0x0800, 6, 4, _ASKS) + mac + sender + bytes(6)
    return b"\xff" * 6 + mac + struct.pack("!H", _ARP) + asked + socket.inet_aton(METADATA_ADDRESS)


def _answer(line: socket.socket) -> str:
    with suppress(TimeoutError):
        for _ in range(100):
            frame = line.recv(128)
            if frame[28:32] == socket.inet_aton(METADATA_ADDRESS):
                return frame[22:28].hex(":")
    return ""
