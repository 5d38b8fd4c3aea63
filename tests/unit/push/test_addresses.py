"""Where messages may go."""

import socket

import pytest

from duenotice.errors import Misconfigured, Refused, Unavailable
from duenotice.push.addresses import AllowedAddresses, NotAllowedNow, resolve

NEVER = [
    "127.0.0.1", "127.8.9.10", "::1", "0.0.0.0", "::", "169.254.169.254", "169.254.1.1", "fe80::1", "fe80::1%eth0",
    "168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254", "224.0.0.1", "ff02::1",
    "255.255.255.255", "240.0.0.1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2002:a9fe:a9fe::1", "::ffff:0:0",
    "64:ff9b:1:7f00:0:100::", "64:ff9b:1::a9fe:a9fe",
]  # fmt: skip


@pytest.mark.parametrize("address", NEVER)
def test_nothing_goes_to_this_machine_its_link_or_a_metadata_service(address: str) -> None:
    """Also not by an IPv6 address that leads to such an IPv4 address."""
    assert AllowedAddresses().refusal(address)


@pytest.mark.parametrize(
    "address", ["10.1.2.3", "192.168.1.1", "172.16.0.1", "93.184.216.34", "2606:2800::1", "fd12::1"]
)
def test_everything_else_may_be_asked(address: str) -> None:
    """Receivers of a private cloud are in private networks."""
    assert AllowedAddresses().refusal(address) == ""


def test_an_operator_can_allow_more_and_only_that() -> None:
    allowed = AllowedAddresses(["127.0.0.0/8", "fe80::/64"])
    refused = [address for address in ("127.0.0.1", "fe80::1", "169.254.169.254", "::1") if allowed.refusal(address)]
    assert refused == ["169.254.169.254", "::1"]


def test_a_network_that_is_none_is_refused_at_the_start() -> None:
    with pytest.raises(Misconfigured, match="push_allow is not valid"):
        AllowedAddresses(["localhost"])


def named(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    """A resolver that answers this, whatever it is asked."""
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 443)) for address in addresses]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)


def test_of_the_addresses_of_a_name_only_the_good_ones_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that has both must not be a way around the check."""
    named(monkeypatch, "127.0.0.1", "10.0.0.1", "10.0.0.1", "169.254.169.254")
    assert resolve("both.example", 443, AllowedAddresses()) == ["10.0.0.1"]


def test_a_name_that_leads_only_to_us_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until it leads elsewhere: it is looked up again."""
    named(monkeypatch, "127.0.0.1")
    monkeypatch.setattr("duenotice.push.addresses._is_written_out", lambda _: False)
    with pytest.raises(NotAllowedNow, match=r"127\.0\.0\.1 is loopback, and messages may not go there"):
        resolve("rebound.example", 443, AllowedAddresses())


@pytest.mark.parametrize("host", ["127.1", "0x7f000001", "2130706433"])
def test_other_ways_to_write_an_address_are_the_same_address(host: str) -> None:
    with pytest.raises(Refused, match="loopback"):
        resolve(host, 80, AllowedAddresses())


@pytest.mark.parametrize("host", ["a..b", "x" * 64 + ".example"])
def test_a_name_that_cannot_be_resolved_may_be_one_later(host: str) -> None:
    with pytest.raises(Unavailable, match="cannot be resolved"):
        resolve(host, 80, AllowedAddresses())


def test_where_routes_cannot_be_asked_what_we_may_bind_to_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a sandbox without AF_NETLINK, and where there is none."""
    monkeypatch.delattr(socket, "AF_NETLINK")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as outward:
        outward.connect(("203.0.113.9", 9))
        ours = outward.getsockname()[0]
    assert AllowedAddresses().refusal(ours) == f"{ours} is an address of this machine"
    assert AllowedAddresses().refusal("203.0.113.9") == ""
