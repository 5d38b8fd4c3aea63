"""Pretend VMs for the demo: each polls from its own address over real HTTP, and some approve what they lead."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from duenotice.domain.fleet import Vm
from duenotice.errors import Malformed
from duenotice.settings import host_port
from duenotice.wire.document_json import SeenEvent, decode_document
from duenotice.wire.start_requests_json import encode_start_requests

POLL_SECONDS = 2.0
SHORTEST, LONGEST = 240, 480
"""How many seconds of their clock those that approve take to get ready."""

_HEAD = "{} /metadata/scheduledevents?api-version=2020-07-01 HTTP/1.1\r\nHost: {}\r\nMetadata: true\r\n"
Pass = Callable[[float], Awaitable[None]]


class PretendVm:
    """A VM's user: asks every other second, and lets events go ahead after a while, or lets their notice run out."""

    def __init__(self, vm: Vm, server: tuple[str, int], pass_: Pass) -> None:
        self._vm, self._server, self._pass = vm, server, pass_
        self._seen: set[str] = set()

    async def run(self, group: asyncio.TaskGroup) -> None:
        """Poll for ever; what cannot be reached or read now may be next time."""
        while True:
            events = await self.poll()
            for event in events:
                if event.event_id not in self._seen and self._leads(event):
                    group.create_task(self._approve(event.event_id))
            self._seen = {event.event_id for event in events}
            await asyncio.sleep(POLL_SECONDS)

    async def poll(self) -> tuple[SeenEvent, ...]:
        """What this VM is told; nothing while it is evicted."""
        try:
            return decode_document(await self._ask("GET")).events
        except (OSError, Malformed):
            return ()

    def _leads(self, event: SeenEvent) -> bool:
        """The first VM hit speaks for all (H03); of three leaders one would rather use all of its notice."""
        return event.resources[:1] == (self._vm.name,) and patience_of(event.event_id) is not None

    async def _approve(self, event_id: str) -> None:
        await self._pass(patience_of(event_id) or 0)
        with suppress(OSError):
            await self._ask("POST", encode_start_requests((event_id,)))

    async def _ask(self, method: str, body: bytes = b"") -> bytes:
        reader, writer = await asyncio.open_connection(*self._server, local_addr=(self._vm.address, 0))
        try:
            head = _HEAD.format(method, host_port(self._server))
            writer.write(f"{head}Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
            return (await reader.read()).partition(b"\r\n\r\n")[2]
        finally:
            writer.close()


def patience_of(event_id: str) -> float | None:
    """How long the leader of an event takes to get ready, or None when it will not approve; the id decides."""
    number = int(event_id[:8], 16)
    return None if number % 3 == 0 else SHORTEST + number % (LONGEST - SHORTEST)
