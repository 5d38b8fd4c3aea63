"""Inputs that are almost requests: valid ones, cut, repeated, spliced and spoilt; all from one seed."""

from collections.abc import Iterator
from itertools import pairwise
from random import Random

from tests.protocol.raw import PATH, POLL, request

APPROVAL_BODY = b'{"StartRequests":[{"EventId":"00000000-0000-0000-0000-000000000000"}]}'
CHUNKS = b"5\r\n%b\r\n%x\r\n%b\r\n0\r\n\r\n" % (APPROVAL_BODY[:5], len(APPROVAL_BODY) - 5, APPROVAL_BODY[5:])
VALID = (
    POLL,
    request("POST", body=APPROVAL_BODY),
    request("POST", PATH, "Transfer-Encoding: chunked") + CHUNKS,
    request("POST", PATH, "Expect: 100-continue", body=APPROVAL_BODY),
    request("GET", PATH, "Connection: close"),
    request("GET", PATH, "Connection: keep-alive", version="1.0"),
    request("GET", "http://169.254.169.254" + PATH),
    request("GET", f"{PATH}&wait=30s", 'If-None-Match: W/"0"'),
    request("GET", "/metadata/instance/compute/name?api-version=2021-02-01&format=text"),
    request("GET", "/metadata/versions"),
    request("HEAD"),
    request("DELETE", "/metadata/instance?api-version=2021-02-01", "X-Forwarded-For: 1.2.3.4"),
)
PIECES = (
    *(b"\r\n", b"\r", b"\n", b"\r\n\r\n", b"\0", b" ", b"\t", b":", b"?", b"&", b"%", b"#", b";", b",", b'"', b"\xff"),
    *(b"Content-Length: 5\r\n", b"Content-Length: 99999999999999999999\r\n", b"Transfer-Encoding: chunked\r\n"),
    *(b"Host: x\r\n", b"Metadata: true\r\n", b"Expect: 100-continue\r\n", b"Connection: close\r\n", b" folded\r\n"),
    *(b"0\r\n\r\n", b"ffffffff\r\n", b"&api-version=", b"api-version=2017-03-01", b"&wait=0", b"HTTP/1.1", b"HTTP/9.9"),
    *(b"A" * 3000, b"1" * 5000, b"X: y\r\n" * 3000, b" " * 17_000),
)


def inputs(seed: int, count: int) -> Iterator[list[bytes]]:
    """So many inputs, each as the packets it is sent in."""
    random = Random(seed)
    for _ in range(count):
        raw = random.choice(VALID)
        for _ in range(random.choice((0, 1, 1, 1, 2, 3, 8))):
            raw = _spoil(random, raw)
        yield _packets(random, raw)


def _spoil(random: Random, raw: bytes) -> bytes:
    begin = random.randint(0, len(raw))
    end = min(len(raw), begin + random.choice((1, 1, 2, 5, 50)))
    spoilt = (
        raw[:begin] + random.randbytes(end - begin) + raw[end:],
        raw[:begin] + raw[end:],
        raw[:begin] + raw[begin:end] * random.randint(2, 5) + raw[end:],
        raw[:begin] + random.choice(PIECES) + raw[begin:],
        raw[:begin] + random.choice(PIECES) + raw[end:],
        raw[:begin] + random.choice(VALID)[random.randint(0, 40) :],
        raw + random.choice(VALID),
        raw[:begin],
    )
    return random.choice(spoilt)


def _packets(random: Random, raw: bytes) -> list[bytes]:
    cuts = sorted(random.randint(0, len(raw)) for _ in range(random.choice((0, 0, 1, 2, 5))))
    edges = [0, *cuts, len(raw)]
    return [raw[begin:end] for begin, end in pairwise(edges) if begin < end]
