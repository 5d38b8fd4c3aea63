"""What goes on in the demo: VMs that poll and approve, one maintenance after the other, a spot eviction now and then.

It plays the operator and the platform through the engine, as `demo`, and the VMs over real HTTP. It can run for hours:
an evicted VM comes back, and it goes on whatever a person does in between.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import count, cycle
from typing import NamedTuple

import structlog

from duenotice.bootstrap.demo_vms import PretendVm
from duenotice.bootstrap.service import Service
from duenotice.clock import micros
from duenotice.domain import commands as c
from duenotice.domain.event import Cause, EventType
from duenotice.domain.fleet import Declaration
from duenotice.domain.maintenance import Status
from duenotice.errors import DuenoticeError
from duenotice.operator_api.calls import new_id
from duenotice.wire.operator.to_domain import select

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
