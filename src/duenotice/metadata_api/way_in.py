"""Takes new connections: answers the poll that comes on a connection of its own without a transport.

Most clients connect, poll once and close. What is not such a poll, or cannot be answered at once, is handed over to
a `Connection`, with what was read so far. There are no rules here: those are in `protocol`, `door` and `limits`.
"""

import asyncio
import socket
from collections.abc import Callable
from functools import partial

from duenotice.metadata_api.caller import plain_address
from duenotice.metadata_api.door import Door
from duenotice.metadata_api.protocol import READ_AHEAD, Begun, Connection, HalfAnswered, warm_answer

BACKLOG = 4096
"""Connections that may wait to be accepted; a whole fleet may come back at once after a break."""

AT_ONCE = 64
"""Connections taken in one turn of the loop, and handed over at one time; then others get their turn."""

PAUSE_SECONDS = 1.0
"""How long nobody is let in after the system could not give us a connection."""

SILENT_SECONDS = 1
"""After about so long the kernel gives us a connection on which nothing has come."""

_NOW = socket.MSG_DONTWAIT


def brings_first_bytes(listening: socket.socket) -> bool:
    """Have the kernel give us connections when their first bytes are there; False where it cannot, as on macOS.

    Without that there would be nothing to read yet, and each connection would be handed over.
    """
    try:
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, SILENT_SECONDS)
    except (AttributeError, OSError):
        return False
    return True


class WayIn:
    """The door's listening socket, from `open` to `close`."""

    def __init__(self, door: Door, listening: socket.socket) -> None:
        self._door, self._listening = door, listening
        self._kind = listening.family, listening.type, listening.proto
        self._handing_over: set[asyncio.Task[None]] = set()
        self._pause: asyncio.TimerHandle | None = None

    def open(self) -> None:
        """Let clients in."""
        self._listening.setblocking(False)
        self._listening.listen(BACKLOG)
        self._go_on()

    async def close(self) -> None:
        """Let nobody in any more; who is in is a `Connection` when this returns."""
        if self._pause is not None:
            self._pause.cancel()
        self._door.loop.remove_reader(self._listening)
        self._listening.close()
        if self._handing_over:
            await asyncio.wait(self._handing_over)

    def _go_on(self) -> None:
        self._door.loop.add_reader(self._listening, self.take_some)

    def take_some(self) -> None:
        """Clients are there: take a few of them."""
        # `accept` of the module would wrap each connection once more, which is a fifth of the whole cost.
        accept = self._listening._accept  # type: ignore[attr-defined]
        for _ in range(AT_ONCE - len(self._handing_over)):
            try:
                number, name = accept()
            except BlockingIOError:
                return
            except ConnectionAbortedError:
                continue
            except OSError as problem:
                self._rest(problem)
                return
            self._take(socket.SocketType(*self._kind, number), plain_address(name[0]))

    def _rest(self, problem: OSError) -> None:
        """There are no files or no memory left: to try again at once would only keep everybody else waiting."""
        self._door.loop.remove_reader(self._listening)
        self._pause = self._door.loop.call_later(PAUSE_SECONDS, self._go_on)
        self._door.loop.call_exception_handler({"message": "No connection can be accepted.", "exception": problem})

    def _take(self, client: socket.SocketType, address: str) -> None:
        """Answer at once and close, or leave it to a connection.

        Only bytes that are exactly one request are known, and they are fewer than we read: so nothing is left unread,
        and closing cannot reset the connection and lose the answer.
        """
        try:
            data = client.recv(READ_AHEAD, _NOW)
        except BlockingIOError:
            self._hand_over(client, partial(Connection, self._door))
            return
        except OSError:
            data = b""
        if not data:
            client.close()
            return
        answer = self._answer(address, data)
        if answer is None:
            self._hand_over(client, partial(Begun, self._door, data))
        else:
            self._send(client, answer)

    def _answer(self, address: str, data: bytes) -> bytes | None:
        ask = self._door.known.get(data)
        if ask is None or not ask.closes or not self._door.crowd.has_room_for(address):
            return None
        return warm_answer(self._door, address, ask)

    def _send(self, client: socket.SocketType, answer: bytes) -> None:
        try:
            sent = client.send(answer, _NOW)
        except BlockingIOError:
            sent = 0
        except OSError:
            sent = len(answer)  # nobody is there any more
        if sent < len(answer):
            self._hand_over(client, partial(HalfAnswered, self._door, answer[sent:]))
        else:
            client.close()

    def _hand_over(self, client: socket.SocketType, connection: Callable[[], Connection]) -> None:
        whole = socket.socket(*self._kind, fileno=client.detach())
        task = self._door.loop.create_task(self._connect(connection, whole))
        self._handing_over.add(task)
        task.add_done_callback(self._handing_over.discard)

    async def _connect(self, connection: Callable[[], Connection], client: socket.socket) -> None:
        client.setblocking(False)
        try:
            await self._door.loop.connect_accepted_socket(connection, client)
        except OSError:
            client.close()
