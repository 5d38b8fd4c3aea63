"""A small world that follows a script: a few VMs that do what they are told, and an operator who waits for answers.

All checkers of the world look on, and at its end it comes to rest like every other.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from simulator.border import run as run_in
from simulator.border import world_of
from simulator.clients import FAILURES, Client, poll
from simulator.ending import come_to_rest
from simulator.faults import Action, Faults
from simulator.fleets import DeclaredFleet, DeclaredSet, DeclaredVm
from simulator.node import Node
from simulator.world import Shape, World

ALONE, OTHER, LEFT, RIGHT = "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"
NAMES = {ALONE: "alone", OTHER: "other", LEFT: "left", RIGHT: "right"}
Script = Callable[["Stage"], Awaitable[None]]


class Scene(NamedTuple):
    """A script, how many nodes and followers it needs, and who carries out impacts; followers begin when it says so."""

    script: Script
    nodes: int = 1
    followers: int = 0
    driver: str = ""


class Stage(World):
    """Two VMs alone, and two of one availability set in different update domains; what a script does to them."""

    def __init__(self, seed: int, scene: Scene, *more: Any) -> None:
        shape = Shape(nodes=scene.nodes, vms=4, driver=scene.driver, followers=scene.followers)
        super().__init__(seed, shape, *more)
        self._script = scene.script
        alone = [DeclaredVm(NAMES[address], address, "host-0") for address in (ALONE, OTHER)]
        pair = [DeclaredVm(NAMES[address], address, "host-0", domain) for domain, address in enumerate((LEFT, RIGHT))]
        self.fleet = DeclaredFleet(["host-0", "host-1"], alone, [DeclaredSet("availability_sets", "pair", 2, pair)], [])

    async def _story(self, actions: Sequence[Action]) -> None:
        for node in self.nodes.values():
            node.start()
        await asyncio.sleep(10)
        await self.apply()
        self.clients = {address: Client(self, address) for address in NAMES}
        await self._script(self)
        await come_to_rest(self)

    @property
    def node(self) -> Node:
        """The only one, or the first."""
        return self.nodes["a"]

    # --- what people do ---

    async def apply(self) -> None:
        """The fleet is as it is declared now."""
        status, answer = await self.operator.ask("PUT", "/v1/fleet", self.fleet.text())
        self.expect(status == 200, f"the simulator failed: the fleet is answered {status} {answer}")

    async def schedule(self, *vms: str, kind: str = "Reboot") -> str:
        """An event for VMs; its id."""
        mark = f"event {self.mark()}"
        body = {"type": kind, "resources": list(vms), "description": mark}
        status, answer = await self.operator.ask("POST", "/v1/events", body, mark)
        return str(answer["events"][0]["id"]) if status == 201 else ""

    async def maintain(self, vm: str, begins: float, ends: float) -> str:
        """A maintenance with a window from so many seconds from now to so many; its id."""
        mark, now = f"plan {self.mark()}", self.node.machine.wall()
        window = "/".join(f"{now + timedelta(seconds=after):%Y-%m-%dT%H:%M:%SZ}" for after in (begins, ends))
        body = {"on": [f"vm={vm}"], "type": "Reboot", "window": window, "description": mark}
        _, answer = await self.operator.ask("POST", "/v1/maintenances", body, mark)
        return str(answer["id"])

    async def status_of(self, plan: str) -> str:
        """How a maintenance stands."""
        _, answer = await self.operator.ask("GET", f"/v1/maintenances/{plan}")
        return str(answer["status"])

    async def cancel(self, event_id: str) -> None:
        """An event is called off."""
        await self.operator.ask("POST", f"/v1/events/{event_id}/cancel", {})

    # --- what VMs do ---

    async def poll(self, address: str) -> tuple[int, dict[str, Any]]:
        """The status and the document that a VM is answered; 0: nobody answers."""
        try:
            answer = await self.network.request(address, "a", poll())
        except FAILURES:
            return 0, {}
        head, _, body = answer.partition(b"\r\n\r\n")
        document = json.loads(body) if head.startswith(b"HTTP/1.1 200") else {}
        return int(head[9:12]), document

    async def listen(self, *addresses: str) -> None:
        """VMs ask for the first time, so that from now on they are told."""
        for address in addresses or tuple(NAMES):
            await self.poll(address)

    async def sees(self, address: str, event_id: str) -> dict[str, Any]:
        """An event as a VM reads it; empty when it does not."""
        _, document = await self.poll(address)
        return next((each for each in document.get("Events", ()) if each["EventId"] == event_id), {})

    async def only_event(self, address: str) -> str:
        """The id of the one event that a VM reads."""
        _, document = await self.poll(address)
        (event,) = document["Events"]
        return str(event["EventId"])

    async def told(self, address: str, event_id: str) -> float:
        """The time until which an event waits, as a VM reads it."""
        return parsedate_to_datetime((await self.sees(address, event_id))["NotBefore"]).timestamp()

    # --- what happens ---

    async def pass_by(self, seconds: float, *watching: str) -> None:
        """Time goes on, and some VMs poll now and then."""
        end = self.loop.time() + seconds
        while (left := end - self.loop.time()) > 0:
            await asyncio.sleep(min(10.0, left))
            for address in watching:
                await self.poll(address)

    async def until_up(self) -> None:
        """The node answers again."""
        while not self.node.is_up:  # noqa: ASYNC110 - made-up time passes at once
            await asyncio.sleep(1.0)

    async def some_leader(self) -> Node:
        """The node that leads, once one does."""
        while (leader := self.leader()) is None:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        return leader

    async def restart_well(self, away: float = 1.0) -> None:
        """It stops as it should, which leaves a snapshot, and starts from that."""
        await self.restart(self.node, away)
        await self.until_up()

    def set_wall(self, seconds: float) -> None:
        """Somebody sets the time of day."""
        self.observatory.walls_are_right = False
        self.node.machine.set_wall(seconds)

    async def wrong_for_a_moment(self, seconds: float) -> None:
        """Somebody sets the time of day, and sets it right again five seconds later."""
        self.set_wall(seconds)
        await self.pass_by(5.0)
        self.set_wall(-seconds)
        await self.pass_by(5.0)

    def expect(self, is_so: bool, otherwise: str) -> None:
        """What must be so, and the promise that is broken if it is not."""
        if not is_so:
            self.broken(otherwise)


def play(seed: int, scene: Scene, trace: bool = False) -> tuple[tuple[str, ...], float]:
    """A scene in the world of a seed: what was broken, and how long it took there."""
    with world_of(seed) as loop:
        stage = Stage(seed, scene, loop, Faults(), trace)
        try:
            run_in(loop, stage.live(()))
        except Exception as error:
            stage.violations.append(f"the simulator failed: {error!r}")
        return tuple(stage.violations), loop.time()
