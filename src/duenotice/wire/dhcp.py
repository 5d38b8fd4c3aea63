"""The part of DHCP that is needed to find the metadata address: DISCOVER and its reply, both directions (A13). Pure."""

import struct
from ipaddress import IPv4Address
from typing import NamedTuple

from duenotice.errors import Malformed

SERVER_PORT = 67
CLIENT_PORT = 68
ENDPOINT_OPTION = 245

_HEAD = struct.Struct("!BBBBIHH4s4s4s4s6s10x64x128x4s")  # BOOTP's fixed fields and DHCP's cookie, RFC 2131
_COOKIE = b"\x63\x82\x53\x63"
_SMALLEST = 300  # what BOOTP relays expect at least, RFC 1542
_REQUEST, _REPLY = 1, 2
_ETHERNET, _MAC_BYTES = 1, 6
_BROADCAST = 0x8000  # ask for a reply that reaches a machine without an address
_PAD, _MESSAGE_TYPE, _SERVER_ID, _PARAMETERS, _END = 0, 53, 54, 55, 255
_DISCOVER, _OFFER, _ACK = 1, 2, 5
_NOWHERE = IPv4Address(0)


class Discover(NamedTuple):
    """A machine asks who is there."""

    xid: int
    mac: bytes


class Offer(NamedTuple):
    """The reply to a DISCOVER, with the address of the metadata service; `offered` 0.0.0.0 is not a lease."""

    xid: int
    mac: bytes
    endpoint: IPv4Address
    server: IPv4Address
    offered: IPv4Address = _NOWHERE


class _Packet(NamedTuple):
    """The fields that both directions share."""

    op: int
    xid: int
    mac: bytes
    offered: IPv4Address
    options: dict[int, bytes]


def encode_discover(discover: Discover) -> bytes:
    """What a client broadcasts."""
    options = {_MESSAGE_TYPE: bytes([_DISCOVER]), _PARAMETERS: bytes([ENDPOINT_OPTION])}
    return _encode(_Packet(_REQUEST, discover.xid, discover.mac, _NOWHERE, options))


def decode_discover(data: bytes) -> Discover:
    """What a responder reads; whether option 245 is asked for does not matter, as on the real network."""
    packet = _decode(data, _REQUEST)
    _check_type(packet, _DISCOVER)
    return Discover(packet.xid, packet.mac)


def encode_offer(offer: Offer) -> bytes:
    """What a responder broadcasts."""
    options = {
        _MESSAGE_TYPE: bytes([_OFFER]),
        _SERVER_ID: offer.server.packed,
        ENDPOINT_OPTION: offer.endpoint.packed,
    }
    return _encode(_Packet(_REPLY, offer.xid, offer.mac, offer.offered, options))


def decode_offer(data: bytes, asked: Discover) -> Offer:
    """What a client reads: only a reply to its own question, and only one that carries a usable address (A13)."""
    packet = _decode(data, _REPLY)
    if (packet.xid, packet.mac) != asked:
        raise Malformed("The DHCP reply is for another machine.")
    _check_type(packet, _OFFER, _ACK)
    return Offer(packet.xid, packet.mac, _endpoint(packet), _address(packet, _SERVER_ID), packet.offered)


def _encode(packet: _Packet) -> bytes:
    flags, nowhere = _BROADCAST, _NOWHERE.packed
    hardware = (_ETHERNET, _MAC_BYTES, 0)
    addresses = (nowhere, packet.offered.packed, nowhere, nowhere)
    head = _HEAD.pack(packet.op, *hardware, packet.xid, 0, flags, *addresses, packet.mac, _COOKIE)
    options = b"".join(bytes([code, len(value)]) + value for code, value in packet.options.items())
    return (head + options + bytes([_END])).ljust(_SMALLEST, bytes([_PAD]))


def _decode(data: bytes, op: int) -> _Packet:
    if len(data) < _HEAD.size:
        raise Malformed(f"A DHCP packet of {len(data)} bytes is cut short.")
    found, htype, hlen, _, xid, _, _, _, offered, _, _, mac, cookie = _HEAD.unpack_from(data)
    if cookie != _COOKIE:
        raise Malformed("This is not a DHCP packet: its cookie is wrong.")
    if (found, htype, hlen) != (op, _ETHERNET, _MAC_BYTES):
        raise Malformed("The DHCP packet has the wrong direction, or is not for Ethernet.")
    return _Packet(found, xid, mac, IPv4Address(offered), _options(data[_HEAD.size :]))


def _options(data: bytes) -> dict[int, bytes]:
    """Options by code; parts of one that was split are joined (RFC 3396). Without an end it was cut short."""
    options: dict[int, bytes] = {}
    position = 0
    try:
        while (code := data[position]) != _END:
            if code == _PAD:
                position += 1
                continue
            start, length = position + 2, data[position + 1]
            options[code] = options.get(code, b"") + data[start : start + length]
            position = start + length
    except IndexError:
        raise Malformed("The DHCP options are cut short.") from None
    return options


def _check_type(packet: _Packet, *wanted: int) -> None:
    kind = packet.options.get(_MESSAGE_TYPE, b"")
    if len(kind) != 1 or kind[0] not in wanted:
        raise Malformed(f"A DHCP message of type {kind.hex() or 'unknown'} was not expected here.")


def _endpoint(packet: _Packet) -> IPv4Address:
    if ENDPOINT_OPTION not in packet.options:
        raise Malformed("The DHCP reply has no option 245.")
    address = _address(packet, ENDPOINT_OPTION)
    if address.is_unspecified or address.is_multicast or address.is_reserved:
        raise Malformed(f"The DHCP reply's option 245 says {address}, where nobody can listen.")
    return address


def _address(packet: _Packet, code: int) -> IPv4Address:
    value = packet.options.get(code, b"")
    if len(value) != 4:
        raise Malformed(f"The DHCP reply's option {code} has {len(value)} bytes and not the 4 of an address.")
    return IPv4Address(value)
