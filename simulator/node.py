"""A node of the world: the real service, wired by the real bootstrap; only its sockets and its journal's disk are not.

What listens is in memory: the VM's door is opened to the network of the world, and the operator's port is called as an
ASGI application.
"""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from duenotice.bootstrap import cluster
from duenotice.bootstrap.node import Service
from duenotice.engine.ports import Journal
from duenotice.engine.publisher import Publisher
from duenotice.errors import DuenoticeError
from duenotice.metadata_api import long_polls
from duenotice.metadata_api.answers import Submit
from duenotice.metadata_api.context import ServerContext
from duenotice.metadata_api.long_polls import LongPolls, Wake
from duenotice.metadata_api.options import MetadataOptions
from duenotice.metadata_api.requests import ParsedRequest, Poll
from duenotice.metadata_api.server import MetadataServer
from duenotice.metadata_api.sessions import VmSession
from duenotice.operator_api.app import OperatorApi
from duenotice.settings import ServeSettings
from simulator.loop import Killed
from simulator.machine import Machine, Process
from simulator.network import Network, renew

SWEEP_SECONDS = 20.0
"""Seconds between looks for connections that are overdue; a real door does it once a second."""


class TimedPolls(LongPolls):
    """Polls that are held without a beat: there is a timer for each beat at which the time of one is up."""

    __slots__ = ("_loop", "_time")

    def __init__(self, context: ServerContext, publisher: Publisher) -> None:
        super().__init__(publisher, context.loop.call_soon)
        self._loop, self._time = context.loop, context.time

    def hold(
        self, who: object, request: ParsedRequest, poll: Poll, session: VmSession, wake: Wake, caller: str = ""
    ) -> None:
        """The same; the time is taken when it is woken."""
        self._beats = int(self._loop.time() / long_polls.BEAT_SECONDS)
        known = set(self._by_beat)
        super().hold(who, request, poll, session, lambda: self._wake(wake), caller)
        for beat in self._by_beat.keys() - known:
            self._loop.call_at(beat * long_polls.BEAT_SECONDS, self._beat_is_there, beat)

    def _wake(self, wake: Wake) -> None:
        renew(self._time)
        wake()

    def _beat_is_there(self, beat: int) -> None:
        self._beats = beat - 1
        self.beat()


class SimulatedServer(MetadataServer):
    """The VM's door without a socket. It does not beat: the time is taken when something happens."""

    def __init__(self, submit: Submit, publisher: Publisher, *more: Any, **others: Any) -> None:
        super().__init__(submit, publisher, *more, **others)
        self._context.long_polls = TimedPolls(self._context, publisher)

    def open_to(self, network: Network, node: str, process: Process) -> None:
        """Take connections."""
        network.open(node, process, self._context)
        self._sweep()

    def _sweep(self) -> None:
        self._timer = self._context.loop.call_later(SWEEP_SECONDS, self._sweep)
        self._context.time.beat()
        self._context.sweep()

    @property
    def held(self) -> int:
        """How many polls wait."""
        return len(self._context.long_polls.held)


class _NoConsole:
    """There are no browsers."""

    async def close(self) -> None:
        """Nothing is open."""


class SimulatedService(Service):
    """The real service, but for what listens."""

    def __init__(
        self,
        settings: ServeSettings,
        network: Network,
        process: Process,
        journal: Journal | None = None,
        store: cluster.ClusterStore | None = None,
        options: MetadataOptions | None = None,
    ) -> None:
        super().__init__(settings, journal=journal, store=store, options=options)
        self._network, self._process = network, process
        process.network = network

    async def start(self) -> None:
        """Load, prepare, open the doors."""
        await self._set_up()

    async def _open_doors(self) -> None:
        door = SimulatedServer(
            self.engine.submit, self.publisher, self.engine.clock, self._options, prepare=cluster.guard_of(self.engine)
        )
        self.metadata = door
        self._api = OperatorApi(
            self.engine,
            self.ticker,
            door.silent_for,
            None,
            lambda: self.fleet_file.problem,
            self.followers,
            cluster.nodes_of(self.engine, self._store),
            self.node,
            pushes=self.pusher.measures,
        )
        _follow_calls(self._api)._node = self._process.name  # so it is known whose word a follower shows
        self.operator_app = self._api.app()
        door.open_to(self._network, self.node, self._process)
        self._network.open_operator(self.node, self._process, self.operator_app)
        self._operator_listen = self.node, 1  # from here on it stops as if it listened there
        self._console, self._operator = _NoConsole(), SimpleNamespace(should_exit=False)  # type: ignore[assignment]
        self._operator_task = asyncio.create_task(asyncio.sleep(0))

    async def stop(self) -> None:
        """As a node stops when it is asked to."""
        self._network.close_door(self.node, self._process)
        await super().stop()
        self._network.close(self.node, self._process)


def _follow_calls(api: OperatorApi) -> Any:
    (beat,) = (call.handler for call in api.calls if call.path == "/v1/follow/beat")
    return cast(Any, beat).__self__


class Node:
    """A node over all of its lives; `open_journal` gives each life its journal or its store."""

    def __init__(
        self,
        name: str,
        machine: Machine,
        network: Network,
        settings: ServeSettings,
        open_store: Callable[["Node"], tuple[Journal | None, cluster.ClusterStore | None]],
        options: MetadataOptions,
    ) -> None:
        self.name, self.machine, self._network = name, machine, network
        self._settings, self._open_store, self._options = settings, open_store, options
        self.process: Process | None = None
        self.service: SimulatedService | None = None
        self.lives = 0
        self.is_up = False
        self.trouble: DuenoticeError | None = None
        self.on_start: Callable[[Node], None] = lambda _: None
        self.on_end: Callable[[Node, DuenoticeError], None] = lambda *_: None
        self.on_bug: Callable[[Node, Exception], None] = lambda *_: None
        self._starting: asyncio.Task[None] | None = None
        self._graves: list[object] = []

    @property
    def runs(self) -> bool:
        """Whether there is a process, and it is not stopped."""
        return self.process is not None and self.process.runs

    @property
    def is_there(self) -> bool:
        """Whether there is a process, stopped or not."""
        return self.process is not None and not self.process.is_dead

    def start(self) -> None:
        """A new process; if it cannot start, it ends and says why (`trouble`)."""
        assert not self.is_there
        self.lives += 1
        self.process = process = Process(self.machine, f"{self.name}-{self.lives}")
        self.trouble, self.is_up = None, False
        self._graves.append(self._starting)  # what a dead process has begun must not be cleaned up in the world
        self._starting = process.begin(self._run(process), name=process.name)

    async def _run(self, process: Process) -> None:
        service = None
        try:
            journal, store = self._open_store(self)
            options = self._options
            service = SimulatedService(self._settings, self._network, process, journal, store, options)
            self._graves.append(service)
            self.service = process.service = service
            await service.start()
            if process is self.process:
                self.is_up = True
                self.on_start(self)
            error = await service.failed
        except Killed:
            return
        except DuenoticeError as refused:
            error = refused
        except Exception as bug:
            self.on_bug(self, bug)
            return
        process.kill()
        if process is self.process:  # else another process of this node runs already
            self.trouble, self.is_up = error, False
            self.on_end(self, error)

    def kill(self) -> None:
        """kill -9."""
        self.is_up = False
        if self.process is not None and not self.process.is_dead:
            self.process.kill()

    async def stop(self) -> None:
        """SIGTERM."""
        service, process = self.service, self.process
        if service is None or process is None or not self.is_up:
            return
        self.is_up = False
        await asyncio.wait([process.begin(service.stop())], timeout=60)
        process.kill()

    @property
    def position(self) -> int:
        """Up to which record VMs can see the journal here."""
        assert self.service is not None
        return self.service.publisher.state.position
