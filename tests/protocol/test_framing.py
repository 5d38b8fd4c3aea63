"""Whatever two readers could understand in two ways is refused, and ends the connection."""

import pytest

from tests.protocol.raw import NOTHING, POLL, Client, request
from tests.protocol.world import WEB_0, World

HEAD = b"POST /metadata/scheduledevents?api-version=2020-07-01 HTTP/1.1\r\nHost: x\r\nMetadata: true\r\n"

AMBIGUOUS = {
    "two lengths": HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "the same length twice": HEAD + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
    "a list of lengths": HEAD + b"Content-Length: 2, 2\r\n\r\n{}",
    "length and chunked": HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked and length": HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "chunked twice": HEAD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked and more": HEAD + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "gzip, chunked": HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "identity": HEAD + b"Transfer-Encoding: identity\r\n\r\n",
    "xchunked": HEAD + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "chunked in 1.0": HEAD.replace(b"1.1", b"1.0") + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a signed length": HEAD + b"Content-Length: +2\r\n\r\n{}",
    "a negative length": HEAD + b"Content-Length: -2\r\n\r\n{}",
    "a length in hex": HEAD + b"Content-Length: 0x2\r\n\r\n{}",
    "an empty length": HEAD + b"Content-Length:\r\n\r\n",
    "a length in other digits": HEAD + "Content-Length: ²\r\n\r\n".encode("latin-1"),
    "a space before the colon": HEAD + b"Content-Length : 2\r\n\r\n{}",
    "a folded line": HEAD + b"X-Long: a\r\n b\r\n\r\n",
    "a folded first line": b"GET / HTTP/1.1\r\n Host: x\r\n\r\n",
    "a line without a colon": HEAD + b"nonsense\r\n\r\n",
    "an empty name": HEAD + b": x\r\n\r\n",
    "a NUL in a value": HEAD + b"X: a\0b\r\n\r\n",
    "a bell in a value": HEAD + b"X: a\x07b\r\n\r\n",
    "a bare LF": POLL.replace(b"\r\n", b"\n"),
    "one bare LF": POLL.replace(b"\r\nMetadata", b"\nMetadata"),
    "a bare CR": POLL.replace(b"\r\nMetadata", b"\rMetadata"),
    "CR CR LF": POLL.replace(b"\r\nMetadata", b"\r\r\nMetadata"),
    "no Host": b"GET / HTTP/1.1\r\nMetadata: true\r\n\r\n",
    "two Hosts": request("GET", "/", "Host: other"),
    "a Host with a space": b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
    "HTTP/2.0": POLL.replace(b"HTTP/1.1", b"HTTP/2.0"),
    "HTTP/1.2": POLL.replace(b"HTTP/1.1", b"HTTP/1.2"),
    "HTTP/0.9": b"GET /\r\n\r\n",
    "lower-case http": POLL.replace(b"HTTP/1.1", b"http/1.1"),
    "two spaces": POLL.replace(b"GET ", b"GET  "),
    "a tab": POLL.replace(b"GET ", b"GET\t"),
    "authority form": request("CONNECT", "169.254.169.254:80"),
    "asterisk form": request("OPTIONS", "*"),
    "another scheme": request("GET", "ftp://169.254.169.254/metadata"),
    "a fragment": request("GET", "/metadata#here"),
    "a byte over 127 in the path": request("GET", "/metadat\xe4"),
    "the HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a TLS hello": bytes.fromhex("160301020001000001fc0303") + bytes(64),
    "a chunk length with a sign": HEAD + b"Transfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n",
    "a chunk length with 0x": HEAD + b"Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
    "a chunk length with a space": HEAD + b"Transfer-Encoding: chunked\r\n\r\n5 \r\nhello\r\n0\r\n\r\n",
    "an empty chunk length": HEAD + b"Transfer-Encoding: chunked\r\n\r\n\r\nhello\r\n0\r\n\r\n",
    "a chunk line with a bare LF": HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\nhello\n0\n\n",
    "a chunk longer than said": HEAD + b"Transfer-Encoding: chunked\r\n\r\n4\r\nhello\r\n0\r\n\r\n",
    "a chunk without its end": HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhelloXX0\r\n\r\n",
    "a chunk extension with a NUL": HEAD + b"Transfer-Encoding: chunked\r\n\r\n5;\0\r\nhello\r\n0\r\n\r\n",
    "a chunk extension with blanks": HEAD + b"Transfer-Encoding: chunked\r\n\r\n5; a = b\r\nhello\r\n0\r\n\r\n",
    "a chunk extension without a name": HEAD + b"Transfer-Encoding: chunked\r\n\r\n5;\r\nhello\r\n0\r\n\r\n",
    "a length in a trailer": HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 5\r\n\r\n",
    "an encoding in a trailer": HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\nTransfer-Encoding: x\r\n\r\n",
    "CONNECT with a path": request("CONNECT", "/metadata/versions"),
    "a bad trailer": HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\nno colon\r\n\r\n",
    "many empty lines": b"\r\n" * 5 + POLL,
}


@pytest.mark.parametrize("raw", AMBIGUOUS.values(), ids=AMBIGUOUS.keys())
def test_it_is_refused_and_nothing_behind_it_is_read(world: World, raw: bytes) -> None:
    with Client(world) as client:
        client.send(raw + POLL)
        reply = client.reply()
        assert (reply.status, reply.headers["connection"]) == (400, "close")
        assert b'{"error":"' in reply.body
        assert client.is_closed()


@pytest.mark.parametrize("raw", AMBIGUOUS.values(), ids=AMBIGUOUS.keys())
def test_it_is_refused_after_a_good_request_on_the_same_connection(world: World, raw: bytes) -> None:
    with Client(world) as client:
        client.send(POLL + raw)
        assert [client.reply().status, client.reply().status] == [200, 400]
        assert client.is_closed()


HARMLESS = {
    "empty lines before": b"\r\n\r\n" + POLL,
    "no blank after the colon": POLL.replace(b": ", b":"),
    "blanks and tabs around a value": POLL.replace(b"Metadata: true", b"Metadata: \t true \t "),
    "an unknown header": request("GET", "/metadata/scheduledevents?api-version=2020-07-01", "X-Any: \xe4 \t"),
    "an empty header": request("GET", "/metadata/scheduledevents?api-version=2020-07-01", "X-Any:"),
    "length 0": request("GET", "/metadata/scheduledevents?api-version=2020-07-01", "Content-Length: 0"),
    "a body on GET": request(body=b"x" * 100),
    "a length with zeros before": POLL.replace(b"\r\n\r\n", b"\r\nContent-Length: 0002\r\n\r\n{}"),
    "an empty Host": POLL.replace(b"169.254.169.254", b""),
    "a Host with a port": POLL.replace(b"169.254.169.254", b"[::1]:80"),
}


@pytest.mark.parametrize("raw", HARMLESS.values(), ids=HARMLESS.keys())
def test_it_is_unusual_but_clear_so_it_is_answered(world: World, raw: bytes) -> None:
    with Client(world) as client:
        assert [client.ask(raw).body, client.ask(raw).body] == [NOTHING, NOTHING]
        assert client.ask().body == NOTHING


def test_a_body_that_looks_like_a_request_is_a_body(world: World) -> None:
    """Cold and warm: neither may the body be answered, nor what it looks like be learnt from it."""
    inner = request("GET", "/metadata/instance?api-version=2021-02-01")
    for known in (b"", inner):
        with Client(world) as client:
            if known:
                assert client.ask(known).status == 200
            client.send(request("POST", body=inner)[: -len(inner)])
            world.call(lambda: None)
            assert client.ask(inner).status == 400
            assert client.ask().body == NOTHING


def test_a_chunk_that_looks_like_a_request_is_a_chunk(world: World) -> None:
    path = "/metadata/scheduledevents?api-version=2020-07-01"
    with Client(world) as client:
        assert client.ask().status == 200
        client.send(request("POST", path, "Transfer-Encoding: chunked") + b"%x\r\n" % len(POLL))
        world.call(lambda: None)
        client.send(POLL)
        assert client.is_silent(0.05)
        assert client.ask(b"\r\n0\r\n\r\n").status == 400


def test_the_rest_of_a_request_that_looks_like_one_is_not_answered_by_itself(world: World) -> None:
    with Client(world) as client:
        assert client.ask().status == 200
        client.send(b"GET /nowhere HTTP/1.1\r\nX: ")
        world.call(lambda: None)
        assert client.ask(POLL).status == 404


def test_what_a_request_means_is_remembered_but_not_who_sent_it(world: World) -> None:
    name = request("GET", "/metadata/instance/compute/name?api-version=2021-02-01&format=text")
    with Client(world) as solo, Client(world, WEB_0) as web:
        assert [solo.ask(name).body, web.ask(name).body, solo.ask(name).body] == [b"solo", b"web-0", b"solo"]
