"""Operators at a follower whose node is away."""

import asyncio
import socket

import pytest

from duenotice.follower import passing as passing_module
from duenotice.follower.health import Wellbeing
from duenotice.follower.line import Node, NodeLine
from duenotice.follower.passing import Passing


def test_a_node_that_cannot_be_reached_is_a_503_that_says_so() -> None:
    async def ask() -> bytes:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        listening = socket.create_server(("127.0.0.1", 0))
        line = NodeLine(Node(url, "dn_token"))
        passing = Passing(lambda: [line, line], lambda: Wellbeing(url, "", True))
        await passing.start(listening)
        reader, writer = await asyncio.open_connection(*listening.getsockname())
        writer.write(b"GET /v1/fleet HTTP/1.1\r\n\r\n")
        try:
            return await reader.read()
        finally:
            writer.close()
            await passing.stop()

    answer = asyncio.run(ask())
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b"Nothing was done" in answer


def test_clients_that_say_nothing_lock_no_load_balancer_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask() -> bytes:
        listening = socket.create_server(("127.0.0.1", 0))
        passing = Passing(list, lambda: Wellbeing("http://node", "", True))
        await passing.start(listening)
        silent = [await asyncio.open_connection(*listening.getsockname()) for _ in range(5)]
        reader, writer = await asyncio.open_connection(*listening.getsockname())
        writer.write(b"GET /readyz HTTP/1.1\r\n\r\n")
        try:
            return await reader.read()
        finally:
            for _, each in (*silent, (reader, writer)):
                each.close()
            await passing.stop()

    monkeypatch.setattr(passing_module, "MOST_CONNECTIONS", 3)
    assert asyncio.run(ask()).startswith(b"HTTP/1.1 200 ")
