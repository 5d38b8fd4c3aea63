"""Whatever is sent: no crash, no 5xx, no hang over a second; `FUZZ_SEED` repeats a run."""

import asyncio
import logging
import os
import random
import re
import socket
import time
from collections.abc import Iterable

import uvloop

from duenotice.clock import ManualClock
from duenotice.journal.memory import MemoryJournal
from duenotice.metadata_api.door import Door
from duenotice.metadata_api.protocol import Connection
from tests.protocol.fuzz import inputs
from tests.protocol.world import GENEROUS, SOLO, World, started_engine

SEED = int(os.environ.get("FUZZ_SEED") or random.randrange(2**32))
log = logging.getLogger(__name__)
log.setLevel(logging.INFO)

ANSWER = re.compile(rb"HTTP/1\.1 (?:100|200|304|400|404|405|413|417|431) ")


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
        await asyncio.wait_for(wire.ready.wait(), 1)
        if not wire.closed:
            connection.data_received(packet)
    if not wire.closed and not connection.eof_received():
        wire.close()
    await asyncio.wait_for(wire.over.wait(), 1)
    connection.connection_lost(None)
    return wire.sent


def test_50_000_spoilt_requests_are_answered_or_closed() -> None:
    async def main() -> None:
        engine = await started_engine(MemoryJournal(), ManualClock())
        door = Door(engine.submit, engine.publisher, engine.clock, GENEROUS, asyncio.sleep)
        for number, packets in enumerate(inputs(SEED, 50_000)):
            begin = time.monotonic()
            answers = await converse(door, packets)
            told = f"FUZZ_SEED={SEED}, input {number}: {packets}"
            assert all(map(ANSWER.match, answers)), f"{told} got {answers}"
            assert time.monotonic() - begin < 1, told
        assert not (door.crowd.everybody or door.waiting.held or door.tasks)
        await engine.stop()

    log.info("FUZZ_SEED=%d", SEED)
    uvloop.run(main())


def test_5_000_spoilt_requests_over_real_sockets_are_answered_or_closed(world: World) -> None:
    log.info("FUZZ_SEED=%d", SEED)
    for number, packets in enumerate(inputs(SEED + 1, 5000)):
        told = f"FUZZ_SEED={SEED}, input {number}: {packets}"
        answers = _sent_and_answered(world, packets, told)
        assert not answers or ANSWER.match(answers), f"{told} got {answers!r}"
        assert not re.search(rb"HTTP/1\.1 5\d\d", answers), told


def _sent_and_answered(world: World, packets: list[bytes], told: str) -> bytes:
    answers = b""
    with socket.create_connection(world.address, 1, (SOLO, 0)) as client:
        try:
            for packet in packets:
                client.sendall(packet)
            client.shutdown(socket.SHUT_WR)
            while data := client.recv(65536):
                answers += data
        except TimeoutError:
            raise AssertionError(f"hangs: {told}") from None
        except OSError:
            pass  # sent more than the server would take
    return answers
