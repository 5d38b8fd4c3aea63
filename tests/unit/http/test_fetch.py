"""One HTTP request: what comes back is whole, or it is an error."""

import asyncio
import socket

import pytest

from duenotice.errors import Malformed, Unavailable
from duenotice.http.fetch import HttpAnswer, NothingSent, NotTrusted, fetch, parse_url


def answered(raw: bytes, **more) -> tuple[HttpAnswer, bytes]:
    """Call a server that sends these bytes; the answer, and the bytes that it was sent."""

    async def exchange() -> tuple[HttpAnswer, bytes]:
        seen: list[bytes] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            seen.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(raw)
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            return await fetch(f"http://127.0.0.1:{port}/a?b=c", timeout=5.0, **more), seen[0]

    return asyncio.run(exchange())


@pytest.mark.parametrize(
    ("raw", "status", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", 200, b"hi"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nh\r\n1\r\ni\r\n0\r\n\r\n", 200, b"hi"),
        (b"HTTP/1.0 503 Nope\r\n\r\nuntil the end", 503, b"until the end"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 None\r\n\r\n", 204, b""),
        (b"HTTP/1.1 301 Moved\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", 301, b""),
    ],
)
def test_any_status_is_an_answer(raw, status, body):
    """Also a redirect, which is not followed."""
    answer, _ = answered(raw)
    assert (answer.status, answer.body) == (status, body)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"HTTP/1.1 200",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
    ],
)
def test_half_an_answer_is_none(raw):
    """It is worth another try, and never taken for the whole."""
    with pytest.raises(Unavailable):
        answered(raw)


def test_an_answer_is_whole_when_its_length_has_come():
    """Some servers leave the connection open, whatever they are asked."""

    async def exchange() -> HttpAnswer:
        over = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-length: 2\r\n\r\nhi")
            await over.wait()
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            try:
                return await fetch(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", timeout=5.0)
            finally:
                over.set()

    assert asyncio.run(exchange()).body == b"hi"


def test_who_was_not_reached_was_sent_nothing():
    """So the same may be asked elsewhere."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens
        with pytest.raises(NothingSent, match="cannot be asked"):
            asyncio.run(fetch(f"http://127.0.0.1:{taken.getsockname()[1]}/", timeout=5.0))


@pytest.mark.parametrize("length", [b"", b"Content-Length: 1000000000\r\n"])
def test_an_endless_answer_is_refused_or_cut_off(length):
    """Memory stays flat."""
    endless = b"HTTP/1.1 200 OK\r\n" + length + b"\r\n" + b"x" * 1_000_000
    with pytest.raises(Unavailable, match="larger than 1000 bytes"):
        answered(endless, longest=1000)
    answer, _ = answered(endless, longest=1000, cut=True)
    assert answer.status == 200 and 1000 - 100 <= len(answer.body) <= 1000 + 65536


def test_the_request_is_plain():
    """Origin form, one Host, closed after the answer."""
    _, sent = answered(b"HTTP/1.1 200 OK\r\n\r\n", headers={"X-A": "b"})
    lines = sent.decode().splitlines()
    assert (lines[0], "X-A: b" in lines, "Connection: close" in lines) == ("GET /a?b=c HTTP/1.1", True, True)


@pytest.mark.parametrize("header", [{"X": "a\r\nY: b"}, {"X\n": "a"}, {"X": "é"}, {"X": "\0"}])
def test_no_header_can_bring_another(header):
    """Refused before anything is sent."""
    with pytest.raises(Malformed, match="header"):
        answered(b"HTTP/1.1 200 OK\r\n\r\n", headers=header)


@pytest.mark.parametrize("url", ["", "host", "ftp://host/", "http://", "http://h:x/", "http://u@h/", "http://h/a b"])
def test_only_plain_addresses_are_taken(url):
    """http or https, a host, no user."""
    with pytest.raises(Malformed):
        parse_url(url)


@pytest.mark.parametrize("url", ["http://h:0/", "http://a..b/", "http://.../", f"http://{'a' * 64}/", "http://a\0b/"])
def test_what_cannot_be_asked_is_refused_before_it_is_tried(url):
    """No port 0, and only names that can exist."""
    with pytest.raises(Malformed):
        parse_url(url)


@pytest.mark.parametrize("host", ["a.b", "a.b.", "bücher.example", "10.0.0.1", "[fd00::1]", "a_b", "a" * 63])
def test_names_and_addresses_are_hosts(host):
    """Whatever a resolver can be asked for."""
    assert parse_url(f"http://{host}:8080/").host == host.strip("[]")


def test_who_does_not_speak_tls_is_not_trusted():
    """Nothing was sent to it."""

    async def ask() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            await fetch(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/", timeout=5.0)

    with pytest.raises(NotTrusted, match="does not speak TLS"):
        asyncio.run(ask())


def test_nothing_is_sent_to_an_address_that_is_refused_when_the_connection_is_there() -> None:
    """It is checked before, and once more with the address that the connection truly has."""
    checked: list[str] = []

    def refuse_later(address: str) -> None:
        checked.append(address)
        if len(checked) == 2:
            raise Unavailable("it is ours by now", hint="")

    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://name.example:{server.getsockname()[1]}/"
        with pytest.raises(Unavailable, match="it is ours by now"):
            asyncio.run(fetch(url, address="127.0.0.1", check=refuse_later))
        came, _ = server.accept()
        with came:
            assert came.recv(100) == b""
    assert checked == ["127.0.0.1", "127.0.0.1"]
