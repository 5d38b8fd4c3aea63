"""A server that stops lets everybody come to an end."""

import asyncio
import time

import pytest
import uvloop

from duenotice.clock import ManualClock
from duenotice.metadata_api.context import ServerContext
from duenotice.store.memory import MemoryJournal
from tests.protocol.raw import NOTHING, PATH, POLL, Client, ask, request
from tests.protocol.wire import converse
from tests.protocol.world import GENEROUS, World, running, started_engine


@pytest.fixture
def world():
    with running() as world:
        assert ask(world).status == 200
        yield world


def test_idle_connections_are_closed_and_nobody_is_let_in(world: World) -> None:
    with Client(world) as client:
        client.ask()
        world.drain(5)
        assert client.is_closed()
    with pytest.raises(ConnectionRefusedError):
        Client(world)


def test_waiting_polls_are_answered_with_what_there_is(world: World) -> None:
    with Client(world) as client:
        client.send(request("GET", f"{PATH}&wait=30s", 'If-None-Match: "0"'))
        assert client.is_silent(0.1)
        begin = time.monotonic()
        world.drain(5)
        reply = client.reply()
        assert (reply.status, reply.headers["connection"]) == (304, "close")
        assert client.is_closed()
        assert time.monotonic() - begin < 10


def test_a_request_that_has_begun_is_answered_and_told_that_it_was_the_last(world: World) -> None:
    with Client(world) as client:
        client.ask()  # so that it is accepted: a connection that only waits in the listening socket is reset
        client.send(POLL[:30])
        world.call(lambda: None)
        world.call(lambda: world.loop.create_task(world.server.drain(5)))
        reply = client.ask(POLL[30:])
        assert (reply.body, reply.headers["connection"]) == (NOTHING, "close")
        assert client.is_closed()


def test_who_takes_too_long_is_cut_off(world: World) -> None:
    with Client(world) as client:
        client.ask()  # so that it is accepted: a connection that only waits in the listening socket is reset
        client.send(POLL[:30])
        world.call(lambda: None)
        begin = time.monotonic()
        world.drain(0.2)
        assert client.is_closed()
        assert 0.15 < time.monotonic() - begin < 3


def test_a_connection_that_slipped_in_is_told_that_its_answer_is_the_last() -> None:
    async def main() -> list[bytes]:
        engine = await started_engine(MemoryJournal(), ManualClock())
        door = ServerContext(engine.submit, engine.publisher, engine.clock, GENEROUS, asyncio.sleep)
        for _ in range(3):
            await converse(door, [POLL])
        await door.drain(1)
        answers = await converse(door, [POLL])
        await engine.stop()
        return answers

    (answer,) = uvloop.run(main())
    assert b"\r\nConnection: close\r\n" in answer
