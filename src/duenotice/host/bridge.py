"""The bridge of a host: the metadata address on it, and our nftables rules. We put both there, and take them away."""

import json
import os
import shutil
import socket
import struct
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from duenotice.errors import DuenoticeError, Misconfigured, Unavailable
from duenotice.host.rules import FAMILIES, METADATA_ADDRESS, TABLE, no_rules

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
