"""Simulated VMs for the demo: each polls from its own address over real HTTP, and some approve what they lead."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from duenotice.client import AsyncMetadataClient, MetadataError
from duenotice.domain.fleet import Vm
from duenotice.settings import host_port
from duenotice.wire.seen_document import SeenEvent

POLL_SECONDS = 2.0
SHORTEST, LONGEST = 240, 480
"""How many seconds of their clock those that approve take to get ready."""

Pass = Callable[[float], Awaitable[None]]


class PretendVm:
    """A VM's user: asks every other second, and lets events go ahead after a while, or lets their notice run out."""

    def __init__(self, vm: Vm, server: tuple[str, int], pass_: Pass) -> None:
        self._vm, self._pass = vm, pass_
        self._client = AsyncMetadataClient(f"http://{host_port(server)}", source_address=vm.address)
        self._seen: set[str] = set()

    async def run(self, group: asyncio.TaskGroup) -> None:
        """Poll for ever; what cannot be reached or read now may work next time."""
        async with self._client:
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
            return (await self._client.document()).events
        except MetadataError:
            return ()

    def _leads(self, event: SeenEvent) -> bool:
        """The first VM hit approves for all (H03).

        One leader in three does not approve, and so uses all of its notice.
        """
        return event.resources[:1] == (self._vm.name,) and patience_of(event.event_id) is not None

    async def _approve(self, event_id: str) -> None:
        await self._pass(patience_of(event_id) or 0)
        with suppress(MetadataError):
            await self._client.approve(event_id)


def patience_of(event_id: str) -> float | None:
    """How long the leader of an event takes to get ready, or None when it will not approve; the id decides."""
    number = int(event_id[:8], 16)
    return None if number % 3 == 0 else SHORTEST + number % (LONGEST - SHORTEST)
