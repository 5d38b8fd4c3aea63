"""How a head is read; what is refused, and why, is proved on the wire in tests/protocol/test_framing.py."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duenotice.errors import Malformed
from duenotice.metadata_api.http1 import CHUNKED, MAX_PIECES, UnmetExpectation, parse_head


def head_with(*lines: str, first: str = "GET / HTTP/1.1"):
    return parse_head("\r\n".join([first, "Host: x", *lines]).encode("latin-1"))


def test_a_head_is_taken_apart() -> None:
    head = head_with("A: 1", "B:2", "a:  3\t", first="POST /a/b?c=d?e HTTP/1.0")
    assert (head.method, head.path, head.query, head.minor) == ("POST", "/a/b", "c=d?e", 0)
    assert head.fields == {"host": ["x"], "a": ["1", "3"], "b": ["2"]}
    assert head.body_length == 0


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        ("http://h/p?q", "/p", "q"),
        ("HTTP://h:80/p", "/p", ""),
        ("http://h", "/", ""),
        ("http://h?q", "/", "q"),
        ("/http://h/p", "/http://h/p", ""),
    ],
)
def test_an_absolute_target_is_its_path_and_query(target: str, path: str, query: str) -> None:
    head = head_with(first=f"GET {target} HTTP/1.1")
    assert (head.path, head.query) == (path, query)


@pytest.mark.parametrize(
    "target", ["x", "*", "h:80", "https://h/p", "http:///p", "http://u@h/p", "http://h\\p/", "//", "?q"]
)
def test_other_targets_are_refused_or_are_paths_that_nobody_has(target: str) -> None:
    try:
        assert head_with(first=f"GET {target} HTTP/1.1").path == "//"
    except Malformed as refusal:
        assert refusal.hint


@pytest.mark.parametrize(
    ("lines", "length"),
    [
        ((), 0),
        (("Content-Length: 7",), 7),
        (("Content-Length: 007",), 7),
        (("Content-Length: 0",), 0),
        (("Transfer-Encoding: Chunked",), CHUNKED),
    ],
)
def test_how_long_the_body_is(lines: tuple[str, ...], length: int) -> None:
    assert head_with(*lines).body_length == length


def test_a_length_of_thousands_of_digits_is_just_very_long() -> None:
    assert head_with("Content-Length: " + "1" * 10_000).body_length > 10**18


@pytest.mark.parametrize(
    ("minor", "connection", "keep_alive"),
    [
        (1, None, True),
        (1, "close", False),
        (1, "Keep-Alive, Close", False),
        (1, "upgrade", True),
        (0, None, False),
        (0, "keep-alive", True),
        (0, "keep-alive, close", False),
    ],
)
def test_who_wants_the_connection_kept(minor: int, connection: str | None, keep_alive: bool) -> None:
    lines = () if connection is None else (f"Connection: {connection}",)
    assert head_with(*lines, first=f"GET / HTTP/1.{minor}").keep_alive is keep_alive


def test_only_a_client_with_a_body_can_hold_it_back() -> None:
    assert head_with("Expect: 100-continue", "Content-Length: 1").expects_continue
    assert not head_with("Expect: 100-continue").expects_continue
    assert not head_with("Expect: 100-continue", "Content-Length: 1", first="POST / HTTP/1.0").expects_continue


def test_any_other_expectation_is_refused() -> None:
    with pytest.raises(UnmetExpectation):
        head_with("Expect: the best")


@given(st.binary(max_size=300))
def test_any_bytes_are_a_head_or_malformed(raw: bytes) -> None:
    try:
        parse_head(raw)
    except Malformed as refusal:
        assert refusal.message
        assert refusal.hint


@pytest.mark.parametrize(
    ("first", "lines", "more"),
    [
        ("GET /{} HTTP/1.1", (), "/"),
        ("GET /?a{} HTTP/1.1", (), "&b"),
        ("GET /?{} HTTP/1.1", (), "%41"),
        ("GET / HTTP/1.1", ("If-None-Match: 1{}",), ",2"),
        ("GET / HTTP/1.1", ("A: 1{}",), "\r\nA: 2"),
    ],
)
def test_a_head_has_only_so_many_pieces(first: str, lines: tuple[str, ...], more: str) -> None:
    """They are counted before it is split: else 16 KiB of them would be milliseconds of work (S24)."""
    for much, fits in ((MAX_PIECES - 5, True), (MAX_PIECES + 1, False)):
        filled = [line.replace("{}", more * much) for line in lines]
        if fits:
            assert head_with(*filled, first=first.replace("{}", more * much)).minor == 1
        else:
            with pytest.raises(Malformed, match=f"more than {MAX_PIECES}"):
                head_with(*filled, first=first.replace("{}", more * much))


@pytest.mark.parametrize("filling", [b" " * 16_000, b"\t \t" * 5000, b"a" * 16_000, b":" * 16_000])
def test_no_line_takes_long_to_refuse(filling: bytes) -> None:
    begin = time.process_time()
    for line in (b"X:" + filling + b"\x01", b"X" + filling + b"\x01", b"X:" + filling):
        with pytest.raises(Malformed):
            parse_head(b"GET / HTTP/1.1\r\n" + line)
    assert time.process_time() - begin < 0.1
