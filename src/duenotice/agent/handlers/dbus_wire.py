"""D-Bus's bytes: writes calls with string arguments, and reads any message. Pure, except for reading the stream."""

import asyncio
import struct
from typing import Any, NamedTuple

from duenotice.agent.handlers.base import HandlerFailed

LONGEST_MESSAGE = 16 * 1024 * 1024
METHOD_CALL, METHOD_RETURN, ERROR, SIGNAL = 1, 2, 3, 4
PATH, INTERFACE, MEMBER, ERROR_NAME, REPLY_SERIAL, DESTINATION, SENDER, SIGNATURE = 1, 2, 3, 4, 5, 6, 7, 8
_FIELD_TYPES = {PATH: "o", REPLY_SERIAL: "u", SIGNATURE: "g"}
_ALIGN = {"y": 1, "g": 1, "v": 1, "n": 2, "q": 2, "b": 4, "i": 4, "u": 4, "s": 4, "o": 4, "x": 8, "t": 8, "d": 8}
_FIXED = {"y": "B", "n": "h", "q": "H", "b": "I", "i": "i", "u": "I", "x": "q", "t": "Q", "d": "d"}


class Message(NamedTuple):
    """A message that came in."""

    kind: int
    fields: dict[int, Any]
    body: list[Any]


async def read_message(reader: asyncio.StreamReader) -> Message:
    """One message from the stream, in the byte order that it names."""
    head = await reader.readexactly(16)
    order = "<" if head[:1] == b"l" else ">"
    body_length, _, fields_length = struct.unpack(order + "III", head[4:])
    padded = fields_length + -fields_length % 8
    if padded + body_length > LONGEST_MESSAGE:
        raise HandlerFailed("D-Bus sent a message that is too long.")
    rest = await reader.readexactly(padded + body_length)
    fields = dict(Reading(order, head + rest[:fields_length], 12).values("a(yv)")[0])
    body = Reading(order, rest[padded:], 0).values(fields.get(SIGNATURE, ""))
    return Message(head[1], fields, body)


def encode_call(serial: int, fields: dict[int, str], arguments: list[str]) -> bytes:
    """A method call whose arguments are all strings."""
    body = b""
    for argument in arguments:
        body = _pad(body, 4) + _string(argument)
    whole: dict[int, str] = {**fields, **({SIGNATURE: "s" * len(arguments)} if arguments else {})}
    packed = b""
    for code, value in whole.items():
        kind = _FIELD_TYPES.get(code, "s")
        packed = _pad(packed, 8) + bytes([code, 1]) + kind.encode() + b"\0"
        packed += _signature(value) if kind == "g" else _string(value)  # four bytes in: a string is aligned
    head = struct.pack("<cBBBIII", b"l", METHOD_CALL, 0, 1, len(body), serial, len(packed))
    return _pad(head + packed, 8) + body


class Reading:
    """A place in a message's bytes; it moves on when a value is taken."""

    def __init__(self, order: str, data: bytes, at: int) -> None:
        self._order, self._data, self._at = order, data, at

    def values(self, signature: str) -> list[Any]:
        """One value for each complete type of the signature."""
        values = []
        while signature:
            kind, signature = split_type(signature)
            values.append(self._value(kind))
        return values

    def _value(self, kind: str) -> Any:
        if kind in _FIXED:
            return self._fixed(kind)
        if kind in ("s", "o", "g"):
            return self._text(self._fixed("y" if kind == "g" else "u"))
        if kind == "v":
            return self._value(self._text(self._fixed("y")))
        if kind[0] == "a":
            return self._array(kind[1:])
        self._align(8)
        return tuple(self.values(kind[1:-1]))

    def _array(self, kind: str) -> list[Any]:
        length = self._fixed("u")
        self._align(8 if kind[0] in "({" else 4 if kind[0] == "a" else _ALIGN[kind])
        end, items = self._at + length, []
        while self._at < end:
            items.append(self._value(kind))
        return items

    def _fixed(self, kind: str) -> Any:
        self._align(_ALIGN[kind])
        code = self._order + _FIXED[kind]
        (value,) = struct.unpack_from(code, self._data, self._at)
        self._at += struct.calcsize(code)
        return value

    def _text(self, length: int) -> str:
        text = self._data[self._at : self._at + length].decode(errors="replace")
        self._at += length + 1
        return text

    def _align(self, size: int) -> None:
        self._at += -self._at % size


def split_type(signature: str) -> tuple[str, str]:
    """The first complete type, and the rest."""
    if signature[0] == "a":
        kind, rest = split_type(signature[1:])
        return "a" + kind, rest
    if signature[0] not in "({":
        return signature[0], signature[1:]
    depth = 0
    for end, letter in enumerate(signature, start=1):
        depth += (letter in "({") - (letter in ")}")
        if depth == 0:
            return signature[:end], signature[end:]
    raise HandlerFailed("D-Bus sent a type that does not end.")


def _string(text: str) -> bytes:
    data = text.encode(errors="replace")
    return struct.pack("<I", len(data)) + data + b"\0"


def _signature(text: str) -> bytes:
    return bytes([len(text)]) + text.encode() + b"\0"


def _pad(data: bytes, size: int) -> bytes:
    return data + b"\0" * (-len(data) % size)
