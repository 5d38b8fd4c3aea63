"""How a follower of the world reaches its nodes: the real requests of `NodeLine`, over a connection of the world."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

from duenotice.bootstrap import follower
from duenotice.clock import monotonic
from duenotice.follower import commands, following
from duenotice.follower.line import NodeLine, NodeStream
from duenotice.http.fetch import HttpAnswer
from duenotice.http.http1 import Request, Response, ResponseHead
from duenotice.http.transport import SocketConnection
from simulator.loop import OWNER, Handle
from simulator.machine import MACHINE, Process
from simulator.network import Network, OperatorCall, asgi_scope
from simulator.node import SimulatedServer


def _process() -> Process:
    """The follower that runs now."""
    owner = OWNER.get()
    assert isinstance(owner, Process)
    return owner


class StreamedCall(OperatorCall):
    """A request whose answer has no end: who hears it is told of each piece in its order, and of an empty one last."""

    def __init__(self, network: Network, who: str, node: str, scope: dict[str, Any]) -> None:
        super().__init__(network, who, node, scope, b"")
        self._early: list[bytes] = []
        self._hear: Callable[[bytes], None] = self._early.append
        self._gone: asyncio.Future[None] = network.loop.create_future()
        self._is_stuck = self._is_over = False
        self._last_at = 0.0

    async def _serve(self, app: Any) -> None:
        incoming = iter([{"type": "http.request", "body": b"", "more_body": False}])

        async def receive() -> Any:
            first = next(incoming, None)
            if first is None:
                await asyncio.shield(self._gone)
            return first or {"type": "http.disconnect"}

        status = 0

        async def send(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if status == 200:
                    self._in_order(self._end, HttpAnswer(200, b"", {}))
            elif status == 200:
                if message.get("body"):
                    self._in_order(self._tell, message["body"])
                if not message.get("more_body"):
                    self._in_order(self._tell, b"")
            else:
                self._in_order(self._end, HttpAnswer(status, message.get("body", b""), {}))

        await app(self._scope, receive, send)

    def _in_order(self, arrive: Callable[[Any], None], what: Any) -> None:
        """A stream loses no piece: where one does not get through, none does any more."""
        network, dice = self._network, self._dice
        lost = network.faults.happens("answer-lost", network.chances["answer-lost"], dice)
        self._is_stuck |= lost or network.is_cut(self._node, self._who)
        if not self._is_stuck:
            self._last_at = max(self._last_at, network.loop.time() + network.delay(dice))
            network.loop.call_at(self._last_at, arrive, what, context=self._context)

    def begin(self, timeout: float) -> None:
        """Send it; the follower hears of it in its own process."""
        self._context = _process().context
        super().begin(timeout)

    def _tell(self, piece: bytes) -> None:
        if not self._is_over:
            self._is_over = not piece
            self._hear(piece)

    def tell(self, hear: Callable[[bytes], None]) -> None:
        """Tell of what came, and of what comes."""
        self._hear = hear
        for piece in self._early:
            hear(piece)

    def fail(self, error: Exception) -> None:
        """The node is gone, or does not answer."""
        super().fail(error)
        self._network.loop.call_soon(self._tell, b"", context=self._context)

    def hang_up(self) -> None:
        """The follower closes the connection: it hears nothing more, and the node hears of it if it can."""
        self._network._calls.pop(self, None)
        self.fail(ConnectionResetError("closed"))
        network = self._network
        if not network.is_cut(self._who, self._node) and self.process is not None:
            network.loop.call_later(network.delay(self._dice), self._leave, context=self.process.context)

    def _leave(self) -> None:
        if not self._gone.done():
            self._gone.set_result(None)


class WorldConnection:
    """A connection of a follower, as `NodeLine` uses one."""

    def __init__(self, line: "WorldLine") -> None:
        self._line = line
        self._process, self.stream = _process(), cast(StreamedCall | None, None)
        self._timer: Handle | None = None
        self._idle_seconds = line.patience
        self._lines: list[bytes] = []

    @property
    def idle_seconds(self) -> float:
        """Seconds without a piece after which a stream is over."""
        return self._idle_seconds

    @idle_seconds.setter
    def idle_seconds(self, seconds: float) -> None:
        self._idle_seconds = seconds
        if self._timer is not None:
            self._wait()

    def exchange(self, request: Request, deadline: float, largest: int = 0) -> Response:
        seconds = min(deadline - monotonic(), self._idle_seconds)
        answer: HttpAnswer = self._process.machine.loop.waited(lambda: self._asked(request, seconds))
        return Response(answer.status, dict(answer.headers), answer.body)

    def open(self, request: Request, deadline: float, largest: int = 0) -> ResponseHead:
        seconds = deadline - monotonic()
        answer, self.stream = self._process.machine.loop.waited(lambda: self._begun(request, seconds))
        if answer.status != 200:
            self._lines.append(answer.body)
        return ResponseHead(1, answer.status, {})

    def read(self, deadline: float) -> bytes:
        """What came, until the end: it is asked for a line when there is one."""
        return self._lines.pop(0) if self._lines else b""

    async def _begun(self, request: Request, seconds: float) -> tuple[HttpAnswer, StreamedCall]:
        """Its stream too: the work of a thread begins again with another connection, when this has come."""
        network, headers = self._process.network, {name.lower(): value for name, value in request.headers.items()}
        scope = asgi_scope(request.method, request.path, headers, bytes(request.body))
        stream = StreamedCall(network, *self._ends(), scope)
        network._calls[stream] = None
        self._process.on_death.append(stream.hang_up)
        stream.begin(seconds)
        return await stream.answer, stream

    async def _asked(self, request: Request, seconds: float) -> HttpAnswer:
        headers = {name.lower(): value for name, value in request.headers.items()}
        who, node = self._ends()
        asking = self._process.network.call(
            who, node, request.method, request.path, headers, bytes(request.body), seconds
        )
        task: asyncio.Task[HttpAnswer] = asyncio.ensure_future(asking)
        self._line.under_way = task
        try:
            return await task
        except asyncio.CancelledError:
            raise ConnectionResetError("hung up") from None

    def _ends(self) -> tuple[str, str]:
        return self._process.name.partition("-")[0], self._line.target.host

    def hear(self, tell: Callable[[], None]) -> None:
        """Tell of each line, and of the end, when it is there; the end is also when nothing comes for too long."""
        assert self.stream is not None
        rest = b""

        def came(piece: bytes) -> None:
            nonlocal rest
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                self._lines.append(line + b"\n")
                tell()
            self._wait()
            if not piece:
                tell()

        self._wait()
        self.stream.tell(came)

    def _wait(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._process.machine.loop.call_later(self._idle_seconds, self.interrupt)

    def interrupt(self) -> None:
        """Who waits for it stops waiting."""
        if self.stream is not None:
            self.stream.hang_up()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.interrupt()


class WorldLine(NodeLine):
    """The real line; only its connections are the world's."""

    under_way: "asyncio.Task[HttpAnswer] | None" = None

    def _connected(self) -> SocketConnection:
        return cast(SocketConnection, WorldConnection(self))

    def hang_up(self) -> None:
        """Also a beat whose work was left to wait for its answer."""
        if self.under_way is not None:
            self.under_way.cancel()
        super().hang_up()


class _Pump:
    """Stands for the thread that reads a stream."""

    def __init__(self, target: Any, args: tuple[NodeStream, "asyncio.Queue[Any]"], **_: Any) -> None:
        self._stream, self._heard = args

    def start(self) -> None:
        lines, heard = iter(self._stream), self._heard
        cast(Any, self._stream)._connection.hear(lambda: heard.put_nowait(next(lines, None)))


def _nanos() -> int:
    return MACHINE.get().boot_nanos()


@contextmanager
def followers_border(worker: Any) -> Iterator[None]:
    """While this is open, followers reach nodes of the world."""

    class Threads(worker):  # type: ignore[misc]
        """As the worker of a node; but several threads work at once, and nobody waits for what is handed in."""

        def __init__(self, name: str, threads: int = 1) -> None:
            super().__init__(name)
            if threads > 1:
                self.jobs = None

        def do(self, work: Callable[[], object]) -> None:
            cast(Any, asyncio.get_running_loop()).run_in_executor(self, work)

    with ExitStack() as inside:
        for target, name, value in (
            (following, "WorkerThread", Threads),
            (commands, "WorkerThread", Threads),
            (following, "threading", SimpleNamespace(Thread=_Pump)),
            (following, "boot_nanos", _nanos),
            (follower, "NodeLine", WorldLine),
            (follower, "lease_timer", lambda: None),
            (follower, "MetadataServer", SimulatedServer),
            (follower, "_token", lambda text: text),
        ):
            inside.enter_context(patch.object(target, name, value))
        yield
