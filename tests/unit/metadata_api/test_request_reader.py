"""The same bytes give the same requests, however they are cut."""

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duenotice.errors import Malformed
from duenotice.metadata_api.http1 import MAX_BODY, MAX_EMPTY_LINES, MAX_HEAD, BodyTooLarge, HeadTooLarge, RequestReader

GET = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n"
SIZED = b"POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = (
    b"POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\nT: 1\r\n\r\n"
)
BROKEN = b"GET /d HTTP/1.1\r\nHost : x\r\n\r\n"
CHUNKS = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


def read(packets: list[bytes]) -> list[tuple[str, bytes]]:
    """Path and body of each request; `malformed` ends the list."""
    reader, seen = RequestReader(), []
    try:
        for packet in packets:
            reader.feed(packet)
            while received := reader.next():
                seen.append((received.head.path, received.body))
    except Malformed:
        seen.append(("malformed", b""))
    return seen


@given(
    st.lists(st.sampled_from([GET, SIZED, CHUNKED, BROKEN, b"\r\n"]), max_size=5),
    st.lists(st.integers(0, 500), max_size=8),
)
def test_where_packets_are_cut_makes_no_difference(parts: list[bytes], cuts: list[int]) -> None:
    raw = b"".join(parts)
    edges = [0, *sorted(cut for cut in cuts if cut < len(raw)), len(raw)]
    packets = [raw[begin:end] for begin, end in pairwise(edges)]
    assert read(packets) == read([raw])


def test_every_kind_of_request_is_read() -> None:
    assert read([GET + SIZED + CHUNKED + GET]) == [("/a", b""), ("/b", b"hello"), ("/c", b"hello"), ("/a", b"")]
    assert read([GET + BROKEN + GET]) == [("/a", b""), ("malformed", b"")]


def test_a_reader_tells_whether_anything_is_under_way() -> None:
    reader = RequestReader()
    assert reader.untouched
    reader.feed(SIZED[:-5])
    assert (reader.next(), reader.untouched, len(reader)) == (None, False, 0)
    reader.feed(b"hel")
    assert (reader.next(), reader.untouched, len(reader)) == (None, False, 3)
    reader.feed(b"lo")
    assert reader.next() is not None
    assert reader.untouched


@pytest.mark.parametrize("raw", [SIZED, CHUNKED])
def test_a_body_is_held_back_only_until_its_first_byte(raw: bytes) -> None:
    head, _, body = raw.replace(b"Host: x", b"Host: x\r\nExpect: 100-continue").partition(b"\r\n\r\n")
    reader = RequestReader()
    reader.feed(head + b"\r\n\r\n")
    assert reader.next() is None
    assert reader.held_back is not None
    for byte in body[:-1]:
        reader.feed(bytes([byte]))
        assert reader.next() is None
        assert not reader.held_back
    reader.feed(body[-1:])
    assert reader.next() is not None


def test_a_body_that_comes_with_its_head_is_not_held_back() -> None:
    reader = RequestReader()
    reader.feed(SIZED.replace(b"Host: x", b"Host: x\r\nExpect: 100-continue")[:-1])
    assert (reader.next(), reader.held_back) == (None, None)


def test_a_few_empty_lines_before_a_request_are_skipped() -> None:
    assert read([b"\r\n" * MAX_EMPTY_LINES + GET]) == [("/a", b"")]
    assert read([b"\r\n" * (MAX_EMPTY_LINES + 1) + GET]) == [("malformed", b"")]


@pytest.mark.parametrize("raw", [b"GET / HTTP/1.1\n", b"GET\r/", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\n"])
def test_what_can_never_become_a_request_is_refused_before_it_ends(raw: bytes) -> None:
    assert read([raw]) == [("malformed", b"")]


def test_a_cr_at_the_end_of_a_packet_may_still_become_a_line_end() -> None:
    assert read([GET[:16], GET[16:]]) == [("/a", b"")]
    assert read([b"GET / HTTP/1.1\r"]) == []
    assert read([b"GET / HTTP/1.1\r", b"X"]) == [("malformed", b"")]


def test_a_head_may_be_16_kib_and_not_more() -> None:
    def padded(size: int) -> bytes:
        return GET.replace(b"Host", b"X: " + b"y" * (size - len(GET) - 5) + b"\r\nHost")

    assert len(padded(MAX_HEAD)) == MAX_HEAD
    assert read([padded(MAX_HEAD)]) == [("/a", b"")]
    for raw in (padded(MAX_HEAD + 1), padded(MAX_HEAD + 2)[:-1]):
        reader = RequestReader()
        reader.feed(raw)
        with pytest.raises(HeadTooLarge):
            reader.next()


@pytest.mark.parametrize(
    "raw",
    [
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (MAX_BODY + 1),
        CHUNKS + b"%x\r\n" % (MAX_BODY + 1),
        CHUNKS + b"ffffffff\r\n",
        CHUNKS + b"1\r\nx\r\n" * 10_000,
        CHUNKS + b"1;" + b"x" * 20_000,
        CHUNKS + b"0\r\n" + b"X: y\r\n" * 5000,
    ],
    ids=["length", "chunk", "huge chunk", "many chunks", "long chunk line", "long trailer"],
)
def test_too_large_a_body_is_refused(raw: bytes) -> None:
    reader = RequestReader()
    reader.feed(raw)
    with pytest.raises(BodyTooLarge):
        reader.next()


def test_the_largest_body_is_read_both_ways() -> None:
    body = b"x" * MAX_BODY
    assert read([b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % MAX_BODY + body]) == [("/", body)]
    assert read([CHUNKS + b"%x\r\n" % MAX_BODY + body + b"\r\n0\r\n\r\n"]) == [("/", body)]


def test_sixteen_kib_byte_by_byte_are_no_work_worth_speaking_of() -> None:
    begin = time.process_time()
    reader = RequestReader()
    for byte in (b"GET /" + b"a" * 16_000)[: MAX_HEAD - 4]:
        reader.feed(bytes([byte]))
        assert reader.next() is None
    assert time.process_time() - begin < 1
