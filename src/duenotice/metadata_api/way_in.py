"""Takes new connections, and answers polls on them without a transport for as long as nothing else is asked.

What is not a poll that can be answered at once is handed over to a `Connection`, with what was read so far. There are
no rules here: those are in `protocol`, `door` and `limits`. All bare connections share one epoll, so that a poll costs
a read and a write, and a client that polls once and closes costs no more than that.
"""

import asyncio
import os
import select
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from time import sleep

from duenotice.metadata_api.answers import THROTTLED
from duenotice.metadata_api.bare_connection import BareConnection
from duenotice.metadata_api.caller import plain_address
from duenotice.metadata_api.door import Door
from duenotice.metadata_api.handles import Handles
from duenotice.metadata_api.protocol import (
    READ_AHEAD,
    TOO_MANY,
    Connection,
    GoOn,
    TakenOver,
    fresh_answer,
    warm_answer,
)
from duenotice.metadata_api.questions import VmRequest
from duenotice.metadata_api.responses import CLOSE

BACKLOG = 4096
"""Connections that may wait to be accepted; a whole fleet may come back at once after a break."""

AT_ONCE = 64
"""Connections taken in one turn of the loop, and handed over at one time; then others get their turn."""

ENDED_AT_ONCE = 16
"""Connections that end together: so a client is woken once for many answers, and does not wait for a whole turn."""

ROUNDS = 4
"""How often we look in one turn of the loop, while several polls come together."""

SEVERAL, MANY, MOMENT = 3, 32, 1e-6
"""When several have come but not many, others are likely to be on their way: after a moment we answer these together.

To look at each few costs more processor time than to sleep. The kernel makes about 60 microseconds of this moment.
"""

OTHERS = 4
"""There must be so many times as many connections: a client that has few, and uses them all, would wait for nothing."""

PAUSE_SECONDS = 1.0
"""How long no client is taken after the system could not give us a connection."""

SILENT_SECONDS = 1
"""After about this time the kernel gives us a connection on which nothing has come."""

_INFO_UP_TO_UNACKED = struct.Struct("24xI")
"""The beginning of the kernel's `tcp_info`: of a listening socket, `unacked` is how many can be accepted."""

_ONCE_FOR_EACH = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET if hasattr(select, "epoll") else 0
"""We hear once of all that comes, and then read all of it: what is answered here is shorter than one read."""

_MORE_TO_COME = select.EPOLLIN if hasattr(select, "epoll") else 0
"""What we hear of a client that has not ended."""

_AT_ONCE = int(socket.MSG_DONTWAIT)
_WITH_THE_END = int(getattr(socket, "MSG_MORE", 0)) | _AT_ONCE
"""How answers are sent to new connections; plain numbers, as Python works long on names for them."""


Heard = tuple[int, BareConnection, bytes, int]
"""The number of a bare connection, the connection, what has come on it, and what epoll told of it."""


def is_possible() -> bool:
    """Whether the system can do it; macOS cannot."""
    return hasattr(select, "epoll")


class WayIn:
    """The door's listening socket and all bare connections: `open`, then `close`, then `end`."""

    def __init__(self, door: Door, listening: socket.socket) -> None:
        self._door, self._known, self._listening = door, door.known, listening
        self._kind = listening.family, listening.type, listening.proto
        self._epoll = select.epoll()
        self._bare: list[BareConnection | None] = []  # by number
        self._clients = Handles(self._kind)
        self._over: list[socket.SocketType] = []
        self._handing_over: set[asyncio.Task[None]] = set()
        self._pause: asyncio.TimerHandle | None = None

    def open(self) -> None:
        """Let clients in."""
        # Accepted connections inherit it.
        self._listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # Clients are given to us when their first bytes are there: else there would be nothing to read yet.
        self._listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, SILENT_SECONDS)
        self._listening.setblocking(False)
        self._listening.listen(BACKLOG)
        self._go_on()
        self._door.loop.add_reader(self._epoll.fileno(), self.look)

    async def close(self) -> None:
        """Take no more clients; those who are in stay."""
        if self._pause is None:
            self._door.loop.remove_reader(self._listening.fileno())
        else:
            self._pause.cancel()
        self._listening.close()
        while self._handing_over:
            await asyncio.wait(self._handing_over)

    def end(self) -> None:
        """Nobody is in any more."""
        self._door.loop.remove_reader(self._epoll.fileno())
        self._epoll.close()

    def _go_on(self) -> None:
        self._pause = None
        self._door.loop.add_reader(self._listening.fileno(), self.take)

    def look(self) -> None:
        """Something has come on bare connections. If it is much, more will have come meanwhile, or will in a moment."""
        for _ in range(ROUNDS):
            told = self._epoll.poll(0, AT_ONCE)
            self._hear(told)
            if len(told) < MANY:
                if not self._expects_more_than(told):
                    return
                sleep(MOMENT)

    def _expects_more_than(self, told: list[tuple[int, int]]) -> bool:
        """Whether others are likely to poll in a moment. After an end nobody waits: there may be new connections."""
        several = SEVERAL <= len(told) < len(self._door.crowd.everybody) / OTHERS
        return several and told[-1][1] == _MORE_TO_COME

    def _hear(self, told: list[tuple[int, int]]) -> None:
        """All is read before anything is answered: so a client with many connections is not woken by each answer.

        Most polls come by here and through `_answer`, so both are written for speed.
        """
        bare_ones, read, much = self._bare, os.read, self._door.memo.much
        heard: list[Heard] = []
        for number, what in told:
            if (bare := bare_ones[number]) is None:
                continue  # it was closed, but a process that is about to begin has it still
            try:
                data = read(number, much)
            except BlockingIOError:
                continue
            except OSError:
                data = b""
            heard.append((number, bare, data, what))
        self._answer(heard, much)

    def _answer(self, heard: list[Heard], much: int) -> None:
        """Most often each is one more poll, which is answered right here."""
        known, door, write, idle_until = self._known, self._door, os.write, self._door.pulse.idle_until
        last, ask = b"", None
        for number, bare, data, what in heard:
            if data != last:  # VMs ask with the same bytes: to compare them costs half of looking them up
                last, ask = data, known.get(data) if len(data) < much else None
            if ask is None or (answer := warm_answer(door, bare.address, ask)) is None:
                self._go_on_with(bare, data if len(data) < much else data + (_read(number) or b""))
            else:
                try:
                    sent = write(number, answer)
                except OSError as problem:
                    sent = _sent_despite(problem, answer)
                if sent == len(answer) and not ask.closes:
                    bare.deadline = idle_until
                else:
                    self._finish(bare, ask, answer, sent)
            if what != _MORE_TO_COME and self._bare[number] is bare:
                self._go_on_with(bare, _read(number))  # the end came too, and nobody tells us a second time

    def take(self) -> None:
        """There are new connections; those that are over again end together, as polls are answered together."""
        room = AT_ONCE - len(self._handing_over)
        waiting = 1  # at least: the kernel has said so
        while room > 0 and waiting > 0 and self._take_so_many(min(room, waiting)):
            room, waiting = room - waiting, self._waiting()
        self._end_all()

    def _end_all(self) -> None:
        over, self._over = self._over, []
        _end(over)

    def _waiting(self) -> int:
        """How many connections can be taken. To try once more and get nothing would cost as much as half a poll."""
        told = self._listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_UP_TO_UNACKED.size)
        waiting: int = _INFO_UP_TO_UNACKED.unpack(told)[0]
        return waiting

    def _take_so_many(self, waiting: int) -> bool:
        # `accept` of the module would make a socket of each connection, which is a fifth of the whole cost.
        accept, clients = self._listening._accept, self._clients  # type: ignore[attr-defined]
        is_plain = self._kind[0] == socket.AF_INET
        for _ in range(waiting):
            try:
                number, name = accept()
            except BlockingIOError:
                return False
            except ConnectionAbortedError:
                continue
            except OSError as problem:
                self._rest(problem)
                return False
            self._take(clients[number], name[0] if is_plain else plain_address(name[0]))
        return True

    def _rest(self, problem: OSError) -> None:
        """There are no files or no memory left: to try again at once would only keep everybody else waiting."""
        self._door.loop.remove_reader(self._listening.fileno())
        self._pause = self._door.loop.call_later(PAUSE_SECONDS, self._go_on)
        self._door.loop.call_exception_handler({"message": "No connection can be accepted.", "exception": problem})

    def _take(self, client: socket.SocketType, address: str) -> None:
        """A new connection, most often with a whole request. A poll that closes is over before it is a connection."""
        door = self._door
        if not door.crowd.has_room_for(address):
            self._refuse(client, address)
            return
        data = _received(client, door.memo.much)
        ask = None if data is None else self._known.get(data)
        if ask is None or (answer := warm_answer(door, address, ask)) is None:
            self._go_on_with(self._bare_of(client, address, door.pulse.request_until), data)
        elif (sent := _sent(client, answer, _WITH_THE_END if ask.closes else _AT_ONCE)) == len(answer) and ask.closes:
            self._over.append(client)
            if len(self._over) == ENDED_AT_ONCE:
                self._end_all()
        else:
            self._finish(self._bare_of(client, address, door.pulse.idle_until), ask, answer, sent)

    def _bare_of(self, client: socket.SocketType, address: str, deadline: float) -> BareConnection:
        os.set_blocking(number := client.fileno(), False)
        return BareConnection(self, number, address, deadline)

    def _refuse(self, client: socket.SocketType, address: str) -> None:
        """Too many: one VM that opens thousands must not keep the others waiting, so most are not even told (S26).

        What has come is read, else to close would take the answer with it.
        """
        door = self._door
        if door.callers.is_patient_with(address, door.pulse.now):
            _received(client, READ_AHEAD)
            _sent(client, door.pulse.heading.render(TOO_MANY, CLOSE), _WITH_THE_END)
            _end([client])
        else:
            os.close(client.fileno())

    def _go_on_with(self, bare: BareConnection, data: bytes | None) -> None:
        """Answer what has come, or leave it to a connection with a transport; but who asks comes first (S29)."""
        door = self._door
        if not data:
            self._keep(bare) if data is None else self.drop(bare)
        elif not door.callers.admit(bare.address, data, door.pulse.now):
            self._throttle(bare, self._known.get(data))
        elif (ask := self._known.get(data) or door.memo.learn(data)) is None or (
            answer := fresh_answer(door, bare.address, ask)
        ) is None:
            self._take_over(bare, partial(Connection.begin_admitted, data=data))
        else:
            self._finish(bare, ask, answer, _written(bare.number, answer))

    def _throttle(self, bare: BareConnection, ask: VmRequest | None) -> None:
        """It asks too often (A08). No transport is made for that, and nothing is parsed.

        Who makes noise on many connections at once loses them without a word: to say it would cost as much as the rest.
        """
        door = self._door
        is_patient = door.callers.is_patient_with(bare.address, door.pulse.now)
        if ask is not None and is_patient:
            answer = door.pulse.heading.render(THROTTLED, ask.connection)
            self._finish(bare, ask, answer, _written(bare.number, answer))
            return
        is_crowded = door.crowd.is_half_full_of(bare.address)
        if is_patient or not is_crowded:
            _written(bare.number, door.pulse.heading.render(THROTTLED, CLOSE))
        if is_crowded:
            self.drop(bare)
        else:
            self._end_later(bare)

    def _end_later(self, bare: BareConnection) -> None:
        """It has its last answer and may still be sending, so to close at once could take the answer with it.

        What it sends stays in the kernel, and its place is taken until the deadline: noise uses up places of its own.
        """
        number = bare.number
        with suppress(OSError):  # it is gone
            self._clients[number].shutdown(socket.SHUT_WR)
        self._count_in(bare)
        if self._bare[number] is bare:
            self._bare[number] = None
            self._epoll.unregister(number)
        bare.deadline = self._door.pulse.linger_until

    def _finish(self, bare: BareConnection, ask: VmRequest, answer: bytes, sent: int) -> None:
        """So much of an answer is sent: send the rest, close, or wait for more."""
        if sent < len(answer):
            self._take_over(bare, partial(Connection.send_rest, data=answer[sent:], closes=ask.closes))
        elif ask.closes:
            self.drop(bare)
        else:
            bare.deadline = self._door.pulse.idle_until
            self._keep(bare)

    def _keep(self, bare: BareConnection) -> None:
        """It lasts longer than a turn of the loop: count it, and hear what comes."""
        if not bare.is_kept:
            self._count_in(bare)
            self._bare[bare.number] = bare
            self._epoll.register(bare.number, _ONCE_FOR_EACH)

    def _count_in(self, bare: BareConnection) -> None:
        """It takes a place, if it has none."""
        if not bare.is_kept:
            bare.is_kept = True
            if (lane := self._door.callers.lanes.get(bare.address)) is not None:
                bare.address = lane.vm.address  # the same text, but there it is once for all connections of a VM
            self._door.crowd.enter(bare)
            if (missing := bare.number + 1 - len(self._bare)) > 0:
                self._bare += [None] * missing

    def drop(self, bare: BareConnection) -> None:
        """End it; a closed connection leaves the epoll by itself."""
        os.close(bare.number)
        if bare.is_kept:
            self._bare[bare.number] = None
            self._door.leave(bare)

    def _take_over(self, bare: BareConnection, go_on: GoOn) -> None:
        """It gets a transport, and keeps its place."""
        self._keep(bare)
        self._bare[bare.number] = None
        self._epoll.unregister(bare.number)
        bare.hand_over()
        self._hand_over(bare.number, partial(TakenOver, self._door, bare, go_on), partial(self._door.leave, bare))

    def _hand_over(self, number: int, connection: Callable[[], Connection], give_up: Callable[[], None]) -> None:
        client = socket.socket(*self._kind, fileno=number)
        task = self._door.loop.create_task(self._connect(connection, client, give_up))
        self._handing_over.add(task)
        task.add_done_callback(self._handing_over.discard)

    async def _connect(
        self, connection: Callable[[], Connection], client: socket.socket, give_up: Callable[[], None]
    ) -> None:
        client.setblocking(False)
        try:
            await self._door.loop.connect_accepted_socket(connection, client)
        except OSError:  # the client is gone already
            client.close()
            give_up()


def _received(client: socket.SocketType, much: int) -> bytes | None:
    """The same as `_read` of a new connection."""
    try:
        data = client.recv(much, _AT_ONCE)
    except OSError as problem:
        return _read_after(problem)
    return data if len(data) != much or much == READ_AHEAD else data + (_received(client, READ_AHEAD) or b"")


def _sent(client: socket.SocketType, answer: bytes, how: int) -> int:
    """The same as `_written` to a new connection."""
    try:
        return client.send(answer, how)
    except OSError as problem:
        return _sent_despite(problem, answer)


def _end(clients: list[socket.SocketType]) -> None:
    """Send the end of each, in one packet with its answer.

    To close alone would lose the answer if the client has sent more meanwhile.
    """
    for client in clients:
        try:  # noqa: SIM105 - takes a tenth of the time of `suppress`
            client.shutdown(socket.SHUT_WR)
        except OSError:  # it is gone
            pass
        os.close(client.fileno())


def _read(number: int) -> bytes | None:
    """What has come; None when nothing has yet, and nothing at the end."""
    try:
        return os.read(number, READ_AHEAD)
    except OSError as problem:
        return _read_after(problem)


def _written(number: int, answer: bytes) -> int:
    """How much of it the kernel has taken."""
    try:
        return os.write(number, answer)
    except OSError as problem:
        return _sent_despite(problem, answer)


def _read_after(problem: OSError) -> bytes | None:
    """What could be read of who has sent nothing yet, or is gone."""
    return None if isinstance(problem, BlockingIOError) else b""


def _sent_despite(problem: OSError, answer: bytes) -> int:
    """How much could be sent to who does not read, or is gone; who is gone gets it all."""
    return 0 if isinstance(problem, BlockingIOError) else len(answer)
