"""However packets are cut, the same requests get the same answers."""

import pytest

from tests.protocol.raw import LAST_POLL, NOTHING, POLL, Client, request
from tests.protocol.world import World

APPROVAL_BODY = b'{"StartRequests":[{"EventId":"00000000-0000-0000-0000-000000000000"}]}'
APPROVAL = request("POST", body=APPROVAL_BODY)
CHUNKED = request("POST", "/metadata/scheduledevents?api-version=2019-08-01", "Transfer-Encoding: chunked") + (
    b"5\r\n%b\r\n%x;why=not\r\n%b\r\n0\r\nTrailer: x\r\n\r\n"
    % (APPROVAL_BODY[:5], len(APPROVAL_BODY) - 5, APPROVAL_BODY[5:])
)


@pytest.fixture
def client(world: World):
    with Client(world) as client:
        yield client


def test_a_poll_cut_in_two_at_any_place_is_answered_as_a_whole(client: Client) -> None:
    for cut in range(1, len(POLL)):
        client.send(POLL[:cut])
        assert client.ask(POLL[cut:]).body == NOTHING, cut


def test_a_poll_cut_in_two_in_separate_reads_is_answered_as_a_whole(world: World, client: Client) -> None:
    """The server has taken the first part up before the second is sent."""
    for cut in range(1, len(POLL), 7):
        client.send(POLL[:cut])
        world.call(lambda: None)
        assert client.ask(POLL[cut:]).body == NOTHING, cut


@pytest.mark.parametrize("raw", [APPROVAL, CHUNKED], ids=["sized", "chunked"])
def test_an_approval_cut_in_two_at_any_place_is_answered_as_a_whole(client: Client, raw: bytes) -> None:
    for cut in range(1, len(raw)):
        client.send(raw[:cut])
        reply = client.ask(raw[cut:])
        assert (reply.status, b"no event" in reply.body) == (400, True), cut


@pytest.mark.parametrize("raw", [POLL, APPROVAL, CHUNKED], ids=["poll", "sized", "chunked"])
def test_a_request_that_comes_byte_by_byte_is_answered_once(client: Client, raw: bytes) -> None:
    for byte in raw:
        client.send(bytes([byte]))
    assert client.reply().status in (200, 400)
    assert client.ask().body == NOTHING


def test_the_first_request_may_come_byte_by_byte_over_a_new_connection(world: World) -> None:
    with Client(world) as client:
        for byte in POLL:
            client.send(bytes([byte]))
        assert client.reply().body == NOTHING


def test_pipelined_requests_are_answered_in_order(client: Client) -> None:
    client.send(POLL + APPROVAL + request("GET", "/nowhere") + CHUNKED + POLL)
    assert [client.reply().status for _ in range(5)] == [200, 400, 404, 400, 200]


def test_a_thousand_pipelined_requests_get_a_thousand_answers(client: Client) -> None:
    client.send(POLL * 1000)
    assert {client.reply().body for _ in range(1000)} == {NOTHING}


def test_one_and_a_half_requests_get_one_answer_until_the_rest_comes(client: Client) -> None:
    for cut in range(1, len(POLL), 5):
        assert client.ask(POLL + POLL[:cut]).body == NOTHING
        assert client.ask(POLL[cut:]).body == NOTHING


def test_nothing_is_answered_after_connection_close(client: Client) -> None:
    client.send(LAST_POLL + POLL)
    reply = client.reply()
    assert (reply.body, reply.headers["connection"]) == (NOTHING, "close")
    assert client.is_closed()


def test_requests_before_the_clients_end_are_all_answered(client: Client) -> None:
    client.send(POLL * 40 + APPROVAL)
    client.end()
    assert [client.reply().status for _ in range(41)] == [200] * 40 + [400]
    assert client.is_closed()


def test_a_request_that_ends_half_way_is_refused(client: Client) -> None:
    client.send(POLL[:-1])
    client.end()
    assert client.reply().status == 400
    assert client.is_closed()
