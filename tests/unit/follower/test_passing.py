"""Operators at a follower whose node is away."""

import asyncio
import socket

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
