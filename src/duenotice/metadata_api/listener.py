"""Takes new connections on the VMs' port, and tells all connections when something has come.

One epoll watches all of them. The poll that most VMs send once a second takes a short cut here: bytes that are known,
address, bucket, bytes. On a new connection that closes after it, there is not even a `Connection`. All else is left to
`connection`; there are no rules here.
"""

import asyncio
import select
import socket
import struct
from time import sleep

from duenotice.metadata_api.connection import Connection, warm_answer
from duenotice.metadata_api.context import ServerContext
from duenotice.metadata_api.responses import CLOSE, error
from duenotice.metadata_api.sessions import plain_address
from duenotice.metadata_api.sockets import ENDED, ONCE, READABLE, WRITABLE, LoopPoller, Poller, Sockets

BACKLOG = 4096
"""Connections that may wait to be accepted; a whole fleet may come back at once after a break."""

AT_ONCE = 64
"""Connections taken, or heard of, in one turn of the loop; then others get their turn."""

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

READ_AHEAD = 4096
"""Bytes that are read before it is known whether the caller may ask; more than a request that is remembered has."""

PAUSE_SECONDS = 1.0
"""How long no client is taken after the system could not give us a connection."""

SILENT_SECONDS = 1
"""After about this time the kernel gives us a connection on which nothing has come."""

TOO_MANY = error(429, "Too many connections. Close some, or keep one open and use it again.", "Retry-After: 1")

_INFO_UP_TO_UNACKED = struct.Struct("24xI")
"""The beginning of Linux's `tcp_info`: of a listening socket, `unacked` is how many can be accepted."""

Heard = tuple[int, Connection, bytes, int]
"""The number of a connection, the connection, what has come on it, and what epoll told of it."""


class Listener:
    """The listening socket and all connections: `open`, then `close`, then `end`."""

    def __init__(self, context: ServerContext, sockets: Sockets, poller: Poller | None = None) -> None:
        """Without a poller the system's epoll tells, or the loop where there is none."""
        self.context, self._known, self.sockets = context, context.known, sockets
        self._connections: list[Connection | None] = []  # by number
        self._epoll = select.epoll() if poller is None and hasattr(select, "epoll") else None
        self._poller: Poller = poller or self._epoll or LoopPoller(context.loop, self.hear)
        self._over: list[int] = []
        self._pause: asyncio.TimerHandle | None = None

    def open(self, listening: socket.socket) -> None:
        """Let clients in."""
        self._listening, self._is_plain = listening, listening.family == socket.AF_INET
        # Accepted connections inherit it.
        self._listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if hasattr(socket, "TCP_DEFER_ACCEPT"):
            # Clients are given to us when their first bytes are there: else there would be nothing to read yet.
            self._listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, SILENT_SECONDS)
        self._listening.setblocking(False)
        self._listening.listen(BACKLOG)
        self._go_on()
        if self._epoll is not None:
            self.context.loop.add_reader(self._epoll.fileno(), self.look)

    def close(self) -> None:
        """Take no more clients; those who are in stay."""
        if self._pause is None:
            self.context.loop.remove_reader(self._listening.fileno())
        else:
            self._pause.cancel()
        self._listening.close()

    def end(self) -> None:
        """Nobody is in any more."""
        if self._epoll is not None:
            self.context.loop.remove_reader(self._epoll.fileno())
            self._epoll.close()

    def _go_on(self) -> None:
        self._pause = None
        self.context.loop.add_reader(self._listening.fileno(), self.accept)

    # --- connections that are there ---

    def look(self) -> None:
        """Something has come. If it is much, more will have come meanwhile, or will in a moment."""
        assert self._epoll is not None
        for _ in range(ROUNDS):
            told = self._epoll.poll(0, AT_ONCE)
            self.hear(told)
            if len(told) < MANY:
                if not self._expects_more_than(told):
                    return
                sleep(MOMENT)

    def _expects_more_than(self, told: list[tuple[int, int]]) -> bool:
        """Whether others are likely to poll in a moment. After an end nobody waits: there may be new connections."""
        several = SEVERAL <= len(told) < len(self.context.limits.connections) / OTHERS
        return several and told[-1][1] == READABLE

    def hear(self, told: list[tuple[int, int]]) -> None:
        """All is read before anything is answered: so a client with many connections is not woken by each answer.

        Most polls come by here and through `_answer`, so both are written for speed.
        """
        connections, read, read_size = self._connections, self.sockets.read, self.context.cache.read_size
        heard: list[Heard] = []
        for fd, what in told:
            if (connection := connections[fd]) is None:
                continue  # it was closed, but a process that is about to begin has it still
            if connection.reader is not None:  # it is in the middle of something
                connection.ready(what)
                continue
            try:
                data = read(fd, read_size)
            except BlockingIOError:
                continue
            except OSError:
                connection.drop()
                continue
            heard.append((fd, connection, data, what))
        self._answer(heard, read_size)

    def _answer(self, heard: list[Heard], read_size: int) -> None:
        """Most often each is one more poll, which is answered right here."""
        known, context, write, idle_until = self._known, self.context, self.sockets.write, self.context.time.idle_until
        last, request = b"", None
        for fd, connection, data, what in heard:
            if data != last:  # VMs ask with the same bytes: to compare them costs half of looking them up
                last, request = data, known.get(data) if len(data) < read_size else None
            if request is None or (answer := warm_answer(context, connection.address, request)) is None:
                self._take_long(connection, data, read_size)
            else:
                try:
                    sent = write(fd, answer)
                except BlockingIOError:
                    sent = 0
                except OSError:
                    sent = len(answer)  # who is gone gets it all
                if sent == len(answer) and not request.closes:
                    connection.deadline = idle_until
                else:
                    self._finish(connection, answer[sent:], request.closes)
            if what != READABLE and connection.fd >= 0:
                connection.ready(what)  # the end came too, and nobody tells us a second time

    def _take_long(self, connection: Connection, data: bytes, read_size: int) -> None:
        """What is not a poll that is known. If there may be more of it, that belongs to it: known or not is by all."""
        if len(data) == read_size:
            try:
                data += self.sockets.read(connection.fd, READ_AHEAD)
            except BlockingIOError:
                pass
            except OSError:
                connection.drop()
                return
        connection.received(data)
        if len(data) > READ_AHEAD and self.watches(connection):
            connection.read()

    def _finish(self, connection: Connection, rest: bytes, closes: bool) -> None:
        """An answer is on its way but for this: close, or wait until the client takes the rest, or for more."""
        connection.deadline = self.context.time.idle_until
        self._keep(connection)
        if rest:
            connection.left_unsent(rest)
        if closes:
            connection.close()

    # --- new connections ---

    def accept(self) -> None:
        """There are new connections; those that are over again end together, as polls are answered together."""
        room = AT_ONCE
        waiting = 1  # at least: the kernel has said so
        while room > 0 and waiting > 0 and self._accept_some(min(room, waiting)):
            room, waiting = room - waiting, self._waiting()
        self.end_all()

    def end_all(self) -> None:
        """Send the end of each, in one packet with its answer.

        To close alone would lose the answer if the client has sent more meanwhile.
        """
        over, self._over = self._over, []
        for fd in over:
            self.sockets.shut(fd)
            self.sockets.close(fd)

    def _waiting(self) -> int:
        """How many connections can be taken. To try once more and get nothing would cost as much as half a poll."""
        if not hasattr(socket, "TCP_INFO"):
            return AT_ONCE
        told = self._listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_UP_TO_UNACKED.size)
        waiting: int = _INFO_UP_TO_UNACKED.unpack(told)[0]
        return waiting

    def _accept_some(self, waiting: int) -> bool:
        # `accept` of the module would make a socket of each connection, which is a fifth of the whole cost.
        accept = self._listening._accept  # type: ignore[attr-defined]
        for _ in range(waiting):
            try:
                fd, name = accept()
            except BlockingIOError:
                return False
            except ConnectionAbortedError:
                continue
            except OSError as problem:
                self._rest(problem)
                return False
            self.begin(fd, name[0] if self._is_plain else plain_address(name[0]))
        return True

    def _rest(self, problem: OSError) -> None:
        """There are no files or no memory left: to try again at once would only keep everybody else waiting."""
        self.context.loop.remove_reader(self._listening.fileno())
        self._pause = self.context.loop.call_later(PAUSE_SECONDS, self._go_on)
        self.context.loop.call_exception_handler({"message": "No connection can be accepted.", "exception": problem})

    def begin(self, fd: int, address: str) -> None:
        """A new connection, most often with a whole request. A poll that closes is over before it is a connection."""
        context, sockets, read_size = self.context, self.sockets, self.context.cache.read_size
        if not context.limits.has_room_for(address):
            self._refuse(fd, address)
            return
        data = sockets.receive(fd, read_size)
        if data is not None and len(data) == read_size:
            data += sockets.receive(fd, READ_AHEAD) or b""
        request = None if data is None else self._known.get(data)
        if request is None or (answer := warm_answer(context, address, request)) is None:
            self._begin_with(self._connection(fd, address, context.time.request_until), data)
        elif (sent := sockets.send(fd, answer, request.closes)) == len(answer) and request.closes:
            self._over.append(fd)
            if len(self._over) == ENDED_AT_ONCE:
                self.end_all()
        else:
            self._finish(self._connection(fd, address, context.time.idle_until), answer[sent:], request.closes)

    def _connection(self, fd: int, address: str, deadline: float) -> Connection:
        self.sockets.keep(fd)
        return Connection(self, fd, address, deadline)

    def _begin_with(self, connection: Connection, data: bytes | None) -> None:
        """What is not answered at once. A client that may not ask needs no place in the epoll (S29)."""
        if data is not None:
            connection.received(data)
        if connection.fd >= 0:
            self._keep(connection)  # what has come meanwhile is told at once

    def _refuse(self, fd: int, address: str) -> None:
        """Too many: one VM that opens thousands must not keep the others waiting, so most are not even told (S26).

        What has come is read, else to close would take the answer with it.
        """
        context = self.context
        if context.sessions.is_patient_with(address, context.time.now):
            self.sockets.receive(fd, READ_AHEAD)
            self.sockets.send(fd, context.time.response_head.render(TOO_MANY, CLOSE), True)
            self.sockets.shut(fd)
        self.sockets.close(fd)

    # --- places ---

    def _keep(self, connection: Connection) -> None:
        """It lasts longer than a turn of the loop: count it, and hear what comes."""
        if not connection.is_kept:
            self._count_in(connection)
            self._poller.register(connection.fd, _wanted(connection))

    def _count_in(self, connection: Connection) -> None:
        connection.is_kept = True
        if (session := self.context.sessions.by_address.get(connection.address)) is not None:
            connection.address = session.vm.address  # the same text, but there it is once for all connections of a VM
        self.context.limits.enter(connection)
        if (missing := connection.fd + 1 - len(self._connections)) > 0:
            self._connections += [None] * missing
        self._connections[connection.fd] = connection

    def watch(self, connection: Connection) -> None:
        """It wants to be told of other things than before."""
        if connection.is_kept:
            self._poller.modify(connection.fd, _wanted(connection))
        else:
            self._keep(connection)

    def leave_alone(self, connection: Connection) -> None:
        """It has its last answer and may still be sending, so to close at once could take the answer with it.

        What it sends stays in the kernel, and its place is taken until the deadline: noise uses up places of its own.
        """
        if connection.is_kept:
            self._poller.unregister(connection.fd)
        else:
            self._count_in(connection)
        self._connections[connection.fd] = None

    def watches(self, connection: Connection) -> bool:
        """Whether it is told when something comes."""
        return self._connections[connection.fd] is connection

    def ended(self, connection: Connection, fd: int) -> None:
        """A connection is over; a closed one leaves the epoll by itself."""
        if connection.is_kept:
            if self._epoll is None:
                self._poller.unregister(fd)
            self._connections[fd] = None
            self.context.leave(connection)
        self.sockets.close(fd)


def _wanted(connection: Connection) -> int:
    """What we are told of once each time. What we do not want to read stays in the kernel."""
    reads = 0 if connection.is_paused or connection.ended else READABLE | ENDED
    return ONCE | reads | (WRITABLE if connection.unsent else 0)
