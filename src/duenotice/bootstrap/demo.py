"""What goes on in the demo: VMs that poll and approve, one maintenance after the other, a spot eviction now and then.

It plays the operator and the platform through the engine, as `demo`, and the VMs over real HTTP. It can run for hours:
an evicted VM comes back, and it goes on whatever a person does in between.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import count, cycle
from typing import NamedTuple

import structlog

from duenotice.bootstrap.node import Service
from duenotice.client import AsyncMetadataClient, MetadataError
from duenotice.clock import micros
from duenotice.domain import commands as c
from duenotice.domain.event import Cause, EventType
from duenotice.domain.fleet import Declaration, Vm
from duenotice.domain.plan import Status
from duenotice.errors import DuenoticeError
from duenotice.operator_api.calls import new_id
from duenotice.settings import host_port
from duenotice.wire.operator.to_domain import select
from duenotice.wire.seen_documents import SeenEvent

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


ACTOR = "demo"
YOURS = "127.0.0.1"
"""A plain curl comes from this address: a person plays this VM."""

BETWEEN_MAINTENANCES = 3600.0
BETWEEN_EVICTIONS = 1500.0
COMES_BACK_AFTER = 600.0
SETTLE = 120.0
LOOK = 0.1
"""Real seconds between two looks at the clock, because its speed may change at any time."""

log = structlog.get_logger()


class Round(NamedTuple):
    """A maintenance that is repeated again and again."""

    on: str
    type: EventType
    cause: Cause = Cause.MAINTENANCE


ROUNDS = (
    Round("set=web", EventType.REBOOT),
    Round("service=shop", EventType.FREEZE, Cause.LIVE_MIGRATION),
    Round("scale-set=workers", EventType.REDEPLOY),
)


@asynccontextmanager
async def playing(service: Service, fleet: Declaration) -> AsyncIterator[None]:
    """Let all of it go on around a running service."""
    task = asyncio.create_task(Demo(service, fleet).run(), name="demo")
    task.add_done_callback(service.engine.lost)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class Demo:
    """Keeps a fleet busy: pretended VMs poll and approve, maintenances follow each other, spot VMs are evicted."""

    def __init__(self, service: Service, fleet: Declaration) -> None:
        self._engine = service.engine
        self._server = service.metadata_address
        self._fleet = fleet

    async def run(self) -> None:
        """Go on until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            vms = [PretendVm(vm, self._server, self._pass) for vm in self._fleet.vms if vm.address != YOURS]
            await asyncio.gather(*(vm.poll() for vm in vms))  # so that somebody listens before the first maintenance
            for vm in vms:
                group.create_task(vm.run(group))
            group.create_task(self._maintain())
            group.create_task(self._evict())

    async def _maintain(self) -> None:
        """One a while after the other; one that is still under way from the last run comes first."""
        for each in cycle(ROUNDS):
            if self._is_busy():
                await self._until(lambda: not self._is_busy())
                await self._pass(BETWEEN_MAINTENANCES)
            await self._try(partial(self._round, each))
            await self._pass(SETTLE)  # a pause, in case it was refused

    def _is_busy(self) -> bool:
        return any(progress.plan.status is Status.RUNNING for progress in self._engine.state.plans.values())

    def _round(self, each: Round) -> c.Command:
        vms = select((each.on,), self._engine.state.fleet.vms.values())
        return c.StartMaintenance(new_id(), each.type, vms, each.cause, settle=micros(SETTLE))

    async def _evict(self) -> None:
        """Spot VMs in turn; each is back a while later."""
        spot = sorted(vm.name for vm in self._fleet.vms if vm.spot)
        for number in count():
            await self._pass(BETWEEN_EVICTIONS)
            await self._try(partial(c.EvictVm, new_id(), spot[number * 7 % len(spot)]))
            await self._pass(COMES_BACK_AFTER)
            if self._engine.state.fleet.digest == self._fleet.digest:  # else the fleet is somebody else's by now
                await self._try(partial(c.ApplyFleet, self._fleet))

    async def _try(self, command: Callable[[], c.Command]) -> None:
        try:
            await self._engine.submit(command(), ACTOR)
        except DuenoticeError as error:
            log.info("the demo was refused a step", action="demo-refused", error=error.message)

    async def _pass(self, seconds: float) -> None:
        """Wait for time to pass on the service's clock."""
        end = self._engine.clock.now().steady + micros(seconds)
        await self._until(lambda: self._engine.clock.now().steady >= end)

    async def _until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():  # noqa: ASYNC110  nobody tells us when the clock is set to another pace
            await asyncio.sleep(LOOK)
