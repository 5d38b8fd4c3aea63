"""A connection without a kernel in between, for what has to be quick or cannot be timed over a socket."""

import asyncio
from collections.abc import Iterable

from duenotice.metadata_api.door import Door
from duenotice.metadata_api.protocol import Connection
from tests.protocol.world import SOLO


class Wire(asyncio.Transport):
    """The far end of a connection, without a kernel in between."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []
        self.half_closed = self.closed = False
        self.ready, self.over = asyncio.Event(), asyncio.Event()
        self.ready.set()

    def get_extra_info(self, name: str, default: object = None) -> object:
        return (SOLO, 5) if name == "peername" else self

    def fileno(self) -> int:
        return -1

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.half_closed, "sent something after the end"
        self.sent.append(bytes(data))

    def write_eof(self) -> None:
        self.half_closed = True

    def is_reading(self) -> bool:
        return self.ready.is_set()

    def pause_reading(self) -> None:
        self.ready.clear()

    def resume_reading(self) -> None:
        self.ready.set()

    def close(self) -> None:
        self.closed = self.half_closed = True
        self.ready.set()
        self.over.set()

    def abort(self) -> None:
        self.close()


async def converse(door: Door, packets: Iterable[bytes]) -> list[bytes]:
    """Send packets and then the end; what was answered until the server closed."""
    wire, connection = Wire(), Connection(door)
    connection.connection_made(wire)
    for packet in packets:
        await _come(wire.ready)
        if not wire.closed:
            connection.data_received(packet)
    if not wire.closed and not connection.eof_received():
        wire.close()
    await _come(wire.over)
    connection.connection_lost(None)
    return wire.sent


async def _come(event: asyncio.Event) -> None:
    """Wait for it; if it has come, let others have their turn, without a task and a timer for nothing."""
    await (asyncio.sleep(0) if event.is_set() else asyncio.wait_for(event.wait(), 1))
