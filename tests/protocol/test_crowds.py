"""A noisy VM is held back alone, and nothing grows without bound (A08, S24)."""

import select
import time
from contextlib import ExitStack, suppress
from dataclasses import replace

import pytest

from duenotice.metadata_api.connection import BLOCKED, MOST_UNSENT, Connection
from duenotice.metadata_api.options import MetadataOptions
from tests.protocol.raw import NOTHING, PATH, POLL, Client, ask, request
from tests.protocol.world import GENEROUS, SOLO, STRANGER, WEB_0, World, running

APPROVAL = request("POST", body=b'{"StartRequests":[{"EventId":"00000000-0000-0000-0000-000000000000"}]}')
SLOW_SECONDS = 0.2


def eventually(check) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + 5
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_sixth_request_at_once_is_too_many_and_says_when_to_come_back() -> None:
    with running(MetadataOptions()) as world, Client(world) as client:
        client.send(POLL * 6)
        replies = [client.reply() for _ in range(6)]
    assert [reply.status for reply in replies] == [200] * 5 + [429]
    assert replies[5].body == b'{"error":"Throttle Result: Too Many Requests"}'
    assert replies[5].headers["retry-after"] == "1"


def test_a_vm_that_was_quiet_for_a_second_may_ask_five_times_again_and_not_six() -> None:
    with running(MetadataOptions()) as world, Client(world) as client:
        client.send(POLL * 5)
        assert [client.reply().status for _ in range(5)] == [200] * 5
        time.sleep(1.2)
        client.send(POLL * 6)
        assert [client.reply().status for _ in range(6)] == [200] * 5 + [429]


def test_all_connections_of_a_vm_share_its_budget_and_other_vms_have_theirs() -> None:
    with running(MetadataOptions()) as world:
        statuses = [ask(world).status for _ in range(20)]
        assert (statuses[:5], 429 in statuses) == ([200] * 5, True)
        assert ask(world, source=WEB_0).status == 200


def test_approvals_have_a_budget_of_their_own() -> None:
    """A chatty poller cannot block its own approval."""
    with running(MetadataOptions()) as world:
        assert 429 in [ask(world).status for _ in range(20)]
        statuses = [ask(world, APPROVAL).status for _ in range(20)]
        assert (statuses[:5], 429 in statuses) == ([400] * 5, True)


def test_requests_that_are_refused_anyway_count_too() -> None:
    """A VM cannot keep the service busy with nonsense (A08)."""
    with running(MetadataOptions()) as world:
        statuses = [ask(world, request("GET", "/nowhere")).status for _ in range(20)]
        assert (statuses[:5], 429 in statuses) == ([404] * 5, True)


@pytest.mark.parametrize(
    "raw",
    [request("POST", PATH, "Content-Length: 1000000"), b"nonsense\r\n\r\n", request("GET", PATH, "X: " + "a" * 20_000)],
    ids=["too large", "malformed", "a head too large"],
)
def test_requests_that_cannot_be_read_count_too(raw: bytes) -> None:
    """What is wrong with them is looked at only while the VM may ask (A08, S29)."""
    with running(MetadataOptions(linger_seconds=0.1)) as world:
        statuses = [ask(world, raw).status for _ in range(20)]
        assert (statuses[0] in (400, 413, 431), set(statuses[:5]), 429 in statuses) == (True, {statuses[0]}, True)


def test_strangers_are_throttled_one_by_one() -> None:
    """An address that nobody registered is told so, and then that it asks too often; the next one is not."""
    with running(MetadataOptions(linger_seconds=0.1)) as world:
        statuses = [ask(world, source=STRANGER).status for _ in range(20)]
        assert (statuses[:5], 429 in statuses) == ([404] * 5, True)
        assert ask(world, source="127.0.9.10").status == 404


def test_a_request_in_very_many_small_pieces_is_refused() -> None:
    """To read one byte costs as much as to read many, so pieces are counted too."""
    with running() as world, Client(world) as client:
        client.send(request("POST", PATH, "Content-Length: 65536"))
        with suppress(ConnectionError):
            while not select.select([client.socket], [], [], 0)[0]:
                client.send(b"x")
        reply = client.reply()
        assert (reply.status, reply.headers["connection"], b"small pieces" in reply.body) == (413, "close", True)


def test_a_throttled_client_that_waits_as_it_is_told_is_answered_on_the_same_connection() -> None:
    """It polls twice as often as it may, and waits a second after each refusal."""
    with running(MetadataOptions()) as world, Client(world) as client:
        for _ in range(2):
            seen = [client.ask().status for _ in range(10)]
            assert set(seen) == {200, 429}
            time.sleep(1.2)
            assert client.ask().status == 200


def test_an_address_has_so_many_connections_and_others_are_not_affected() -> None:
    with running(replace(GENEROUS, max_connections_per_address=3)) as world:
        clients = [Client(world) for _ in range(3)]
        assert {client.ask().status for client in clients} == {200}
        with Client(world) as one_more:
            reply = one_more.ask()
            assert (reply.status, reply.headers["connection"]) == (429, "close")
            assert one_more.is_closed()
        assert ask(world, source=WEB_0).status == 200
        for client in clients:
            client.socket.close()
        eventually(lambda: world.server.connections == 0)
        assert ask(world).status == 200


def test_there_are_only_so_many_connections_in_all() -> None:
    options = replace(GENEROUS, max_connections=2)
    with running(options) as world, Client(world) as first, Client(world, WEB_0) as second:
        assert [first.ask().status, second.ask().status] == [200, 200]
        assert ask(world, source=STRANGER).status == 429


def test_a_flood_of_connections_is_not_even_answered() -> None:
    """The first of those who are too many are told so."""
    with running(replace(GENEROUS, max_connections_per_address=2)) as world, ExitStack() as open_ones:
        for expected in (200, 200, 429):
            client = open_ones.enter_context(Client(world))
            assert client.ask().status == expected

        many = [open_ones.enter_context(Client(world)) for _ in range(400)]
        for client in many:
            with suppress(ConnectionError):
                client.send(POLL)
        assert any(client.is_closed() for client in many)


def test_strangers_leave_nothing_behind(world: World) -> None:
    for last in range(1, 200):
        assert ask(world, source=f"127.0.200.{last}").status == 404
    eventually(lambda: world.server.connections == 0)
    door = world.server._context
    assert "127.0.200.1" not in door.sessions.by_address
    assert door.limits.by_address == {}


def whole_connection(world: World, address: str) -> Connection:
    """The server's end of the one connection from there."""
    (connection,) = (c for c in world.server._context.limits.connections if c.address == address)
    return connection


def send_until_blocked(world: World, client: Client) -> tuple[int, Connection]:
    """Send polls and read nothing until the server takes no more; how many bytes went out, and its end of it."""
    client.ask()
    connection = whole_connection(world, SOLO)
    client.socket.settimeout(0.1)
    sent = 0
    while connection.state is not BLOCKED or not connection.is_paused:
        with suppress(TimeoutError):
            sent += client.socket.send((POLL * 1000)[sent % len(POLL) :])
    client.socket.settimeout(5)
    return sent, connection


def test_a_client_that_never_reads_is_not_read_from_either(world: World) -> None:
    """The answers it does not take are bounded: its requests stay in its own kernel."""
    with Client(world) as client:
        _, connection = send_until_blocked(world, client)
        client.socket.settimeout(0.3)
        with pytest.raises(TimeoutError):
            while True:
                client.send(POLL * 1000)
        assert len(connection.unsent) < MOST_UNSENT + 10_000
        assert len(connection.reader or b"") < 1_000_000
        assert ask(world, source=WEB_0).status == 200


def test_a_client_that_begins_to_read_gets_every_answer(world: World) -> None:
    with Client(world) as client:
        sent, _ = send_until_blocked(world, client)
        whole, part = divmod(sent, len(POLL))
        assert {client.reply().body for _ in range(whole)} == {NOTHING}
        assert client.ask(POLL[part:]).body == NOTHING


def test_a_client_that_never_reads_is_cut_off_at_its_deadline() -> None:
    with running(replace(GENEROUS, request_seconds=1.0)) as world, Client(world) as client:
        send_until_blocked(world, client)
        eventually(lambda: world.server.connections == 0)


@pytest.mark.serial
def test_a_pipelining_client_does_not_starve_others(world: World) -> None:
    with Client(world) as greedy, Client(world, WEB_0) as modest:
        modest.ask()
        greedy.send(request("GET", PATH, "X: y") * 2000)
        begin = time.monotonic()
        assert modest.ask().status == 200
        assert time.monotonic() - begin < 0.5
        assert {greedy.reply().status for _ in range(2000)} == {200}


def test_a_request_that_is_not_whole_in_time_is_answered_408_and_closed() -> None:
    with running(replace(GENEROUS, request_seconds=SLOW_SECONDS)) as world, Client(world) as client:
        client.send(POLL[:20])
        reply = client.reply()
        assert (reply.status, reply.headers["connection"]) == (408, "close")
        assert client.is_closed()


def test_a_trickle_does_not_move_the_deadline() -> None:
    with running(replace(GENEROUS, request_seconds=SLOW_SECONDS)) as world, Client(world) as client:
        assert client.ask().status == 200
        begin = time.monotonic()
        client.socket.settimeout(0.05)
        reply = b""
        for byte in POLL[:-1] * 2:
            client.send(bytes([byte]))
            try:
                reply = client.socket.recv(1000)
                break
            except TimeoutError:
                continue
        assert reply.startswith(b"HTTP/1.1 408 ")
        assert time.monotonic() - begin < 2.5


def test_each_request_has_a_deadline_of_its_own() -> None:
    """A client that always has half a request under way is not slow."""
    with running(replace(GENEROUS, request_seconds=0.5)) as world, Client(world) as client:
        client.send(POLL[:30])
        for _ in range(30):
            assert client.ask(POLL[30:] + POLL[:30]).status == 200
            time.sleep(0.1)


def test_what_is_sent_after_the_last_answer_is_thrown_away(world: World) -> None:
    with Client(world, WEB_0) as client:
        assert client.ask(b"nonsense\r\n\r\n").status == 400
        client.socket.settimeout(0.3)  # what is too much stays in its own kernel, until the connection ends
        with suppress(TimeoutError):
            client.send(b"x" * 5_000_000)
        connection = whole_connection(world, WEB_0)
        assert len(connection.reader or b"") == 0


def test_a_connection_that_stays_idle_is_closed() -> None:
    with running(replace(GENEROUS, idle_seconds=SLOW_SECONDS)) as world, Client(world) as client:
        assert client.ask().status == 200
        assert client.is_closed()


def test_a_connection_that_is_in_use_is_not_idle() -> None:
    with running(replace(GENEROUS, idle_seconds=1.0)) as world, Client(world) as client:
        for _ in range(6):
            assert client.ask().status == 200
            time.sleep(0.4)
