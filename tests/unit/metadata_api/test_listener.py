"""Connections: what is answered in the turn of the loop that takes them or hears of them, and what is kept of them.

The tests play client and server in one thread: until a test awaits something, the loop does nothing.
"""

import asyncio
import os
import resource
import select
import socket
import struct
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
import uvloop

from duenotice.clock import ManualClock
from duenotice.domain.apply import Touched
from duenotice.domain.commands import ScheduleEvent
from duenotice.domain.event import EventType
from duenotice.engine.curtain import Curtain
from duenotice.engine.engine import Engine
from duenotice.metadata_api import listener as listener_module
from duenotice.metadata_api.context import ServerContext
from duenotice.metadata_api.guard import Guard
from duenotice.metadata_api.listener import AT_ONCE, ENDED_AT_ONCE, OTHERS, ROUNDS, SEVERAL, Listener
from duenotice.metadata_api.options import MetadataOptions
from duenotice.metadata_api.requests import ParsedRequest
from duenotice.metadata_api.server import MetadataServer
from duenotice.metadata_api.sessions import Bucket
from duenotice.store.memory import MemoryJournal
from tests.programs import skip_unless_ci
from tests.protocol.raw import LAST_POLL, NOTHING, PATH, POLL, request
from tests.protocol.world import GENEROUS, SOLO, started_engine

SECONDS = 20
OLD_POLL = request(version="1.0")
SMALL_BUFFER = 4096

Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture(params=[uvloop.new_event_loop, asyncio.new_event_loop], ids=["uvloop", "asyncio"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs something to its end on a loop of its own."""

    def to_the_end(work: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(asyncio.wait_for(work, SECONDS))

    return to_the_end


class Stage:
    """A server that knows the polls of the VM `solo`, and clients that play this VM."""

    def __init__(self, server: MetadataServer, address: tuple[str, int], door: ServerContext, engine: Engine) -> None:
        self.server, self.address, self.context, self._engine = server, address, door, engine
        self.buffer = 65536
        self.problems: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: self.problems.append(context))

    @property
    def listener(self) -> Listener:
        assert self.server._listener is not None
        return self.server._listener

    def client(self, *packets: bytes) -> socket.socket:
        """A client that has connected and sent this; the server has not looked yet."""
        client = socket.socket()
        client.settimeout(SECONDS)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.buffer)
        client.bind((SOLO, 0))
        client.connect(self.address)
        for packet in packets:
            client.sendall(packet)
        return client

    def look(self) -> None:
        """What the loop has done when something has come: on connections that are kept, and new ones."""
        self.listener.look()
        self.listener.accept()

    async def schedule(self) -> None:
        """Raise an event."""
        await self._engine.submit(ScheduleEvent(str(uuid4()).upper(), EventType.REBOOT, ("solo",)), "test")

    async def ask(self, raw: bytes, much: int = 65536) -> bytes:
        """What comes until the server closes, or so much."""
        return await rest(self.client(raw), much)


async def rest(client: socket.socket, much: int = 2**20) -> bytes:
    """What is still to come until the server closes, or so much."""
    client.setblocking(False)
    with client:
        data = b""
        while len(data) < much and (some := await asyncio.get_running_loop().sock_recv(client, 65536)):
            data += some
        return data


def everything(client: socket.socket) -> bytes:
    """What has come until the server closed, while the loop stands still."""
    client.settimeout(1)
    with client:
        data = b""
        while some := client.recv(65536):
            data += some
        return data


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


@asynccontextmanager
async def stage(
    options: MetadataOptions = GENEROUS,
    guard: Guard | None = None,
    listening: socket.socket | None = None,
    events: int = 0,
) -> AsyncIterator[Stage]:
    engine = await started_engine(MemoryJournal(), ManualClock())
    doors: list[ServerContext] = []
    guard = guard or Guard(lambda: True, Curtain())

    def prepare(context: ServerContext) -> None:
        doors.append(context)
        guard.stand_before(context)

    server = MetadataServer(engine.submit, engine.publisher, engine.clock, options, prepare=prepare)
    listening = listening or socket.create_server(("127.0.0.1", 0))
    made = Stage(server, ("127.0.0.1", (await server.start_on(listening))[1]), doors[0], engine)
    for raw in (LAST_POLL, OLD_POLL, POLL):
        assert NOTHING in await made.ask(raw, much=1)
    for _ in range(events):
        await made.schedule()
    if events:
        await made.ask(LAST_POLL)
    await until(lambda: not made.server.connections)
    try:
        yield made
    finally:
        await server.drain(1)
        await engine.stop()


async def until(check: Callable[[], bool]) -> None:
    while not check():  # noqa: ASYNC110 - turns of the loop, not time
        await asyncio.sleep(0)


@pytest.mark.parametrize("raw", [LAST_POLL, OLD_POLL], ids=["close", "HTTP/1.0"])
def test_a_known_poll_that_closes_is_answered_and_closed_in_the_turn_that_takes_it(run: Run, raw: bytes) -> None:
    async def main() -> None:
        async with stage() as world:
            before = world.server.answered
            client = world.client(raw)
            world.look()
            answer = everything(client)
            assert (status(answer), answer.endswith(NOTHING)) == (200, True)
            assert b"\r\nConnection: close\r\n" in answer
            assert (world.server.answered - before, world.server.connections) == (1, 0)

    run(main())


def test_a_last_answer_and_the_end_come_in_one_packet(run: Run) -> None:
    async def main() -> None:
        async with stage() as world:
            client = world.client(LAST_POLL)
            while tcp_info(client).unacked:  # the kernel has still to say that it has the request
                pass
            before = tcp_info(client).packets_in
            world.look()
            assert tcp_info(client).packets_in == before + 1
            assert everything(client).endswith(NOTHING)

    run(main())


class TcpInfo(NamedTuple):
    unacked: int
    packets_in: int


def tcp_info(client: socket.socket) -> TcpInfo:
    info = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 144)
    return TcpInfo(*struct.unpack("24xI112xI", info))


class Meanwhile(dict[bytes, ParsedRequest]):
    """What requests mean; while that is looked up, the client does something."""

    def __init__(self, known: dict[bytes, ParsedRequest], does: Callable[[], object]) -> None:
        super().__init__(known)
        self._does = does

    def get(self, key: bytes, default: Any = None) -> Any:
        self._does()
        return super().get(key, default)


def test_a_client_that_goes_on_sending_still_gets_its_last_answer(run: Run) -> None:
    """It must not, and what it sends is not read; but the answer must not be lost with it."""

    async def main() -> None:
        async with stage() as world:
            with world.client(LAST_POLL) as client:
                world.listener._known = Meanwhile(world.context.known, lambda: client.sendall(POLL))
                world.look()
                assert status(client.recv(65536)) == 200

    run(main())


def test_an_answer_is_not_lost_with_much_that_came_behind_its_request(run: Run) -> None:
    """To close with bytes that nobody has read resets the connection."""

    async def main() -> None:
        async with stage() as world:
            for _ in range(5):
                with world.client(request("GET", PATH, "X: new"), LAST_POLL + b"x" * 100_000) as client:
                    answer = await rest(client)
                    assert (answer.count(b"HTTP/1.1 200"), answer.endswith(NOTHING)) == (2, True)

    run(main())


def test_the_first_poll_of_its_kind_leaves_its_connection_at_rest_too(run: Run) -> None:
    async def main() -> None:
        async with stage() as world:
            with world.client(request("GET", PATH, "X: y")) as client:
                world.look()
                assert status(client.recv(65536)) == 200
                assert [guest.reader for guest in world.context.limits.connections] == [None]
            assert status(await world.ask(request("GET", PATH, "X: z", "Connection: close"))) == 200

    run(main())


def test_more_clients_than_one_turn_takes_are_all_answered_in_the_next_turns(run: Run) -> None:
    async def main() -> None:
        async with stage() as world:
            clients = [world.client(LAST_POLL) for _ in range(AT_ONCE + 5)]
            world.look()
            assert {status(everything(client)) for client in clients[:AT_ONCE]} == {200}
            with pytest.raises(TimeoutError):
                clients[AT_ONCE].settimeout(0.05)
                clients[AT_ONCE].recv(1)
            assert {status(await rest(client)) for client in clients[AT_ONCE:]} == {200}

    run(main())


def test_the_first_clients_of_a_turn_do_not_wait_for_the_last(run: Run) -> None:
    async def main() -> None:
        async with stage() as world:
            clients = [world.client(LAST_POLL) for _ in range(ENDED_AT_ONCE + 1)]
            while any(tcp_info(client).unacked for client in clients):
                pass
            without = [tcp_info(client).packets_in for client in clients]
            waiting: list[int] = []

            def answered() -> None:
                now = (tcp_info(client).packets_in for client in clients)
                waiting.append(sum(after == before for before, after in zip(without, now, strict=True)))

            world.listener._known = Meanwhile(world.context.known, answered)
            world.look()
            assert waiting == [ENDED_AT_ONCE + 1] * ENDED_AT_ONCE + [1]
            assert {status(everything(client)) for client in clients} == {200}

    run(main())


def test_polls_on_a_connection_that_stays_open_leave_it_at_rest(run: Run) -> None:
    """The first, the next ones, and the end of it."""

    async def main() -> None:
        async with stage() as world:
            client = world.client(POLL)
            for _ in range(3):
                world.look()
                assert status(client.recv(65536)) == 200
                assert [guest.reader for guest in world.context.limits.connections] == [None]
                client.sendall(POLL)
            world.look()
            client.close()
            world.look()
            assert (world.server.connections, world.context.limits.by_address, any(world.listener._connections)) == (
                0,
                {},
                False,
            )

    run(main())


CROWD = SEVERAL * OTHERS + 1


@pytest.mark.parametrize(
    ("connected", "asking", "rounds"),
    [(CROWD, SEVERAL, ROUNDS), (CROWD, SEVERAL - 1, 1), (CROWD - 1, SEVERAL, 1)],
    ids=["several of many", "few", "several of few"],
)
def test_polls_that_come_a_moment_after_several_others_are_answered_in_the_same_turn(
    run: Run, monkeypatch: pytest.MonkeyPatch, connected: int, asking: int, rounds: int
) -> None:
    """Nobody waits for more after a few polls, nor when there are not many others who could ask."""

    async def main() -> None:
        async with stage() as world:
            clients = [world.client(POLL) for _ in range(connected)]
            world.look()
            before = world.server.answered

            def some_ask(_: float = 0.0) -> None:
                for client in clients[:asking]:
                    client.sendall(POLL)

            monkeypatch.setattr(listener_module, "sleep", some_ask)
            some_ask()
            world.listener.look()
            assert world.server.answered - before == rounds * asking
            for client in clients:
                client.close()

    run(main())


def test_nobody_waits_for_polls_when_clients_end(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with stage() as world:
            clients = [world.client(POLL) for _ in range(2 * CROWD)]
            world.look()
            for client in clients[:SEVERAL]:
                client.recv(65536)
                client.close()
            waited: list[float] = []
            monkeypatch.setattr(listener_module, "sleep", waited.append)
            world.listener.look()
            assert (waited, world.server.connections) == ([], 2 * CROWD - SEVERAL)
            for client in clients:
                client.close()

    run(main())


def test_a_new_document_leaves_its_connection_at_rest(run: Run) -> None:
    async def main() -> None:
        async with stage() as world:
            with world.client(POLL) as client:
                world.look()
                assert NOTHING in client.recv(65536)
                await world.schedule()
                client.sendall(POLL)
                world.look()
                assert b'"EventId"' in client.recv(65536)
                assert [guest.reader for guest in world.context.limits.connections] == [None]

    run(main())


def test_a_vm_that_has_not_asked_since_the_start_leaves_its_connection_at_rest(run: Run) -> None:
    """Unless its scope has to be turned on first."""

    async def main() -> None:
        async with stage() as world:
            world.context.sessions.by_address.clear()
            with world.client(POLL) as client:
                world.look()
                assert NOTHING in client.recv(65536)
                assert [guest.reader for guest in world.context.limits.connections] == [None]

    run(main())


@pytest.mark.parametrize("length", [469, 470, 471, 2000])
def test_polls_of_any_length_leave_their_connection_at_rest(run: Run, length: int) -> None:
    empty = request("GET", PATH, "X: ")
    long = request("GET", PATH, f"X: {'y' * (length - len(empty))}")
    assert len(long) == length

    async def main() -> None:
        async with stage() as world:
            with world.client(POLL) as client:
                world.look()
                assert status(client.recv(65536)) == 200
                for _ in range(2):  # the second time it is known
                    client.sendall(long)
                    world.look()
                    assert status(client.recv(65536)) == 200
                assert [guest.reader for guest in world.context.limits.connections] == [None]

    run(main())


def test_the_end_of_a_client_is_heard_when_it_comes_together_with_its_last_poll(run: Run) -> None:
    async def main() -> None:
        async with stage() as world:
            with world.client(POLL) as client:
                world.look()
                assert status(client.recv(65536)) == 200
                client.sendall(POLL)
                client.shutdown(socket.SHUT_WR)
                world.look()
                assert (status(client.recv(65536)), client.recv(1), world.server.connections) == (200, b"", 0)

    run(main())


def test_a_connection_on_which_something_else_is_asked_keeps_its_place(run: Run) -> None:
    """Also when it was the last one that there was room for."""

    async def main() -> None:
        async with stage(replace(GENEROUS, max_connections=1)) as world:
            client = world.client(POLL)
            world.look()
            assert status(client.recv(65536)) == 200
            client.sendall(request("GET", PATH, "If-None-Match: 7"))
            world.look()
            assert (status(await world.ask(LAST_POLL)), status(await rest(client, much=1))) == (429, 200)

    run(main())


def test_a_connection_at_rest_is_closed_at_its_deadline(run: Run) -> None:
    async def main() -> None:
        async with stage(replace(GENEROUS, idle_seconds=0.2)) as world:
            answer = await world.ask(POLL)
            assert (status(answer), world.server.connections) == (200, 0)

    run(main())


OTHERS_ASK = {
    "half of it": ((LAST_POLL[:30], LAST_POLL[30:]), 200),
    "more behind it": ((LAST_POLL, POLL), 200),
    "nonsense": ((b"\n\n",), 400),
    "has it already": ((request("GET", PATH, "Connection: close", "If-None-Match: 0"),), 304),
    "approval": ((request("POST", PATH, "Connection: close", body=b"{}"),), 400),
}


@pytest.mark.parametrize(("packets", "expected"), OTHERS_ASK.values(), ids=OTHERS_ASK.keys())
def test_all_else_is_answered_too_with_what_was_read_already(
    run: Run, packets: tuple[bytes, ...], expected: int
) -> None:
    async def main() -> None:
        async with stage() as world:
            client = world.client(packets[0])
            world.look()
            for packet in packets[1:]:
                client.sendall(packet)
            answer = await rest(client, much=1)
            assert status(answer) == expected

    run(main())


def test_a_connection_without_a_byte_blocks_nobody_and_may_still_ask(run: Run) -> None:
    """The kernel waits for the first byte about a second; here it does not wait at all."""

    async def main() -> None:
        async with stage() as world:
            world.listener._listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, 0)
            silent, other = world.client(), world.client(LAST_POLL)
            world.look()
            assert status(everything(other)) == 200
            await until(lambda: world.server.connections == 1)
            silent.sendall(LAST_POLL)
            assert status(await rest(silent)) == 200

    run(main())


def test_a_client_that_says_nothing_is_given_to_us_by_the_kernel_and_closed_at_its_deadline(run: Run) -> None:
    async def main() -> None:
        async with stage(replace(GENEROUS, request_seconds=0.2)) as world:
            assert await rest(world.client()) == b""

    run(main())


def test_who_is_gone_before_we_look_leaves_nothing_behind(run: Run) -> None:
    async def main() -> None:
        async with stage() as world:
            for packets in ((), (LAST_POLL,), (POLL,)):
                resets = world.client(*packets)
                resets.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                resets.close()
                world.client(*packets).close()
            assert status(await world.ask(LAST_POLL)) == 200
            await until(lambda: world.server.connections == 0)
            assert not world.problems

    run(main())


def test_an_answer_that_does_not_fit_into_the_kernel_is_sent_to_its_end(run: Run) -> None:
    async def main() -> None:
        listening = socket.create_server(("127.0.0.1", 0))
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL_BUFFER)
        async with stage(listening=listening, events=100) as world:
            world.buffer = SMALL_BUFFER
            client = world.client(LAST_POLL)
            world.look()
            (reader,) = world.context.limits.connections
            assert reader.unsent
            head, _, body = (await rest(client)).partition(b"\r\n\r\n")
            assert f"\r\nContent-Length: {len(body)}\r\n".encode() in head
            assert body.endswith(b"]}")
            assert body.count(b'"EventId"') == 100

    run(main())


def test_a_slow_reader_of_a_long_answer_has_as_much_time_as_an_idle_one(run: Run) -> None:
    async def main() -> None:
        listening = socket.create_server(("127.0.0.1", 0))
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL_BUFFER)
        async with stage(replace(GENEROUS, request_seconds=1), listening=listening, events=100) as world:
            world.buffer = SMALL_BUFFER
            with world.client(POLL):
                world.look()
                (reader,) = world.context.limits.connections
                assert reader.deadline > world.context.time.request_until

    run(main())


def test_a_poll_beyond_the_rate_is_refused(run: Run) -> None:
    async def main() -> None:
        async with stage(MetadataOptions(throttle=5)) as world:
            world.context.sessions.by_address.clear()
            statuses = [status(await world.ask(LAST_POLL)) for _ in range(6)]
            assert statuses == [200] * 5 + [429]

    run(main())


def test_who_asks_too_often_is_refused_as_cheaply_as_others_are_answered(run: Run) -> None:
    """At once (A08): else thousands of refusals keep everybody else waiting."""

    async def main() -> None:
        async with stage(MetadataOptions(throttle=5)) as world:
            with world.client(POLL) as staying:
                closing = world.client(LAST_POLL)
                while world.context.sessions.by_address[SOLO].polls.take(world.context.time.now):
                    pass
                world.look()
                assert (status(staying.recv(65536)), status(everything(closing))) == (429, 429)
                assert [guest.reader for guest in world.context.limits.connections] == [None]

    run(main())


def test_connections_that_flood_us_are_closed_in_the_turn_that_takes_them(run: Run) -> None:
    """At once (S26); the first are told why, and then nobody is."""

    async def main() -> None:
        async with stage(replace(GENEROUS, max_connections_per_address=1)) as world:
            with world.client(POLL):
                world.look()
                refused = world.client(POLL)
                world.look()
                assert status(everything(refused)) == 429
                use_up(world.context.sessions.by_address[SOLO].refusals, world)
                flooding = world.client(POLL)
                world.look()
                with pytest.raises(ConnectionResetError):
                    everything(flooding)
                assert [guest.reader for guest in world.context.limits.connections] == [None]

    run(main())


def use_up(bucket: Bucket, world: Stage) -> None:
    """Take all its tokens, and go on as if it were still the same moment."""
    while bucket.take(world.context.time.now):
        pass


OTHER_REQUESTS = {
    "a long one": request("GET", PATH + "&x=1" * 600),
    "an approval": request("POST", body=b"{}"),
    "half of one": POLL[:30],
    "nonsense": b"\n\n",
    "never seen before": request("GET", PATH, "X: never seen before"),
}


@pytest.mark.parametrize("raw", OTHER_REQUESTS.values(), ids=OTHER_REQUESTS.keys())
def test_who_asks_too_often_is_refused_before_anything_is_read_of_the_request(run: Run, raw: bytes) -> None:
    """Nothing is remembered of it (S29). As its end is not known, it is the last one."""

    async def main() -> None:
        async with stage(MetadataOptions(throttle=5)) as world:
            session, known = world.context.sessions.by_address[SOLO], dict(world.context.known)
            use_up(session.polls, world)
            use_up(session.approvals, world)
            client = world.client(raw)
            world.look()
            answer = everything(client)
            assert (status(answer), b"\r\nConnection: close\r\n" in answer) == (429, True)
            assert world.context.known == known

    run(main())


def test_an_address_that_nobody_registered_has_a_bucket_too(run: Run) -> None:
    """First it is told who it is not, and then that it asks too often (A09, S29)."""

    async def main() -> None:
        async with stage(MetadataOptions(throttle=5)) as world:
            statuses = []
            for _ in range(6):
                stranger = socket.create_connection(world.address, SECONDS, ("127.0.9.9", 0))
                stranger.sendall(LAST_POLL)
                statuses.append(status(await rest(stranger)))
            assert statuses == [404] * 5 + [429]

    run(main())


def test_the_place_of_a_refused_connection_is_taken_for_a_while(run: Run) -> None:
    """So noise uses up the noisy address's own places, and no more than half: it may still approve."""

    async def main() -> None:
        options = MetadataOptions(throttle=5, max_connections_per_address=4, linger_seconds=0.2)
        async with stage(options) as world:
            session = world.context.sessions.by_address[SOLO]
            use_up(session.polls, world)
            clients = [world.client(OTHER_REQUESTS["a long one"]) for _ in range(4)]
            world.look()
            assert {status(client.recv(65536)) for client in clients[:3]} == {429}
            assert status(everything(clients[3])) == 429
            use_up(session.refusals, world)
            noisy = world.client(OTHER_REQUESTS["a long one"])
            world.look()
            assert everything(noisy) == b""
            assert world.server.connections == 3
            for client in clients[:3]:
                client.close()
            assert status(await world.ask(OTHER_REQUESTS["an approval"], much=1)) == 400
            await until(lambda: not world.server.connections)
            assert world.problems == []

    run(main())


def test_a_connection_that_is_refused_again_and_again_is_closed(run: Run) -> None:
    """The polite way first: it stays open for many refusals, and the last one says that it is the last."""

    async def main() -> None:
        async with stage(MetadataOptions(throttle=5)) as world:
            session = world.context.sessions.by_address[SOLO]
            with world.client(POLL) as client:
                world.look()
                use_up(session.polls, world)
                seen = []
                for wears_out in (False, True):
                    if wears_out:
                        use_up(session.refusals, world)
                    client.recv(65536)
                    client.sendall(POLL)
                    world.look()
                    answer = client.recv(65536, socket.MSG_PEEK)
                    seen.append((status(answer), b"\r\nConnection: close\r\n" in answer))
                assert seen == [(429, False), (429, True)]
                assert everything(client).startswith(b"HTTP/1.1 429")

    run(main())


FEW = [replace(GENEROUS, max_connections=2), replace(GENEROUS, max_connections_per_address=2)]


@pytest.mark.parametrize("options", FEW, ids=["in all", "per address"])
def test_a_poll_on_one_connection_too_many_is_refused(run: Run, options: MetadataOptions) -> None:
    async def main() -> None:
        async with stage(options) as world:
            kept = [world.client(POLL) for _ in range(2)]
            await until(lambda: world.server.connections == 2)
            assert status(await world.ask(LAST_POLL)) == 429
            for client in kept:
                client.close()
            await until(lambda: world.server.connections == 0)
            assert status(await world.ask(LAST_POLL)) == 200

    run(main())


def test_a_fault_is_met_on_a_new_connection_too(run: Run) -> None:
    async def main() -> None:
        async with stage() as world:
            world.server.faults.put("solo", "500", 20)
            assert status(await world.ask(LAST_POLL)) == 500
            world.server.faults.lift("solo")
            assert status(await world.ask(LAST_POLL)) == 200

    run(main())


def test_a_node_of_many_that_may_not_answer_refuses_and_a_hidden_scope_has_to_wait(run: Run) -> None:
    async def main() -> None:
        curtain, rights = Curtain(), [True]
        async with stage(guard=Guard(lambda: rights[0], curtain)) as world:
            rights[0] = False
            assert status(await world.ask(LAST_POLL)) == 503
            rights[0] = True
            curtain.hide(Touched({"vm/solo"}, set(), set()))
            client = world.client(LAST_POLL)
            world.look()
            await until(lambda: bool(world.context.tasks))
            curtain.lift()
            assert status(await rest(client)) == 200

    run(main())


def test_who_has_begun_to_ask_when_the_server_stops_is_answered(run: Run) -> None:
    async def main() -> None:
        async with stage() as world:
            clients = [world.client(raw) for raw in (POLL, POLL[:30], LAST_POLL)]
            world.look()
            stopping = asyncio.ensure_future(world.server.drain(SECONDS))
            clients[1].sendall(POLL[30:])
            assert [status(await rest(client)) for client in clients] == [200] * 3
            await stopping
            assert world.server.connections == 0
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(world.address, SECONDS)

    run(main())


@contextmanager
def no_files_left() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_without_a_file_left_it_says_so_rests_and_goes_on(run: Run) -> None:
    async def main() -> None:
        async with stage() as world:
            client = world.client(LAST_POLL)
            with no_files_left():
                world.look()
            assert [str(problem["message"]) for problem in world.problems] == ["No connection can be accepted."]
            assert status(await rest(client)) == 200
            assert len(world.problems) == 1

    run(main())


def test_a_server_that_rests_can_be_stopped(run: Run) -> None:
    async def main() -> None:
        async with stage() as world:
            with world.client(LAST_POLL), no_files_left():
                world.look()
            await world.server.drain(1)
            assert len(world.problems) == 1

    run(main())


def test_ipv4_and_ipv6_clients_come_in_over_one_socket(run: Run) -> None:
    if not socket.has_dualstack_ipv6():
        skip_unless_ci("needs IPv6")

    async def main() -> None:
        both = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
        async with stage(listening=both) as world:
            client = world.client(LAST_POLL)
            world.look()
            assert everything(client).endswith(NOTHING)
            stranger = socket.create_connection(("::1", world.address[1]), SECONDS)
            stranger.sendall(LAST_POLL)
            answer = await rest(stranger)
            assert (status(answer), b"the address ::1." in answer) == (404, True)

    run(main())


@pytest.mark.parametrize("raw", [POLL * 3, POLL[:30], OTHER_REQUESTS["an approval"]], ids=["polls", "half", "approval"])
def test_where_there_is_no_epoll_the_loop_watches(run: Run, monkeypatch: pytest.MonkeyPatch, raw: bytes) -> None:
    """As on macOS: the end of a client and an answer that does not fit are heard of as well."""

    async def main() -> None:
        listening = socket.create_server(("127.0.0.1", 0))
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL_BUFFER)
        async with stage(listening=listening, events=100) as world:
            assert world.listener._epoll is None
            world.buffer = SMALL_BUFFER
            assert (await world.ask(LAST_POLL)).endswith(b"]}")
            with world.client(raw) as client:
                assert b"HTTP/1.1" in await rest(client, much=1) if raw != POLL[:30] else True
            await until(lambda: not world.server.connections)

    monkeypatch.delattr(select, "epoll")
    run(main())
