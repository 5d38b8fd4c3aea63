"""Bytes that a client might send, chosen by a seed: whole requests, nearly right ones, several in a row, and worse."""

from collections.abc import Sequence
from random import Random

# fmt: off
Choices = tuple[bytes, ...]
METHODS: Choices = (
    b"GET", b"GET", b"GET", b"POST", b"POST", b"HEAD", b"OPTIONS", b"PUT", b"DELETE", b"get", b"M-SEARCH", b"BREW",
    b"CONNECT", b"G\x00T", b"", b"PRI", b"GE T", b"!#$%&'*+-.^_`|~",
)
POLL = b"/metadata/scheduledevents?api-version=2020-07-01"
TARGETS: Choices = (
    POLL, POLL, POLL, POLL, POLL + b"&wait=30s", POLL + b"&api-version=2017-03-01",
    b"/metadata/instance?api-version=2021-02-01&format=text", b"/%6detadata/scheduledevents?api%2Dversion=2020-07-01",
    b"/metadata//scheduledevents/", b"/metadata/../metadata/versions", b"http://169.254.169.254/metadata/versions",
    b"HTTP://h:80/metadata/versions?x=http://y/", b"http://h?x=1", b"http://h", b"http:///path", b"https://h/x",
    b"http://u@h/x", b"http://[::1]:80/x", b"http://h\\x/y", b"*", b"h:443", b"", b"metadata", b"//h/x", b"/?", b"/??",
    b"/#f", b"/x#f?y", b'/"<>\\^`{|}', b"/\xc3\xa4", b"/ x", b"/%", b"/%zz", b"/%00", b"/\x00", b"/\t",
    b"/x?y=%0d%0aHost:%20z", b"/" + b"a" * 3000, b"/" + b"a" * 17000,
)
VERSIONS: Choices = (
    b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.0", b"HTTP/1.0", b"HTTP/0.9",
    b"HTTP/2.0", b"HTTP/1.2", b"http/1.1", b"HTTP/1.1 ", b"HTTP/1.", b"HTTP/11", b"HTTP/1.10", b"", b"HTTP/1.1\t",
)
NAMES: Choices = (
    b"X-A", b"Accept", b"User-Agent", b"Via", b"X-Forwarded-For", b"If-None-Match", b"Upgrade", b"Cookie", b"x_y", b"",
    b"X A", b" X", b"X\t", b"X:", b"\xc3\xa4", b"X(", b"Proxy-Connection", b"TE", b"Trailer", b"HTTP2-Settings",
    b"Date",
)
VALUES: Choices = (
    b"", b"x", b"*/*", b"a b", b"a, b", b"a\tb", b"\xe4", b"\xc3\xa4", b'"quoted\\""', b"a:b", b"h2c", b"websocket",
    b",",
    b"\x00", b"\x7f", b"\x0b", b"a\rb", b"a\nb", b"x" * 5000, b'W/"1"', b" ", b"100-continue",
)
LENGTHS: Choices = (
    b"0", b"5", b"005", b"+5", b"-1", b"5, 5", b"5,6", b"5 5", b"0x5", b"5.0", b"", b"five", b"\xb2", b"5\t", b"1_0",
    b"65536", b"65537", b"9" * 19, b"9" * 30, b"0" * 40 + b"5", b"18446744073709551621", b"4294967301",
)
CODINGS: Choices = (
    b"chunked", b"chunked", b"chunked", b"chunked", b"chunked", b"Chunked", b"chunked, chunked", b"gzip, chunked",
    b"chunked, gzip", b"identity", b"", b" chunked", b"chunked;q=1", b"xchunked", b"chunked,", b",chunked",
    b"\x0bchunked", b'"chunked"', b"chunked\t",
)
CONNECTIONS: Choices = (
    b"close", b"keep-alive", b"Close", b"keep-alive, close", b"upgrade", b"close, foo", b"", b"closed", b"Keep-Alive,",
    b"transfer-encoding", b"close\t", b"x close",
)
HOST = b"169.254.169.254"
HOSTS: Choices = (
    HOST, HOST, HOST, HOST, HOST, HOST, b"", b"a b", b"a/b", b"[::1]:80", b"a:b:c", b"\xe4", b"a,b", b"a@b", b"h:",
)
ENDS: Choices = (b"\r\n",) * 40 + (
    b"\n", b"\r", b"\r\r\n", b"\r\n\r\n", b"\n\r", b"", b"\r\n ", b"\r\n\t", b" \r\n", b"\x00\r\n",
)
COLONS: Choices = (b": ",) * 12 + (b":", b":  ", b":\t", b" : ", b"\t:", b": \t ", b"", b"=", b":\r\n ")
BITS: Choices = (
    b"\r", b"\n", b"\r\n", b" ", b"\t", b"\x00", b":", b"0", b"\x80", b"\xff", b";", b",", b"5", b"\r\n\r\n", b"G",
    b"%",
)
SIZES: Choices = (
    b"%x", b"%X", b"0%x", b"00000000%x", b"0x%x", b"+%x", b"-%x", b" %x", b"%x ", b"%x\t", b"%x_0",
)
EXTENSIONS: Choices = (
    b"", b"", b";", b";a", b";a=b", b';a="b;c"', b" ;a=b", b"; a = b", b";\x00", b";a\n", b';"', b";\xff", b";a;b=c",
)
TRAILERS: Choices = (
    b"", b"", b"X: y\r\n", b"Content-Length: 5\r\n", b"bad\r\n", b" folded\r\n", b"Host: z\r\n", b"X: y\r\nZ: w\r\n",
)
# fmt: on
SMUGGLED = b"GET /metadata/versions HTTP/1.1\r\nHost: h\r\n\r\n"


def stream(chance: Random) -> bytes:
    """What comes over one connection: some requests one behind the other, often with something wrong."""
    data = b"".join(request(chance) for _ in range(chance.choice((1, 1, 1, 2, 3))))
    if chance.random() < 0.05:
        data = chance.choice((b"\r\n", b"\r\n\r\n", b"\r\n" * 5, b"\n", b"\r", b" ")) + data
    return mutated(data, chance) if chance.random() < 0.3 else data


def request(chance: Random) -> bytes:
    """One request; the parts that decide its length are right in half of them."""
    if chance.random() < 0.5:
        return _plain_request(chance)
    body, framing = _framed(chance)
    fields = [*framing, *(_field(chance) for _ in range(chance.choice((0, 1, 2, 4))))]
    if chance.random() < 0.9:
        fields.append((b"Host", chance.choice(HOSTS)))
    if chance.random() < 0.3:
        fields.append((b"Connection", chance.choice(CONNECTIONS)))
    if chance.random() < 0.1:
        fields.append((b"Expect", chance.choice((b"100-continue", b"100-Continue", b"x", b""))))
    chance.shuffle(fields)
    lines = [_odd_case(name, chance) + chance.choice(COLONS) + value + chance.choice(ENDS) for name, value in fields]
    blank = chance.choice((b" ",) * 12 + (b"  ", b"\t", b"", b"\x0b"))
    first = chance.choice(METHODS) + blank + chance.choice(TARGETS) + blank + chance.choice(VERSIONS)
    return first + chance.choice(ENDS) + b"".join(lines) + chance.choice(ENDS) + body


def _plain_request(chance: Random) -> bytes:
    """A right one, but for one odd thing."""
    body = chance.randbytes(chance.choice((0, 0, 1, 40)))
    chunked = body and chance.random() < 0.5
    framing = b"Transfer-Encoding: chunked\r\n" if chunked else b"Content-Length: %d\r\n" % len(body) if body else b""
    odd = _field(chance)
    parts = [
        chance.choice((b"GET", b"POST")),
        chance.choice(TARGETS[:4]),
        b"HTTP/1.1",
        b"h",
        framing,
        b": ".join(odd),
        b"\r\n",
    ]
    odd_part = chance.randrange(10)
    choices: dict[int, Sequence[bytes]] = {0: METHODS, 1: TARGETS, 2: VERSIONS, 3: HOSTS, 6: ENDS}
    if odd_part in choices:
        parts[odd_part] = chance.choice(choices[odd_part])
    method, target, version, host, framing, line, end = parts
    if odd_part == 7:
        framing += (
            chance.choice((b"Content-Length: ", b"Transfer-Encoding: ")) + chance.choice(LENGTHS + CODINGS) + b"\r\n"
        )
    whole = _chunks(body, chance) if chunked else body
    return (
        method
        + b" "
        + target
        + b" "
        + version
        + end
        + b"Host: "
        + host
        + b"\r\n"
        + framing
        + line
        + b"\r\n\r\n"
        + whole
    )


def _field(chance: Random) -> tuple[bytes, bytes]:
    return chance.choice(NAMES), chance.choice(VALUES)


def _odd_case(name: bytes, chance: Random) -> bytes:
    return chance.choice((name, name, name.lower(), name.upper(), name.swapcase()))


def _framed(chance: Random) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    """A body and the headers that say how long it is; they may say it twice, or wrongly."""
    body = chance.choice(
        (b"", b"hello", chance.randbytes(chance.choice((1, 5, 300))), SMUGGLED, b"5\r\nhello\r\n0\r\n\r\n")
    )
    kind = chance.randrange(6)
    if kind == 0:
        return body, []
    if kind == 1:
        return body, [(b"Content-Length", b"%d" % len(body))]
    if kind == 2:
        return _chunks(body, chance), [(b"Transfer-Encoding", b"chunked")]
    if kind == 3:
        return body, [(b"Content-Length", chance.choice(LENGTHS))]
    if kind == 4:
        return _chunks(body, chance), [(b"Transfer-Encoding", chance.choice(CODINGS))]
    names = [chance.choice((b"Content-Length", b"Transfer-Encoding")) for _ in range(2)]
    return _chunks(body, chance), [(name, chance.choice(LENGTHS if name[:1] == b"C" else CODINGS)) for name in names]


def _chunks(body: bytes, chance: Random) -> bytes:
    """The body in chunks; now and then with odd lengths, extensions, ends and trailers."""
    size, pieces = chance.choice((1, 3, 1000)), []
    odd = chance.random() < 0.4
    for begin in range(0, len(body), size):
        piece = body[begin : begin + size]
        pieces.append(_chunk_line(len(piece), chance, odd) + piece + (chance.choice(ENDS) if odd else b"\r\n"))
    trailer = chance.choice(TRAILERS)
    return (
        b"".join(pieces)
        + _chunk_line(0, chance, odd)
        + (trailer if odd else b"")
        + (chance.choice(ENDS) if odd else b"\r\n")
    )


def _chunk_line(size: int, chance: Random, odd: bool) -> bytes:
    if not odd or chance.random() < 0.5:
        return b"%x\r\n" % size
    written, extension = chance.choice(SIZES), chance.choice(EXTENSIONS)
    return written % size + extension + chance.choice(ENDS)


def mutated(data: bytes, chance: Random) -> bytes:
    """With a few bytes put in, taken out, changed, doubled or cut off."""
    for _ in range(chance.choice((1, 1, 2, 4))):
        at = chance.randrange(len(data) + 1)
        to = min(len(data), at + chance.choice((1, 1, 2, 20)))
        new = chance.choice((b"", chance.choice(BITS), chance.choice(BITS), data[at:to] * 2, chance.randbytes(1)))
        data = data[:at] if chance.random() < 0.02 else data[:at] + new + data[to if chance.random() < 0.7 else at :]
    return data


def pieces(data: bytes, chance: Random) -> list[bytes]:
    """The same bytes as packets may bring them: whole, byte by byte, or cut somewhere."""
    how = chance.randrange(3)
    if how == 0 and len(data) < 400:
        return [data[at : at + 1] for at in range(len(data))]
    cuts = sorted(chance.randrange(len(data) + 1) for _ in range(how + 1))
    return [data[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
