"""Whatever is sent: no crash, no 5xx, no hang over a second; `DUENOTICE_SEED` repeats a run."""

import asyncio
import logging
import re
import socket
import time

import uvloop

from duenotice.clock import ManualClock
from duenotice.metadata_api.context import ServerContext
from duenotice.store.memory import MemoryJournal
from tests.protocol.fuzz import inputs
from tests.protocol.wire import converse
from tests.protocol.world import GENEROUS, SOLO, World, started_engine
from tests.support.seed import SEED

log = logging.getLogger(__name__)
log.setLevel(logging.INFO)

ANSWER = re.compile(rb"HTTP/1\.1 (?:100|200|304|400|404|405|413|417|431) ")


def test_20_000_spoilt_requests_are_answered_or_closed() -> None:
    async def main() -> None:
        engine = await started_engine(MemoryJournal(), ManualClock())
        door = ServerContext(engine.submit, engine.publisher, engine.clock, GENEROUS, asyncio.sleep)
        for number, packets in enumerate(inputs(SEED, 20_000)):
            begin = time.process_time()
            answers = await converse(door, packets)
            told = f"DUENOTICE_SEED={SEED}, input {number}: {packets}"
            assert all(map(ANSWER.match, answers)), f"{told} got {answers}"
            assert time.process_time() - begin < 1, told
        assert not (door.limits.connections or door.long_polls.held or door.tasks)
        await engine.stop()

    log.info("DUENOTICE_SEED=%d", SEED)
    uvloop.run(main())


def test_2_000_spoilt_requests_over_real_sockets_are_answered_or_closed(world: World) -> None:
    log.info("DUENOTICE_SEED=%d", SEED)
    for number, packets in enumerate(inputs(SEED + 1, 2000)):
        told = f"DUENOTICE_SEED={SEED}, input {number}: {packets}"
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
