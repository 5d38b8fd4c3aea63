"""What is remembered of requests, and what is not."""

import pytest

from duenotice.metadata_api.options import MetadataOptions
from duenotice.metadata_api.requests import MAX_ENTRIES, MAX_REQUEST, SHORT, Poll, RequestCache, Router
from duenotice.wire.api_versions import BY_NAME

GET = b"GET /metadata/scheduledevents?api-version=2020-07-01 HTTP/1.1\r\nHost: x\r\nMetadata: true\r\n\r\n"


@pytest.fixture
def cache() -> RequestCache:
    return RequestCache(Router(MetadataOptions()))


def test_a_request_is_taken_apart_once(cache: RequestCache) -> None:
    ask = cache.add(GET)
    assert ask is not None
    assert ask.query == Poll(BY_NAME["2020-07-01"])
    assert cache.known == {GET: ask}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        GET[:-1],
        GET + GET,
        GET + b"G",
        b"\r\n" + GET,
        GET.replace(b"GET", b"POST"),
        GET.replace(b"\r\n\r\n", b"\r\nContent-Length: 1\r\n\r\n"),
        GET.replace(b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\n"),
        GET.replace(b"Host", b"Host "),
        GET.replace(b"Host", b"X: " + b"y" * MAX_REQUEST + b"\r\nHost"),
    ],
)
def test_anything_but_one_whole_get_without_a_body_is_left_alone(cache: RequestCache, data: bytes) -> None:
    assert cache.add(data) is None
    assert not cache.known


def test_no_more_is_remembered_than_there_is_room_for(cache: RequestCache) -> None:
    for number in range(MAX_ENTRIES + 1):
        cache.add(GET.replace(b"Host: x", b"Host: %d" % number))
    assert len(cache.known) == 1


def test_a_closed_memo_still_understands_but_remembers_nothing(cache: RequestCache) -> None:
    cache.add(GET)
    cache.close()
    assert cache.add(GET) is not None
    assert not cache.known


def test_as_much_is_read_as_the_longest_short_request_has_and_one_byte_more(cache: RequestCache) -> None:
    longer, longest = (GET.replace(b"Host", b"X: " + b"y" * more + b"\r\nHost") for more in (50, 1000))
    seen = [cache.read_size]
    for data in (GET, longer, GET + b"G", GET.replace(b"x", b"y"), longest):
        cache.add(data)
        seen.append(cache.read_size)
    assert seen == [SHORT, len(GET) + 1, *[len(longer) + 1] * 3, SHORT]
