"""What we take for a request is the same request to h11 and to httptools, or it is known why not."""

from random import Random

import pytest

from duenotice.metadata_api.options import MetadataOptions
from duenotice.metadata_api.requests import Router
from simulator.http.campaign import Compared, campaign, compare
from simulator.http.differences import DIFFERENCES, known
from simulator.http.grammar import pieces, stream
from simulator.http.opinions import Meaning, of_h11, of_httptools, ours
from tests.support.seed import SEED

GET = b"GET /a?b=c HTTP/1.1\r\nHost: h\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"


def test_all_readers_agree() -> None:
    """6,000 streams; `make soak` reads a million and more."""
    print(f"python -m simulator.http --seed {SEED}")  # noqa: T201
    compared = campaign(SEED, 6000)
    assert not compared.wrong, f"{compared.wrong[0]}\npython -m simulator.http --streams 1 --seed {compared.seed}"
    assert compared.accepted > 500


@pytest.mark.parametrize("raw", [GET, POST])
def test_a_plain_request_means_the_same_to_all_three(raw: bytes) -> None:
    """With its place: another one may follow."""
    (one,) = ours([raw])
    assert one.meaning.length == len(raw)
    assert of_h11(raw + GET) == of_httptools(raw + GET, len(raw)) == one.meaning


def test_a_reader_that_finds_another_end_is_noticed() -> None:
    """The place of the next request is what smuggling is about."""
    assert of_httptools(GET + GET, len(GET) + 1) == "it ends earlier"
    assert of_httptools(POST, len(POST) - 1) == "it ends later"
    assert isinstance(h11s := of_h11(POST + GET), Meaning)
    assert h11s.length == len(POST)


def test_a_difference_without_a_reason_is_a_finding() -> None:
    """Another body, or a refusal of a method that everybody knows."""
    (one,) = ours([GET])
    assert known("h11", one.meaning, GET, one.meaning._replace(body=b"x")) is None
    assert known("httptools", one.meaning, GET, "HttpParserError: any") is None


def test_a_known_difference_is_counted() -> None:
    """A method that httptools does not know."""
    compared = Compared()
    compare(GET.replace(b"GET", b"BREW"), Random(1), Router(MetadataOptions()), compared)
    assert (compared.accepted, compared.wrong) == (1, [])
    assert compared.known == {"httptools: HttpParser": 1}


def test_a_request_that_offers_another_protocol_keeps_its_body() -> None:
    """To us and to h11. To httptools all behind the head is that protocol (simulator.http, seed 1223750168272)."""
    offer = POST.replace(b"Host: h", b"Host: h\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c")
    (one,) = ours([offer])
    assert (one.meaning.body, one.meaning.length) == (b"hi", len(offer))
    assert of_h11(offer) == one.meaning
    compared = Compared()
    compare(offer, Random(1), Router(MetadataOptions()), compared)
    assert (compared.wrong, compared.known) == ([], {"httptools: another body": 1})


def test_every_known_difference_has_a_reason() -> None:
    """In a sentence."""
    assert [row for row in DIFFERENCES if not row.reason.endswith(".")] == []


def test_the_same_seed_makes_the_same_bytes_and_packets_lose_none() -> None:
    """So that what was found can be read again."""
    for seed in range(50):
        data = stream(Random(seed))
        assert stream(Random(seed)) == data
        assert b"".join(pieces(data, Random(seed))) == data
