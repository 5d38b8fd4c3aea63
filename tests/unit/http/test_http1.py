"""An answer from pieces of bytes: the same wherever it is cut, and never more than its bounds."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from duenotice.http.http1 import LARGEST_BODY, LARGEST_HEAD, ProtocolError, Response, read_response
from tests.support.evil import chunked


def fed(*pieces: bytes) -> Response | None:
    """The answer, or None while it is not whole; an empty piece is the end of the connection."""
    reading = read_response()
    next(reading)
    try:
        for piece in pieces:
            reading.send(piece)
    except StopIteration as whole:
        response: Response = whole.value
        return response
    return None


PLAIN = b'HTTP/1.1 200 OK\r\nETag: "3"\r\nContent-Length: 5\r\n\r\nhello'
CHUNKED = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(b"he", b"llo")
NOT_MODIFIED = b'HTTP/1.1 304 Not Modified\r\nETag: "3"\r\n\r\n'


def test_status_headers_and_body_are_there() -> None:
    assert fed(PLAIN) == Response(200, {"etag": '"3"', "content-length": "5"}, b"hello", reusable=True)


@pytest.mark.parametrize("raw", [PLAIN, CHUNKED, NOT_MODIFIED])
def test_it_is_the_same_wherever_it_is_cut(raw: bytes) -> None:
    """Every cut in two, and byte by byte; before its last byte it is never whole."""
    whole = fed(raw)
    assert whole is not None
    for cut in range(1, len(raw)):
        assert fed(raw[:cut]) is None
        assert fed(raw[:cut], raw[cut:]) == whole
    assert fed(*(bytes([byte]) for byte in raw)) == whole


@pytest.mark.parametrize("raw", [PLAIN, CHUNKED, NOT_MODIFIED])
def test_it_is_bad_wherever_it_ends_before_its_time(raw: bytes) -> None:
    for cut in range(len(raw)):
        with pytest.raises(ProtocolError, match="ends halfway"):
            fed(*filter(None, [raw[:cut]]), b"")


@pytest.mark.parametrize(
    ("head", "reusable"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", False),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: Keep-Alive, Close\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nmore", False),
        (b"HTTP/1.1 204 No Content\r\n\r\n", True),
    ],
)
def test_a_connection_is_used_again_only_when_that_is_sure(head: bytes, reusable: bool) -> None:
    response = fed(head)
    assert response is not None
    assert response.reusable is reusable


def test_without_a_length_the_end_of_the_connection_is_the_end() -> None:
    assert fed(b"HTTP/1.1 200 OK\r\n\r\nhel", b"lo", b"") == Response(200, {}, b"hello", reusable=False)


@pytest.mark.parametrize("size", [LARGEST_BODY, LARGEST_BODY + 1])
def test_the_bound_on_the_body_is_exact(size: int) -> None:
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n".encode()
    if size > LARGEST_BODY:
        with pytest.raises(ProtocolError, match="larger than 1048576"):
            fed(head)
    else:
        assert fed(head, b"x" * size) is not None


@pytest.mark.parametrize("more", [0, 1])
def test_the_bound_on_the_head_is_exact(more: int) -> None:
    start = b"HTTP/1.1 204 OK\r\nX: "
    head = start + b"x" * (LARGEST_HEAD - len(start) + more) + b"\r\n\r\n"
    if more:
        with pytest.raises(ProtocolError, match="its head is too long"):
            fed(head)
    else:
        assert fed(head) is not None


@given(st.lists(st.binary(min_size=1), max_size=5))
@example([b"HTTP/1.1 200 OK\r\nContent-Length: 1_0\r\n\r\n"])
@example([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n"])
def test_any_bytes_are_an_answer_or_bad(pieces: list[bytes]) -> None:
    """No other exception ever."""
    try:
        assert isinstance(fed(*pieces, b""), Response)
    except ProtocolError as error:
        assert str(error)


@given(st.binary(max_size=300), st.data())
def test_whatever_follows_a_good_head_is_an_answer_or_bad(tail: bytes, data: st.DataObject) -> None:
    head = data.draw(st.sampled_from([PLAIN[:-5], CHUNKED[: CHUNKED.rindex(b"\r\n\r\n2") + 4], b"HTTP/1.1 200 OK\r\n"]))
    try:
        response = fed(head + tail, b"")
        assert response is not None
        assert len(response.body) <= 300
    except ProtocolError:
        pass
