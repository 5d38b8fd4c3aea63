"""DHCP packets: what one side writes the other reads, and nothing that arrives can do worse than be refused."""

from ipaddress import IPv4Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duenotice.errors import Malformed
from duenotice.wire.dhcp import Discover, Offer, decode_discover, decode_offer, encode_discover, encode_offer

ASKED = Discover(0x12345678, bytes.fromhex("000d3a010203"))
OFFER = Offer(*ASKED, IPv4Address("168.63.129.16"), IPv4Address("192.0.2.1"), IPv4Address("192.0.2.9"))
OPTIONS_AT = 240

xids = st.integers(0, 2**32 - 1)
macs = st.binary(min_size=6, max_size=6)
listeners = st.integers(1, 2**32 - 1).map(IPv4Address).filter(lambda a: not (a.is_multicast or a.is_reserved))
offers = st.builds(Offer, xids, macs, listeners, st.ip_addresses(v=4), st.ip_addresses(v=4))


def with_options(packet: bytes, options: bytes) -> bytes:
    """The packet with other options."""
    return packet[:OPTIONS_AT] + options


def changed(packet: bytes, position: int, value: int) -> bytes:
    """The packet with one other byte."""
    return packet[:position] + bytes([value]) + packet[position + 1 :]


@given(st.builds(Discover, xids, macs))
def test_discover_reads_back(discover: Discover) -> None:
    """A DISCOVER survives the wire."""
    assert decode_discover(encode_discover(discover)) == discover


@given(offers)
def test_offer_reads_back(offer: Offer) -> None:
    """An OFFER survives the wire."""
    assert decode_offer(encode_offer(offer), Discover(offer.xid, offer.mac)) == offer


def test_discover_is_laid_out_as_the_rfc_says() -> None:
    """BOOTREQUEST for Ethernet, our xid, broadcast flag, hardware address, cookie, DISCOVER that asks for 245."""
    packet = encode_discover(ASKED)
    assert packet[:12].hex() == "010106001234567800008000"
    assert packet[28:34] == ASKED.mac
    assert packet[236:].rstrip(b"\0").hex() == "638253633501013701f5ff"
    assert len(packet) == 300


def test_offer_carries_the_address_in_option_245() -> None:
    """Option 245 has four bytes, the IPv4 address (A13)."""
    assert bytes([245, 4, 168, 63, 129, 16]) in encode_offer(OFFER)


def test_an_acknowledgement_will_do_too() -> None:
    """A server that commits at once replies ACK; the address in it is as good."""
    packet = encode_offer(OFFER).replace(bytes([53, 1, 2]), bytes([53, 1, 5]))
    assert decode_offer(packet, ASKED) == OFFER


def test_split_option_is_joined() -> None:
    """An option that comes in parts is one option (RFC 3396)."""
    parts = bytes([53, 1, 2, 54, 4, 192, 0, 2, 1, 245, 1, 168, 0, 245, 3, 63, 129, 16, 255])
    assert decode_offer(with_options(encode_offer(OFFER), parts), ASKED) == OFFER


GOOD = encode_offer(OFFER)
OPTION = bytes([245, 4])
BAD = {
    "empty": b"",
    "cut in the header": GOOD[:239],
    "no options": GOOD[:240],
    "cut in an option": GOOD[: GOOD.index(OPTION) + 4],
    "cut before an option's length": GOOD[: GOOD.index(OPTION) + 1],
    "no end": GOOD[: GOOD.index(OPTION) + 6],
    "a request": changed(GOOD, 0, 1),
    "not Ethernet": changed(GOOD, 1, 6),
    "long hardware address": changed(GOOD, 2, 16),
    "other xid": changed(GOOD, 4, 0),
    "other machine": changed(GOOD, 28, 0xFF),
    "wrong cookie": changed(GOOD, 236, 0),
    "a NAK": with_options(GOOD, bytes([53, 1, 6, 54, 4, 1, 1, 1, 1, 245, 4, 1, 1, 1, 1, 255])),
    "no message type": with_options(GOOD, bytes([54, 4, 1, 1, 1, 1, 245, 4, 1, 1, 1, 1, 255])),
    "two message types": with_options(GOOD, bytes([53, 2, 2, 2, 54, 4, 1, 1, 1, 1, 245, 4, 1, 1, 1, 1, 255])),
    "no option 245": with_options(GOOD, bytes([53, 1, 2, 54, 4, 1, 1, 1, 1, 255])),
    "option 245 of 3 bytes": with_options(GOOD, bytes([53, 1, 2, 54, 4, 1, 1, 1, 1, 245, 3, 1, 1, 1, 255])),
    "option 245 of 0 bytes": with_options(GOOD, bytes([53, 1, 2, 54, 4, 1, 1, 1, 1, 245, 0, 255])),
    "option 245 twice": with_options(GOOD, bytes([53, 1, 2, 54, 4, 1, 1, 1, 1, *(245, 4, 1, 1, 1, 1) * 2, 255])),
    "nobody's address": encode_offer(OFFER._replace(endpoint=IPv4Address("0.0.0.0"))),
    "broadcast address": encode_offer(OFFER._replace(endpoint=IPv4Address("255.255.255.255"))),
    "multicast address": encode_offer(OFFER._replace(endpoint=IPv4Address("224.0.0.1"))),
}


@pytest.mark.parametrize("packet", BAD.values(), ids=BAD)
def test_bad_reply_is_malformed(packet: bytes) -> None:
    """A reply that is broken, for somebody else or without a usable address is refused."""
    with pytest.raises(Malformed):
        decode_offer(packet, ASKED)


@pytest.mark.parametrize("packet", [GOOD, encode_discover(ASKED)[:240]], ids=["an offer", "no options"])
def test_bad_question_is_malformed(packet: bytes) -> None:
    """Only a DISCOVER is a question."""
    with pytest.raises(Malformed):
        decode_discover(packet)


@given(st.binary(max_size=600), st.sampled_from([b"", GOOD[:OPTIONS_AT], encode_discover(ASKED)[:OPTIONS_AT]]))
def test_arbitrary_bytes_are_read_or_malformed(noise: bytes, head: bytes) -> None:
    """Whatever arrives, with or without a good header, is an answer, a question or Malformed."""
    for read in (decode_discover, lambda data: decode_offer(data, ASKED)):
        try:
            assert read(head + noise)
        except Malformed as error:
            assert error.message
