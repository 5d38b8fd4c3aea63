"""A connection without a kernel in between, for what has to be quick or cannot be timed over a socket."""

import asyncio
from collections.abc import Iterable

from duenotice.metadata_api.context import ServerContext
from tests.protocol.world import SOLO
from tests.support.far_end import FarEnds

TURNS = 10_000


async def converse(door: ServerContext, packets: Iterable[bytes]) -> list[bytes]:
    """Send packets and then the end; what was answered until the server closed."""
    ends = FarEnds(door)
    connection, client = ends.connect(SOLO)
    for packet in packets:
        for _ in range(TURNS):
            if not client.unread or connection.fd < 0:
                break
            await asyncio.sleep(0)
        if connection.fd >= 0:
            ends.come(connection, client, packet)
        await asyncio.sleep(0)
    if connection.fd >= 0:
        ends.end(connection, client)
    for _ in range(TURNS):
        if connection.fd < 0:
            break
        await asyncio.sleep(0)
    assert connection.fd < 0
    return client.sent
