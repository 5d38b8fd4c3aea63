"""A node and those that read from it, alone: who is waited for before a change is shown, in worlds of a few minutes.

`Followers` and `Interest` are real. Their readers are as simple as possible: each answers the VMs of one host or all of
them, over messages that are late or get lost, and is killed, stopped and started again; VMs move between hosts. Now and
then the node itself is out: other nodes go on without it and its readers, and it shows what they have shown. A VM asks
whoever answers it and must never read anything older (S27); and no change waits longer than a lease (S30).

python -m simulator.hub --seed 7 --count 20
"""

import argparse
import asyncio
from collections.abc import Callable
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any, NamedTuple

from duenotice.clock import MICROS
from duenotice.domain.apply import Touched
from duenotice.domain.fleet import Vm, scope_of
from duenotice.engine.followers import Followers
from duenotice.engine.interest import Interest
from duenotice.engine.membership import Terms
from duenotice.errors import Conflict
from simulator.border import run, world_of
from simulator.loop import VirtualLoop

LEASE = 6.0
TERMS = Terms(int(LEASE * MICROS))
SECONDS = 200.0
LOST = 0.03
"""How many messages are."""
DELAYS = (0.001, 0.002, 0.005, 0.005, 0.005, 0.04, 0.4)
OUT = 0.02
"""How many changes are made by another node while this one is out."""
HOSTS = tuple(f"host-{number}" for number in range(4))
GRACE = LEASE * 2 / 3
"""Seconds that a wait may be longer than it should be: messages are late, and some get lost."""


class Log(NamedTuple):
    """All that VMs may be told after a record: the version of each scope, and the VMs."""

    versions: dict[str, int]
    vms: dict[str, Vm]


class Played(NamedTuple):
    """What came of a world: what was wrong, how many polls were answered, and how long each change waited."""

    wrong: tuple[str, ...]
    polls: int
    waits: tuple[float, ...]


class Ear:
    """The node's end of the way to a reader."""

    def __init__(self, reader: "Reader", interest: Interest) -> None:
        self.reader, self.interest, self.life = reader, interest, reader.life
        self.is_open, self._last_at = True, 0.0

    async def hear(self, news: Any) -> bool:
        """All of it, or that nothing of it is the reader's business."""
        is_met = self.interest.take(news.touched, news.state.fleet.vms)
        position = news.records[-1].position
        self.send(lambda: self.reader.take(position, is_met))
        return is_met

    def hear_hold(self, position: int) -> None:
        self.send(lambda: self.reader.hold(position))

    def hear_shown(self, position: int) -> None:
        self.send(lambda: self.reader.may_show_up_to(position))

    def send(self, arrive: Callable[[], None]) -> None:
        """A stream loses nothing in its middle: who misses a line has lost the stream."""
        hub = self.reader.hub
        self._last_at = max(self._last_at, hub.now + hub.delay())
        if self.is_open and not self.reader.send(arrive, self.life, self._last_at):
            self.close()

    def dismiss(self) -> None:
        """Nobody leaves here."""

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            self.reader.hub.later(0.1, lambda: self.reader.listen_again(self.life))


class Reader:
    """A process that answers the VMs of a host, or all; it has many lives."""

    def __init__(self, hub: "Hub", name: str, host: str | None) -> None:
        self.hub, self.name, self.host = hub, name, host
        self.lives, self.is_up, self.stopped_until = 0, False, 0.0
        self._ear: Ear | None = None
        self._forget()

    def _forget(self) -> None:
        self.position = self.may_show = self.last_met = 0
        self.visible: int | None = None
        self.answers_until, self.has_joined = 0.0, False
        self.unshown: set[str] = set()
        self.held: set[str] = set()
        self.hidden = 0

    @property
    def life(self) -> str:
        return f"{self.name}/{self.lives}"

    @property
    def runs(self) -> bool:
        return self.is_up and self.hub.now >= self.stopped_until

    def selects(self, vm: Vm) -> bool:
        return self.host is None or vm.host == self.host

    def send(self, arrive: Callable[[], None], life: str, at: float = 0.0) -> bool:
        """A message to this life; whether it gets there, when it runs again at the latest."""
        hub = self.hub
        if hub.dice.random() < LOST:
            return False

        def there() -> None:
            if self.life != life or not self.is_up:
                return
            if hub.now < self.stopped_until:
                hub.later(self.stopped_until - hub.now + 0.001, there)
            else:
                arrive()

        hub.later(at - hub.now if at else hub.delay(), there)
        return True

    def kill(self) -> None:
        self.is_up = False

    def start(self, after: str) -> None:
        """A new life, unless another one has followed that one."""
        if self.life == after:
            self.lives += 1
            self.is_up, self.stopped_until = True, 0.0
            self._forget()
            self.hub.begin(self._join(self.life))
            self._renew_again(self.life)

    def listen_again(self, life: str) -> None:
        """Its stream has ended: it has heard that, or hears it when it runs again."""
        if self.life == life and self.is_up:
            if self.runs:
                self.hub.begin(self._join(life))
            else:
                self.hub.later(max(0.1, self.stopped_until - self.hub.now), lambda: self.listen_again(life))

    async def _join(self, life: str) -> None:
        """At the node: what is shown is sent in the moment in which it joins, and what waits if it concerns it."""
        hub, followers = self.hub, self.hub.followers
        await asyncio.sleep(0.02)
        if self.life != life or not self.is_up:
            return
        told, shown, asked = followers.told, followers.shown, followers.asked
        interest = Interest(None if self.host is None else self.selects, hub.log[shown].vms.values())
        is_met = told > shown and interest.take(hub.touched[told], hub.log[told].vms)
        self._ear = ear = Ear(self, interest)
        followers.join(life, ear, self.position, told if is_met else shown)
        ear.send(lambda: self._begin(shown))
        if is_met:
            ear.send(lambda: self.take(told, True))
            ear.send(lambda: self.hold(asked))

    def _begin(self, shown: int) -> None:
        if self.has_joined:
            self.take(shown, True)
            self.hold(shown)
        else:
            self.position = self.hidden = self.last_met = shown
            self.has_joined = True
        self.may_show_up_to(shown)
        self._renew()

    def take(self, position: int, is_met: bool) -> None:
        """Apply it, and say so; VMs see what was before."""
        for each in range(self.position + 1, position + 1) if is_met else ():
            self.last_met = position
            touched = self.hub.touched[each]
            self.unshown |= touched.scopes | touched.vms
        self.position = max(self.position, position)
        if self.visible is None:
            self.hidden = position
        self._renew()

    def hold(self, position: int) -> None:
        """Hide what differs from what VMs see, and say so."""
        self.held |= self.unshown
        self.hidden = max(self.hidden, min(position, self.position))
        self._renew()

    def may_show_up_to(self, position: int) -> None:
        self.may_show = max(self.may_show, position)
        if self.has_joined and self.may_show >= self.last_met:
            self.visible, self.held, self.unshown = self.last_met, set(), set()

    def _renew_again(self, life: str) -> None:
        if self.life == life and self.is_up:
            self._renew()
            self.hub.later(LEASE / 12, lambda: self._renew_again(life))

    def _renew(self) -> None:
        """Ask for the right to answer; it counts from before that."""
        hub, life, sent, applied, hidden = self.hub, self.life, self.hub.now, self.position, self.hidden

        def asked() -> None:
            if hub.now < hub.stopped_until:
                hub.later(hub.stopped_until - hub.now, asked)
                return
            try:
                right = hub.followers.beat(life, applied, hidden)
            except Conflict:
                self.send(self._is_out, life)
                return
            self.send(lambda: self._granted(sent + right / MICROS), life)

        if self.runs and self.has_joined and hub.dice.random() >= LOST:
            hub.later(hub.delay(), asked)

    def _granted(self, until: float) -> None:
        self.answers_until = max(self.answers_until, until)

    def _is_out(self) -> None:
        """It was put out: it answers nobody, and listens again with what it has, from which VMs may not see all yet."""
        self.answers_until = 0.0
        if self._ear is not None:
            self._ear.close()

    def answer(self, name: str) -> tuple[str, int] | None:
        """The scope of a VM, and the version of it that the VM is shown; None: another reader answers it, or nobody."""
        hub = self.hub
        if not (self.runs and self.visible is not None and hub.now < self.answers_until):
            return None
        seen = hub.log[self.visible]
        vm = seen.vms[name]
        scope = scope_of(vm)
        return (
            None if not self.selects(vm) or not self.held.isdisjoint((scope, name)) else (scope, seen.versions[scope])
        )


class Hub:
    """The node: it changes something now and then, has all readers hold it, and shows it."""

    def __init__(self, loop: VirtualLoop, seed: int) -> None:
        self.loop, self.dice = loop, Random(f"{seed}/hub")
        self.right, self.stopped_until = TERMS.right, 0.0
        self.followers = Followers(0, TERMS, lambda: self.right, lambda: int(loop.time() * MICROS))
        self.tasks: set[asyncio.Task[Any]] = set()
        vms = [Vm(f"vm-{n}", f"10.0.0.{n}", group=f"availability-set/{n // 3}") for n in range(12)]
        placed = {vm.name: vm.moved_to(self.dice.choice(HOSTS)) for vm in vms}
        self.log = [Log(dict.fromkeys(map(scope_of, vms), 0), placed)]
        self.touched: dict[int, Touched] = {}
        self.readers = [Reader(self, f"r{n}", host) for n, host in enumerate((*HOSTS, None))]
        self.newest = dict.fromkeys(self.log[0].versions, 0)
        self.wrong: list[str] = []
        self.over = asyncio.Event()
        loop.call_later(SECONDS, self.over.set)
        self.waits: list[float] = []
        self.polls = 0
        self.deaths: list[float] = []

    @property
    def now(self) -> float:
        return self.loop.time()

    def delay(self) -> float:
        return self.dice.choice(DELAYS)

    def later(self, seconds: float, act: Callable[[], object]) -> None:
        self.loop.call_later(seconds, act)

    def begin(self, work: Any) -> None:
        task = self.loop.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def live(self) -> None:
        """All of it."""
        await self.followers.open(had_followers=False)
        for reader in self.readers:
            reader.start(reader.life)
        for work in (self._change(), self._poll(), self._hurt()):
            self.begin(work)
        await self.over.wait()
        for task in self.tasks:
            task.cancel()

    async def _change(self) -> None:
        """A document changes, or a VM moves to another host."""
        dice = self.dice
        while True:
            await asyncio.sleep(dice.uniform(0.05, 0.9))
            last = self.log[-1]
            versions, vms = dict(last.versions), dict(last.vms)
            if dice.random() < 0.25:
                name = dice.choice(sorted(vms))
                vms[name] = vms[name].moved_to(dice.choice(HOSTS))
                touched = Touched({scope_of(vms[name])}, {name}, set())
            else:
                touched = Touched({dice.choice(sorted(versions))}, set(), set())
            for scope in touched.scopes:
                versions[scope] += 1
            self.log.append(Log(versions, vms))
            position = len(self.log) - 1
            self.touched[position] = touched
            state = SimpleNamespace(fleet=SimpleNamespace(vms=vms))
            news: Any = SimpleNamespace(state=state, records=[SimpleNamespace(position=position)], touched=touched)
            if dice.random() < OUT:
                await self._come_back_to(news)
                continue
            began = self.now
            await self.followers.apply(news)
            applied = self.now
            await self.followers.hold(position)
            self.followers.show(position)
            self._waited(self.now - began, self.now - applied, position)

    async def _come_back_to(self, news: Any) -> None:
        """The node stands still, or does not reach the store. The others put it out after a lease, and show a change.

        It has no right when it wakes. It reads that and says that it shows nothing older; nobody is asked to hide it.
        """
        self.right, away = 0, LEASE * self.dice.uniform(1, 1.5)
        self.stopped_until = self.now + away if self.dice.random() < 0.5 else 0.0
        await asyncio.sleep(away)
        for scope in news.touched.scopes:
            self.newest[scope] = self.log[-1].versions[scope]
        await self.followers.apply(news)
        self.followers.show(news.records[-1].position)
        self.right = TERMS.right
        self.deaths.append(self.now)

    def _waited(self, seconds: float, held: float, position: int) -> None:
        """S30: a lease at the most for each death, held no longer than that, and only for those that answer it."""
        self.waits.append(seconds)
        deaths = sum(when > self.now - seconds - LEASE for when in self.deaths)
        if seconds > LEASE * max(1, deaths) + GRACE:
            self.is_wrong(f"S30: change {position} waited {seconds:.1f} s")
        died_in_hold = any(when > self.now - held - LEASE / 4 for when in self.deaths)
        if held > GRACE and not died_in_hold:
            self.is_wrong(f"S30: change {position} was held for {held:.1f} s, and nobody died meanwhile")
        touched, around = self.touched[position], (self.log[position - 1], self.log[position])
        concerned = [reader for reader in self.readers if any(_serves(reader, log, touched) for log in around)]
        is_fine = all(reader.is_up and self.now - reader.stopped_until > SECONDS for reader in concerned)
        if is_fine and seconds > LEASE:
            self.is_wrong(f"S30: change {position} waited {seconds:.1f} s for nobody whom it concerns")

    def is_wrong(self, what: str) -> None:
        """A promise is broken: the world ends."""
        self.wrong.append(what)
        self.over.set()

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(0.007)
            for name in self.log[0].vms:
                reader = self.dice.choice(self.readers)
                if (answer := reader.answer(name)) is not None:
                    scope, version = answer
                    self.polls += 1
                    if version < self.newest[scope]:
                        before = self.newest[scope]
                        self.is_wrong(f"S27: {reader.life} shows {name} {version} of {scope} after {before}")
                    self.newest[scope] = max(self.newest[scope], version)

    async def _hurt(self) -> None:
        dice = self.dice
        while True:
            await asyncio.sleep(dice.uniform(2, 12))
            reader = dice.choice(self.readers[:4]) if dice.random() < 0.8 else self.readers[4]
            chance, life = dice.random(), reader.life
            self.deaths.append(self.now)
            if chance < 0.4:
                reader.kill()
                self.later(dice.uniform(0.5, 15), partial(reader.start, life))
            elif chance < 0.8:
                reader.stopped_until = self.now + dice.uniform(0.2, 15)
            else:
                self.begin(self._crash_loop(dice.choice(self.readers)))

    async def _crash_loop(self, reader: Reader) -> None:
        """It joins each second, and is gone before it has said anything, or soon after."""
        for _ in range(15):
            reader.kill()
            reader.start(reader.life)
            await asyncio.sleep(self.dice.choice((0.022, 0.1, 1.0)))
            self.deaths.append(self.now)
            reader.kill()
            await asyncio.sleep(1.0)
        reader.start(reader.life)


def _serves(reader: Reader, log: Log, touched: Touched) -> bool:
    return any(
        reader.selects(vm) and (vm.name in touched.vms or scope_of(vm) in touched.scopes) for vm in log.vms.values()
    )


def play(seed: int) -> Played:
    """One world."""
    with world_of(seed) as loop:
        hub = Hub(loop, seed)
        run(loop, hub.live())
        return Played((*hub.wrong, *loop.failures), hub.polls, tuple(hub.waits))


def main() -> int:
    """Play some worlds; 1 when something was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1)
    asked = parser.parse_args()
    worlds = {seed: play(seed) for seed in range(asked.seed, asked.seed + asked.count)}
    waits = sorted(wait for world in worlds.values() for wait in world.waits)
    polls = sum(world.polls for world in worlds.values())
    for seed, world in worlds.items():
        for wrong in world.wrong:
            print(f"seed {seed}: {wrong}")
    print(
        f"{len(worlds)} worlds, {polls} polls, {len(waits)} changes; they waited p50 {waits[len(waits) // 2]:.3f} s, "
        f"p90 {waits[len(waits) * 9 // 10]:.3f} s, {sum(wait > 1 for wait in waits) / len(waits):.1%} more than 1 s"
    )
    return int(any(world.wrong for world in worlds.values()))


if __name__ == "__main__":
    raise SystemExit(main())
