"""Hostile frames against our nftables rules: what a guest can forge, sent from the end of a cable on a real bridge."""

import json
import socket
import struct
import subprocess
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from duenotice.host.network import Bridge, GuestPort, no_rules, rules
from tests.host.hypervisor import until
from tests.programs import require_program
from tests.support.namespaces import ENVIRONMENT, METADATA_ADDRESS, Machine

pytestmark = pytest.mark.host

THIEF = GuestPort("thief", "tap-thief", "52:54:00:00:00:0b", "10.0.0.11")
VICTIM = GuestPort("victim", "tap-victim", "52:54:00:00:00:0c", "10.0.0.12")
IP, ARP = 0x0800, 0x0806
TAGS: dict[str, tuple[tuple[int, int], ...]] = {
    "no tag": (),
    "priority tag": ((0x8100, 0),),
    "priority tag of a provider": ((0x88A8, 0),),
    "two priority tags": ((0x88A8, 0), (0x8100, 0)),
    "three priority tags": ((0x8100, 0), (0x8100, 0), (0x8100, 0)),
    "the usual VLAN of a port": ((0x8100, 1),),
    "a priority tag inside it": ((0x8100, 1), (0x8100, 0)),
}


class Lan(NamedTuple):
    """A host with a bridge, and two machines on it; `service` is a socket of the metadata address."""

    host: Machine
    thief: Machine
    victim: Machine
    bridge_mac: str
    service: socket.socket
    line: socket.socket

    def guard(self, script: str) -> None:
        """Put these rules in place."""
        nft = self.host.command(require_program("nft", "nftables"), "-f", "-")
        subprocess.run(nft, input=script, text=True, env=ENVIRONMENT, check=True, timeout=30)

    def sends(self, kind: int, payload: bytes, tags: str = "no tag", to: str = "") -> None:
        """One frame of the thief, with its own MAC."""
        head = _mac(to or self.bridge_mac) + _mac(THIEF.mac)
        self.line.send(
            head + b"".join(struct.pack("!HH", *tag) for tag in TAGS[tags]) + struct.pack("!H", kind) + payload
        )

    def heard(self) -> str | None:
        """The address of whom the service has heard since; a last honest frame tells that nothing else will come."""
        self.sends(IP, packet(THIEF.address, b"last"))
        seen = None
        while (got := self.service.recvfrom(64))[0] != b"last":
            seen = got[1][0]
        return seen


@pytest.fixture(scope="module")
def lan() -> Iterator[Lan]:
    with Machine("host") as host, Machine("thief") as thief, Machine("victim") as victim:
        host.ip("link add br0 type bridge forward_delay 0")
        host.ip("address add 10.0.0.1/24 dev br0")
        host.ip(f"address add {METADATA_ADDRESS}/32 dev br0")
        host.ip("link set br0 up")
        for machine, plug in ((thief, THIEF), (victim, VICTIM)):
            machine.connect("eth0", host, plug.tap)
            machine.ip(f"link set eth0 address {plug.mac}")
            host.ip(f"link set {plug.tap} master br0")
        victim.ip(f"address add {VICTIM.address}/24 dev eth0")
        for machine, device in ((host, "br0"), (victim, "eth0")):  # else a newer word counts only after a second
            machine.run("sh", "-c", f"echo 0 >/proc/sys/net/ipv4/neigh/{device}/locktime")
        mac = json.loads(host.run("ip", "-json", "link", "show", "br0"))[0]["address"]
        with host.call(_service) as service, thief.call(_line) as line:
            yield Lan(host, thief, victim, mac, service, line)


def _service() -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind((METADATA_ADDRESS, 80))
    made.settimeout(30)
    return made


def _line() -> socket.socket:
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    made.bind(("eth0", 0))
    return made


def _mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def packet(source: str, data: bytes = b"forged") -> bytes:
    """A datagram to the service."""
    length = 28 + len(data)
    ends = socket.inet_aton(source) + socket.inet_aton(METADATA_ADDRESS)
    head = struct.pack("!BBHHHBBH", 0x45, 0, length, 1, 0, 64, socket.IPPROTO_UDP, 0) + ends
    total = sum(struct.unpack("!10H", head))
    checksum = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
    return head[:10] + struct.pack("!H", checksum) + head[12:] + struct.pack("!HHHH", 1234, 80, length - 20, 0) + data


def claim(address: str, to: str, hardware: int = 1) -> bytes:
    """An answer in ARP that this address is at the thief's MAC."""
    words = struct.pack("!HHBBH", hardware, IP, 6, 4, 2)
    return words + _mac(THIEF.mac) + socket.inet_aton(address) + bytes(6) + socket.inet_aton(to)


def is_fooled(lan: Lan, machine: Machine, device: str, address: str, right: str, send: Callable[[], None]) -> bool:
    """Whether a machine believes that this address is at the thief, after such a frame; what it knew was right."""
    machine.ip(f"neigh replace {address} lladdr {right} dev {device} nud stale")
    send()
    lan.heard()  # the frame before it was taken, or dropped
    return THIEF.mac in machine.run("ip", "neigh", "show", address)


@pytest.mark.parametrize("tags", TAGS)
def test_a_forged_source_does_not_reach_the_service_behind_any_tag(lan: Lan, tags: str) -> None:
    lan.guard(rules("br0", [THIEF, VICTIM], [THIEF.tap, VICTIM.tap]))
    lan.sends(IP, packet(VICTIM.address), tags)
    assert lan.heard() is None


@pytest.mark.parametrize("hardware", [1, 6], ids=["Ethernet", "IEEE 802"])
@pytest.mark.parametrize("tags", TAGS)
def test_nobody_claims_the_address_of_another_or_of_the_service_behind_any_tag(
    lan: Lan, tags: str, hardware: int
) -> None:
    """Neither the host nor the victim believes it. The kernel takes ARP of both kinds of hardware."""
    lan.guard(rules("br0", [THIEF, VICTIM], [THIEF.tap, VICTIM.tap]))
    to_host, to_victim = claim(VICTIM.address, "10.0.0.1", hardware), claim(METADATA_ADDRESS, VICTIM.address, hardware)
    assert not is_fooled(
        lan, lan.host, "br0", VICTIM.address, VICTIM.mac, lambda: lan.sends(ARP, to_host, tags, lan.bridge_mac)
    )
    assert not is_fooled(
        lan, lan.victim, "eth0", METADATA_ADDRESS, lan.bridge_mac, lambda: lan.sends(ARP, to_victim, tags, VICTIM.mac)
    )


def test_without_rules_such_frames_do_all_that(lan: Lan) -> None:
    """So the tests above can fail."""
    lan.guard(no_rules())
    lan.sends(IP, packet(VICTIM.address), "two priority tags")
    assert lan.heard() == VICTIM.address
    false = claim(VICTIM.address, "10.0.0.1")
    assert is_fooled(lan, lan.host, "br0", VICTIM.address, VICTIM.mac, lambda: lan.sends(ARP, false, "priority tag"))


def test_a_guest_that_knows_an_old_mac_of_the_service_is_told_the_new_one(lan: Lan) -> None:
    """It comes from another host, or another guest has gone and the bridge has changed its MAC. Rules are in place."""
    lan.guard(rules("br0", [THIEF, VICTIM], [THIEF.tap, VICTIM.tap]))
    lan.victim.ip(f"neigh replace {METADATA_ADDRESS} lladdr 02:00:00:00:00:01 dev eth0 nud reachable")
    lan.host.call(lambda: Bridge("br0").announce(["tap-gone", VICTIM.tap]))
    known = ("ip", "neigh", "show", METADATA_ADDRESS)
    until(lambda: lan.bridge_mac in lan.victim.run(*known), lambda: lan.victim.run(*known), 30)
