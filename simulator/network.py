"""The network of the world: bytes from an address to a node's door and back, late, lost, doubled or cut short.

`Network.request` is all that a client needs: `await network.request("10.0.0.7", "a", b"GET /...")` gives the answer
as bytes, or raises what a socket would: ConnectionError, or TimeoutError when nothing comes back.
"""

import asyncio
import itertools
import re
from collections.abc import Callable, Mapping
from contextvars import Context
from random import Random
from typing import Any
from urllib.parse import unquote

from duenotice.clock import monotonic
from duenotice.errors import Unavailable
from duenotice.http.asgi import App
from duenotice.http.fetch import HttpAnswer, NothingSent
from duenotice.metadata_api.context import ServerContext
from duenotice.metadata_api.listener import Listener
from duenotice.metadata_api.responses import CachedTime
from duenotice.metadata_api.sockets import LOST, READABLE, Sockets
from simulator.faults import Faults
from simulator.loop import OWNER, VirtualLoop
from simulator.machine import Process

LEAST_DELAY, MOST_DELAY = 0.0002, 0.003
"""Seconds that a message takes on a good day."""
STALE = 0.5
"""A port takes the time with the first request that comes so many seconds later; a real one does it every 0.1 s."""
PATIENCE = 5.0
"""Seconds that a client waits, unless it says otherwise."""
CONDITIONS = (
    *("message-lost", "answer-lost", "message-late", "message-doubled", "answer-cut-short", "connection-reset"),
    *("store-call-lost", "store-answer-lost", "news-lost", "news-doubled", "news-late"),
)
"""Faults of single messages; how likely each is right now is in `Network.chances`."""


_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class Network:
    """Who can be reached, and how good the lines are at the moment."""

    def __init__(self, loop: VirtualLoop, seed: object, faults: Faults) -> None:
        self.loop, self.faults = loop, faults
        self.chances: dict[str, float] = dict.fromkeys(CONDITIONS, 0.0)
        self.longest_delay = 0.0
        self.cut: set[tuple[str, str]] = set()
        """Ways on which nothing arrives, from one name to another; a client's name is its address."""
        self.on_exchange: list[Callable[[str, str, bytes, bytes], None]] = []
        """Told of each answer that arrived: address, node, request, answer."""
        self._seed = seed
        self._dice: dict[str, Random] = {}
        self._doors: dict[str, tuple[Process, Wires]] = {}
        self._apps: dict[str, tuple[Process, App]] = {}
        self.on_written: Callable[[Process, str, bytes, bytes], None] = lambda *_: None
        """Told of each answer when its node has written it: process, address, request, answer."""
        self.on_rest: Callable[[Process, str, bytes], None] = lambda *_: None
        """Told of bytes for an address that are no whole answer, at the end of their connection."""
        self.on_called: Callable[[str, str, str, str, HttpAnswer], None] = lambda *_: None
        """Told of each answer of an operator's port when it is there: who asked, node, method, target, answer."""
        self._wires: dict[tuple[str, str], Wire] = {}
        self._calls: dict[OperatorCall, None] = {}

    def open(self, node: str, process: Process, context: ServerContext) -> None:
        """The door of a node takes connections from now on, until its process dies or the door is closed."""
        self._doors[node] = process, Wires(context)
        process.network = self
        process.on_death.append(lambda: self.close(node, process))

    def open_operator(self, node: str, process: Process, app: App) -> None:
        """The operator's port of a node can be asked from now on."""
        self._apps[node] = process, app

    def operator_app(self, node: str, process: Process) -> App | None:
        """What answers at the operator's port of this process of a node."""
        owner, app = self._apps.get(node, (None, None))
        return app if owner is process else None

    def close(self, node: str, process: Process) -> None:
        """No connection is taken any more, and those that are open break."""
        self.close_door(node, process)
        if self._apps.get(node, (None,))[0] is process:
            del self._apps[node]
        for call in list(self._calls):
            if call.process is process:
                call.fail(ConnectionResetError("closed by peer"))
        for key, wire in [(key, wire) for key, wire in self._wires.items() if wire.process is process]:
            del self._wires[key]
            wire.broken()

    def close_door(self, node: str, process: Process) -> None:
        """VMs cannot connect any more."""
        if self._doors.get(node, (None,))[0] is process:
            del self._doors[node]

    def is_open(self, node: str) -> bool:
        """Whether somebody listens there."""
        return node in self._doors

    def is_cut(self, begin: str, end: str) -> bool:
        """Whether nothing arrives on this way."""
        cut = self.cut
        return bool(cut) and ((begin, end) in cut or ("*", end) in cut or (begin, "*") in cut)

    def dice(self, name: str) -> Random:
        """The dice of one address: what others do does not change what it throws."""
        if (dice := self._dice.get(name)) is None:
            dice = self._dice[name] = Random(f"{self._seed}/network/{name}")
        return dice

    def delay(self, dice: Random) -> float:
        """How long one message takes."""
        if self.faults.happens("message-late", self.chances["message-late"], dice):
            return dice.uniform(0.0, self.longest_delay)
        return LEAST_DELAY + (MOST_DELAY - LEAST_DELAY) * dice.random()

    async def request(
        self, address: str, node: str, data: bytes, timeout: float = PATIENCE, *, alone: bool = False
    ) -> bytes:
        """The whole answer of a node to the bytes of one request; `alone`: on a connection that ends with it."""
        exchange = _Exchange(self, address, node, data, alone)
        exchange.begin(timeout)
        answer = await exchange.answer
        for tell in self.on_exchange:
            tell(address, node, data, answer)
        return answer

    def wire_to(self, address: str, node: str) -> "Wire":
        """The open connection of an address to a node, or a new one."""
        wire = self._wires.get((address, node))
        if wire is None or wire.is_closed or wire.long_polls is not None:
            wire = self.new_wire(address, node)
            self._wires[address, node] = wire
        return wire

    def new_wire(self, address: str, node: str) -> "Wire":
        """A new connection."""
        process, wires = self._doors[node]
        return Wire(process, wires, address, self.on_written, self.on_rest)

    async def call(
        self,
        who: str,
        node: str,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes = b"",
        timeout: float = 20.0,
    ) -> HttpAnswer:
        """What the operator's port of a node answers."""
        asked = OperatorCall(self, who, node, asgi_scope(method, target, headers, body), body)
        self._calls[asked] = None
        try:
            asked.begin(timeout)
            return await asked.answer
        finally:
            self._calls.pop(asked, None)


async def between_nodes(
    url: str, *, method: str, body: bytes, headers: Mapping[str, str], timeout: float, trust: object = None
) -> HttpAnswer:
    """What `http_call.call` is outside: a node asks the one that leads, at `http://NAME:1/path`."""
    asking = OWNER.get()
    assert isinstance(asking, Process) and asking.network is not None
    name, _, path = url.removeprefix("http://").partition(":1")
    network: Network = asking.network
    try:
        return await network.call(asking.name.partition("-")[0], name, method, path, headers, body, timeout)
    except ConnectionRefusedError:
        raise NothingSent(f"{name} cannot be asked: nobody listens.", hint="Is it up?") from None
    except (OSError, TimeoutError) as error:
        raise Unavailable(f"{name} did not answer: {error}.", hint="Is it up?") from None


class _Exchange:
    """One request on its way there and back."""

    def __init__(self, network: Network, address: str, node: str, data: bytes, alone: bool) -> None:
        self._network, self._address, self._node, self._data = network, address, node, data
        self._alone = alone
        self._dice = network.dice(address)
        self.answer: asyncio.Future[bytes] = network.loop.create_future()

    def begin(self, timeout: float) -> None:
        network, dice = self._network, self._dice
        self._timer = network.loop.call_later(timeout, self._fail, TimeoutError("nothing came back"))
        if self._network.is_cut(self._address, self._node):
            return
        happens, chances = network.faults.happens, network.chances
        if happens("message-lost", chances["message-lost"], dice):
            return
        if happens("message-doubled", chances["message-doubled"], dice):
            network.loop.call_later(network.delay(dice), self._arrive_twice, context=Context())
        network.loop.call_later(network.delay(dice), self._arrive, context=Context())

    def _arrive(self) -> None:
        if self.answer.done():
            return
        network = self._network
        if not network.is_open(self._node):
            self._fail(ConnectionRefusedError("nobody listens"))
        elif network.faults.happens("connection-reset", network.chances["connection-reset"], self._dice):
            self._fail(ConnectionResetError("reset by peer"))
        else:
            open_wire = network.new_wire if self._alone else network.wire_to
            wire = open_wire(self._address, self._node)
            wire.send(self._data, self._came, self._fail)
            self.answer.add_done_callback(lambda _: self._over(wire))

    def _over(self, wire: "Wire") -> None:
        """The client keeps one connection to each node as long as it is answered there, and closes all others.

        Else a node that stands still would be left one more with each request that is given up, and when it wakes up it
        would keep all of them for its idle time. It hears of the end if it can; if not, it has to find out (S24).
        """
        way, wires = (self._address, self._node), self._network._wires
        if wires.get(way) is wire:
            if not self.answer.cancelled() and self.answer.exception() is None:
                return
            del wires[way]
        if not self._network.is_cut(*way):
            wire.hang_up()

    def _arrive_twice(self) -> None:
        """The same bytes on a connection of their own; nobody waits for the answer."""
        if self._network.is_open(self._node):
            wire = self._network.new_wire(self._address, self._node)
            wire.send(self._data, lambda _: wire.hang_up(), lambda _: None)

    def _came(self, answer: bytes) -> None:
        network, dice = self._network, self._dice
        happens, chances = network.faults.happens, network.chances
        if network.is_cut(self._node, self._address) or happens("answer-lost", chances["answer-lost"], dice):
            return
        if happens("answer-cut-short", chances["answer-cut-short"], dice):
            answer = answer[: dice.randrange(len(answer))]
        network.loop.call_later(network.delay(dice), self._end, answer, context=Context())

    def _end(self, answer: bytes) -> None:
        if not self.answer.done():
            self._timer.cancel()
            self.answer.set_result(answer)

    def _fail(self, error: Exception) -> None:
        if not self.answer.done():
            self._timer.cancel()
            self.answer.set_exception(error)


class OperatorCall:
    """One call of an operator, or of another node, on its way there and back."""

    def __init__(self, network: Network, who: str, node: str, scope: dict[str, Any], body: bytes) -> None:
        self._network, self._who, self._node, self._scope, self._body = network, who, node, scope, body
        self._dice = network.dice(who)
        self.process: Process | None = None
        self.answer: asyncio.Future[HttpAnswer] = network.loop.create_future()

    def begin(self, timeout: float) -> None:
        """Send it."""
        network = self._network
        self._timer = network.loop.call_later(timeout, self.fail, TimeoutError("nothing came back"))
        lost = network.faults.happens("message-lost", network.chances["message-lost"], self._dice)
        if not lost and not network.is_cut(self._who, self._node):
            network.loop.call_later(network.delay(self._dice), self._arrive, context=Context())

    def _arrive(self) -> None:
        if self._node not in self._network._apps:
            self.fail(ConnectionRefusedError("nobody listens"))
            return
        self.process, app = self._network._apps[self._node]
        self.process.begin(self._serve(app))

    async def _serve(self, app: App) -> None:
        answer = await served(app, self._scope, self._body)
        network, dice, scope = self._network, self._dice, self._scope
        target = b"?".join(filter(None, (scope["raw_path"], scope["query_string"]))).decode()
        network.on_called(self._who, self._node, scope["method"], target, answer)
        lost = network.faults.happens("answer-lost", network.chances["answer-lost"], dice)
        if not lost and not network.is_cut(self._node, self._who):
            network.loop.call_later(network.delay(dice), self._end, answer, context=Context())

    def _end(self, answer: HttpAnswer) -> None:
        if not self.answer.done():
            self._timer.cancel()
            self.answer.set_result(answer)

    def fail(self, error: Exception) -> None:
        """There is no answer."""
        if not self.answer.done():
            self._timer.cancel()
            self.answer.set_exception(error)


async def served(app: App, scope: dict[str, Any], body: bytes) -> HttpAnswer:
    """What an ASGI application answers."""
    status, headers, parts = 0, dict[str, str](), bytearray()
    incoming = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> Any:
        return next(incoming, {"type": "http.disconnect"})

    async def send(message: Any) -> None:
        nonlocal status, headers
        if message["type"] == "http.response.start":
            status = message["status"]
            headers = {bytes(name).decode().lower(): bytes(value).decode() for name, value in message["headers"]}
        parts.extend(message.get("body", b""))

    await app(scope, receive, send)
    return HttpAnswer(status, bytes(parts), headers)


def asgi_scope(method: str, target: str, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
    """A request as ASGI has it."""
    path, _, query = target.partition("?")
    whole = {"host": "node", "content-length": str(len(body)), **headers}
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in whole.items()],
        "client": None,
        "server": None,
    }


def renew(time: CachedTime) -> None:
    """Take the time, unless that was done a moment ago."""
    if time.now + STALE < monotonic():
        time.beat()


class Wires(Sockets):
    """The accepted sockets of one door, and what tells it of them: both are wires of the world, by number."""

    def __init__(self, context: ServerContext) -> None:
        self._by_number: dict[int, Wire] = {}
        self.read, self.write = self._read, self._write
        self.listener = Listener(context, self, poller=self)

    def add(self, wire: "Wire") -> int:
        """A new connection; it gets the lowest free number, as the kernel does it."""
        number = next(number for number in itertools.count() if number not in self._by_number)
        self._by_number[number] = wire
        return number

    def receive(self, fd: int, size: int) -> bytes | None:
        """What a new connection brought."""
        return self._by_number[fd].taken(size) or None

    def send(self, fd: int, data: bytes, last: bool) -> int:
        """The client reads all at once."""
        return self._write(fd, data)

    def _read(self, fd: int, size: int) -> bytes:
        wire = self._by_number[fd]
        if wire.is_closed:
            raise ConnectionResetError
        if not (data := wire.taken(size)):
            raise BlockingIOError
        return data

    def _write(self, fd: int, data: Any) -> int:
        self._by_number[fd].write(bytes(data))
        return len(data)

    def keep(self, fd: int) -> None:
        """Nothing blocks."""

    def shut(self, fd: int) -> None:
        """The node says no more; the client closes."""
        self._by_number[fd].end()

    def throw_away(self, fd: int) -> None:
        """Nothing is lost with what was not read."""

    def close(self, fd: int) -> None:
        """The node closes."""
        self._by_number.pop(fd).end()

    def register(self, fd: int, eventmask: int = 0, /) -> None:
        """It is told when something comes."""
        self.modify(fd, eventmask)

    def modify(self, fd: int, eventmask: int, /) -> None:
        """What is there already is told."""
        wire = self._by_number[fd]
        if eventmask & READABLE and wire.has_more:
            wire.process.soon(wire.tell, READABLE)

    def unregister(self, fd: int, /) -> None:
        """It is not told any more, but that it was lost."""

    def hear(self, fd: int, wire: "Wire", what: int) -> None:
        """Something has come, or the connection is lost."""
        if self._by_number.get(fd) is wire:
            self.listener.hear([(fd, what)])


class Wire:
    """A connection as the node's side sees it; the other side waits for one answer at a time."""

    def __init__(
        self,
        process: Process,
        wires: Wires,
        address: str,
        written: Callable[[Process, str, bytes, bytes], None],
        rest: Callable[[Process, str, bytes], None],
    ) -> None:
        self._written, self._rest, self._asked = written, rest, b""
        self.process, self.is_closed = process, False
        self.long_polls: Callable[[bytes], None] | None = None
        self._wires, self._address = wires, address
        self._number = -1
        self._sent = b""
        """What the node has not read yet."""
        self._came, self._told = b"", 0
        """What came for the last request, and how many bytes of it somebody was told of."""
        self._failed: Callable[[Exception], None] = lambda _: None

    @property
    def has_more(self) -> bool:
        """Whether the node has something to read."""
        return bool(self._sent)

    def send(self, data: bytes, came: Callable[[bytes], None], failed: Callable[[Exception], None]) -> None:
        """Send a request from outside; when the node has written a whole answer, `came` is told."""
        self._tell_rest()
        self.long_polls, self._failed, self._came, self._told, self._asked = came, failed, b"", 0, data
        self.process.soon(self._receive, data)

    def _receive(self, data: bytes) -> None:
        listener = self._wires.listener
        renew(listener.context.time)
        if self.is_closed:
            self.broken()
            return
        self._sent += data
        if self._number < 0:
            self._number = self._wires.add(self)
            listener.begin(self._number, self._address)
            listener.end_all()
        else:
            self.tell(READABLE)

    def tell(self, what: int) -> None:
        """The node hears of it."""
        self._wires.hear(self._number, self, what)

    def taken(self, size: int) -> bytes:
        """The node reads."""
        data, self._sent = self._sent[:size], self._sent[size:]
        return data

    def hang_up(self) -> None:
        """The client closes the connection."""
        self.process.soon(self._lost)

    def broken(self) -> None:
        """The node is gone, or has closed the connection; what came of an answer is all there is."""
        self.is_closed = True
        self._tell_rest()
        waiting, self.long_polls = self.long_polls, None
        if waiting is not None and self._came:
            waiting(self._came)
        elif waiting is not None:
            self._failed(ConnectionResetError("closed by peer"))

    # --- what the node does with it ---

    def write(self, data: bytes) -> None:
        """Bytes for the client."""
        self._came += data
        if self.long_polls is not None and is_whole(self._came):
            waiting, self.long_polls, self._told = self.long_polls, None, len(self._came)
            self._written(self.process, self._address, self._asked, self._came)
            waiting(self._came)

    def end(self) -> None:
        """The node closes."""
        if not self.is_closed:
            self.broken()
            self.process.soon(self._lost)

    def _tell_rest(self) -> None:
        rest, self._told = self._came[self._told :], len(self._came)
        if rest:
            self._rest(self.process, self._address, rest)

    def _lost(self) -> None:
        self.is_closed = True
        self._tell_rest()
        self.tell(LOST)


def is_whole(data: bytes) -> bool:
    """Whether this is an answer with all of its body."""
    end = data.find(b"\r\n\r\n")
    if end < 0:
        return False
    if data.startswith(b"HTTP/1.1 1"):
        return is_whole(data[end + 4 :])
    found = _LENGTH.search(data, 0, end)
    return found is None or len(data) - end - 4 >= int(found[1])
