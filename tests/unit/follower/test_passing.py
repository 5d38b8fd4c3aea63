"""Operators at a follower whose node is away."""

import asyncio
import socket

from duenotice.follower.passing import Passing
from duenotice.http_call import parse_url


def test_a_node_that_cannot_be_reached_is_a_503_that_says_so() -> None:
    async def ask() -> bytes:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        listening = socket.create_server(("127.0.0.1", 0))
        passing = Passing(parse_url(url), None)
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
