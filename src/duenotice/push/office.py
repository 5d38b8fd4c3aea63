"""Where messages leave the house: all receivers are asked in one thread, away from the loop that answers VMs (S26)."""

import asyncio

from duenotice.domain.fleet import Site
from duenotice.domain.subscription import Subscription
from duenotice.engine.threads import LoopThread
from duenotice.push.receiver import PushOutcome, PushReceiver, PushRoads
from duenotice.wire.azure import EventChange


class PushOffice:
    """Gives each subscription a line to its receiver."""

    def __init__(self, roads: PushRoads) -> None:
        self._roads, self._room = roads, LoopThread("push")

    def line(self, known: Subscription) -> "OfficeLine":
        """The way to the receiver of a subscription."""
        return OfficeLine(PushReceiver(known, self._roads), self._room)

    async def close(self) -> None:
        """End the threads; a resolver that hangs is left behind."""
        await asyncio.get_running_loop().run_in_executor(None, self._room.close)
        self._roads.resolvers.shutdown(wait=False, cancel_futures=True)


class OfficeLine:
    """A receiver that is asked in the thread of the office."""

    def __init__(self, receiver: PushReceiver, room: LoopThread) -> None:
        self._receiver, self._room = receiver, room

    async def validate(self, site: Site) -> PushOutcome:
        """Whether it wants messages."""
        return await self._room.do(self._receiver.validate(site))

    async def deliver(self, change: EventChange, site: Site, tries: int) -> PushOutcome:
        """Whether it took one."""
        return await self._room.do(self._receiver.deliver(change, site, tries))
