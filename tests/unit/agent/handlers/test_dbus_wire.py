"""D-Bus's bytes, in both byte orders."""

import asyncio
import struct

import pytest

from duenotice.agent.handlers.base import HandlerFailed
from duenotice.agent.handlers.dbus_wire import (
    INTERFACE,
    MEMBER,
    METHOD_CALL,
    PATH,
    encode_call,
    read_message,
    split_type,
)


def read(data: bytes):
    async def feed():
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        reader.feed_eof()
        return await read_message(reader)

    return asyncio.run(feed())


@pytest.mark.parametrize("arguments", [[], ["a"], ["web.service", "replace"], ["", "é", "x" * 1000]])
def test_a_call_reads_back_as_it_was_written(arguments):
    """Whatever the lengths, every value is where its alignment puts it."""
    message = read(encode_call(7, {PATH: "/a", INTERFACE: "b.c", MEMBER: "D"}, arguments))
    assert (message.kind, message.body) == (METHOD_CALL, arguments)
    assert (message.fields[PATH], message.fields[INTERFACE], message.fields[MEMBER]) == ("/a", "b.c", "D")


def test_the_other_byte_order_is_read_too():
    """A big-endian peer says so in the first byte."""
    field = b"\x08\x01g\x00\x02us\x00"
    body = struct.pack(">II", 7, 2) + b"hi\x00"
    head = struct.pack(">cBBBIII", b"B", 2, 0, 1, len(body), 1, len(field))
    assert read(head + field + b"\0" * (-len(field) % 8) + body).body == [7, "hi"]


def test_a_message_that_is_too_long_is_not_read():
    """Refused by its head."""
    with pytest.raises(HandlerFailed, match="too long"):
        read(struct.pack("<cBBBIII", b"l", 2, 0, 1, 2**31, 1, 0))


@pytest.mark.parametrize(
    ("signature", "first", "rest"),
    [
        ("s", "s", ""),
        ("as(yv)", "as", "(yv)"),
        ("a{sv}u", "a{sv}", "u"),
        ("(a(ss)i)x", "(a(ss)i)", "x"),
        ("aai", "aai", ""),
    ],
)
def test_a_signature_falls_into_its_types(signature, first, rest):
    """One complete type at a time."""
    assert split_type(signature) == (first, rest)


def test_a_type_that_does_not_end_is_refused():
    """Instead of reading on for ever."""
    with pytest.raises(HandlerFailed):
        split_type("(ss")
