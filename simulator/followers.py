"""Followers of the world: the real service that follows nodes and answers VMs, and what can happen to it."""

import asyncio
from random import Random
from typing import TYPE_CHECKING, Any

from duenotice.bootstrap.follower import FollowerService
from duenotice.bootstrap.ports import NOWHERE
from duenotice.errors import DuenoticeError
from duenotice.settings import ServeSettings
from simulator.faults import fault
from simulator.loop import Killed
from simulator.machine import Machine, Process
from simulator.network import Network

if TYPE_CHECKING:
    from simulator.world import World

NEEDS = ("followers",)
PATIENCE = 90.0
"""Seconds after which somebody looks at a follower that does not answer."""
AGAIN_AFTER = 5.0
"""Seconds until a follower that has ended is started again."""


class SimulatedFollower(FollowerService):
    """The real follower, but for what listens."""

    def __init__(self, settings: ServeSettings, network: Network, process: Process) -> None:
        super().__init__(settings)
        self._network, self._process = network, process
        process.network, process.service = network, self

    async def start(self) -> None:
        """Begin to follow, and open the door."""
        await self._set_up(None, None)  # type: ignore[arg-type]

    async def _open_doors(self, metadata: Any, operator: Any) -> None:
        door: Any = self._metadata
        door.open_to(self._network, self.settings.node, self._process)

    async def stop(self) -> None:
        """As a follower stops when it is asked to."""
        self._network.close(self.settings.node, self._process)
        await super().stop()


class Follower:
    """A follower over all of its lives. An operator gives it a token at each start: the last one may be lost."""

    def __init__(self, world: "World", name: str) -> None:
        self.world, self.name = world, name
        drift = world.dice(f"follower/{name}").uniform(-5e-5, 5e-5)
        self.machine = Machine(name, world.loop, drift)
        self.process: Process | None = None
        self.service: SimulatedFollower | None = None
        self._lives, self._graves = 0, list[object]()

    @property
    def may_answer(self) -> bool:
        """Whether VMs are answered here."""
        process, service = self.process, self.service
        if process is None or service is None or not (process.runs and self.is_up):
            return False
        return process.do(service.following.may_answer)

    @property
    def is_up(self) -> bool:
        """Whether its door is open."""
        return self.world.network.is_open(self.name)

    def begin(self) -> None:
        """Somebody starts it, and goes on to until it runs."""
        if self.process is None or self.process.is_dead:
            self.world.begin(self._begin())

    async def _begin(self) -> None:
        body = {"name": f"{self.name}-{self.world.mark()}", "role": "follower"}
        status, answer = await self.world.operator.ask("POST", "/v1/tokens", body)
        if status != 201:
            self.world.later(AGAIN_AFTER, self.begin)
        elif self.process is None or self.process.is_dead:
            self._lives += 1
            self.process = process = Process(self.machine, f"{self.name}-{self._lives}")
            self.world.say(self.name, "starts")
            self._graves.append(process.begin(self._run(process, answer["token"]), name=process.name))

    async def _run(self, process: Process, token: str) -> None:
        urls = ",".join(f"http://{name}:1" for name in self.world.names)
        settings = ServeSettings(
            node=self.name,
            operator_listen=NOWHERE,
            workers=1,
            log_format="none",
            spot_rebalance=True,
            follow=urls,
            follow_token_file=token,
        )
        try:
            self.service = service = SimulatedFollower(settings, self.world.network, process)
            self._graves.append(service)
            await service.start()
            why = await service.failed
        except Killed:
            return
        except DuenoticeError as refused:
            why = refused
        except Exception as bug:
            self.world.broken(f"the follower {self.name} cannot start: {bug!r}")
            return
        self.world.say(self.name, f"ends: {why.message}")
        process.kill()
        self.world.later(AGAIN_AFTER, self.begin)

    def kill(self, away: float) -> None:
        """kill -9, and a new process some time later."""
        if self.process is not None:
            self.world.say(self.name, f"is killed, for {away:.1f} s")
            self.process.kill()
            self.world.later(away, self.begin)

    def pause(self, seconds: float) -> None:
        """SIGSTOP, and SIGCONT some time later."""
        if (process := self.process) is not None:
            self.world.say(self.name, f"stands still for {seconds:.1f} s")
            process.stop()
            self.world.later(seconds, process.go_on)

    async def restart(self, away: float) -> None:
        """Stop it as it should be, and start it again."""
        process, service = self.process, self.service
        if process is None or service is None or not self.is_up:
            return
        self.world.say(self.name, "is stopped")
        await asyncio.wait([process.begin(service.stop())], timeout=60)
        self.kill(away)

    def heal(self) -> None:
        """All faults are over. Its token may be lost with what the store has lost: then somebody gives it a new one."""
        self.machine.set_drift(0.0)
        if self.process is not None:
            self.process.go_on()
        self.begin()
        self.world.later(PATIENCE, lambda: None if self.may_answer else self.kill(1.0))


def _any(world: "World", dice: Random) -> Follower:
    return dice.choice(list(world.followers.values()))


@fault("follower-killed", "A follower is killed, and started again.", 1.0, NEEDS)
def killed(world: "World", dice: Random) -> None:
    _any(world, dice).kill(dice.uniform(0.5, 60))


@fault("follower-paused", "A follower stands still for a while, and wakes up.", 2.0, NEEDS)
def paused(world: "World", dice: Random) -> None:
    _any(world, dice).pause(dice.choice((1, 5, 20, 70, 200)) * dice.uniform(0.5, 1.5))


@fault("follower-restarted", "A follower is stopped as it should be, and started again.", 1.0, NEEDS)
def restarted(world: "World", dice: Random) -> None:
    world.begin(_any(world, dice).restart(dice.uniform(0.5, 20)))


@fault("follower-cut-off", "A follower and a node do not reach each other, in one direction or in both.", 2.0, NEEDS)
def cut_off(world: "World", dice: Random) -> None:
    follower, node = _any(world, dice).name, dice.choice([*world.names, "*"])
    ways = dice.choice(([(follower, node)], [(node, follower)], [(follower, node), (node, follower)]))
    world.network.cut.update(ways)
    world.later(dice.uniform(5, 200), lambda: world.network.cut.difference_update(ways))
