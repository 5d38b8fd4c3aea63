"""How connections of operators are let in: each counts from the moment in which it is accepted, TLS or not (S24).

A handshake that is under way, or has not begun, is one of them, so that nobody who never ends it can take descriptors
that VMs need.
"""

import asyncio
import errno
import socket
import ssl
import struct
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import cast

from duenotice.bootstrap.handshakes import Handshakes
from duenotice.engine.followers import MOST_FOLLOWERS
from duenotice.metadata_api.caller import plain_address
from duenotice.metadata_api.limits import network_of
from duenotice.settings import host_port

MOST_CONNECTIONS = 200
"""File descriptors of this process are for VMs."""

MOST_OF_FOLLOWERS = 2 * MOST_FOLLOWERS
"""A follower has a stream and a connection for its beats; these are counted for themselves."""

ACCEPTED_AT_ONCE = 16
"""Connections taken in one turn of the loop; the others wait in the kernel, and VMs are answered in between (S26)."""

SEND_BUFFER = 128 * 1024
"""Bytes that the kernel keeps for a client that does not read; by itself it would keep some megabytes for each."""

NO_MORE = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
AGAIN_SECONDS = 0.1


class Connection(asyncio.Protocol):
    """What answers on a connection that is open."""

    transport: asyncio.Transport

    @property
    def waits_for_client(self) -> bool:
        """Whether nothing is being done for it."""
        raise NotImplementedError

    def rest(self) -> None:
        """Read nothing more for a moment: its client asks too often."""
        raise NotImplementedError


Answering = Callable[["Accepted"], Connection]
"""Makes it, when the handshake is over: until then a connection should cost as little as possible."""


class Accepted(asyncio.Protocol):
    """One that was accepted: first its handshake, then a connection that is open."""

    give_up: Callable[[], object] | None = None
    """Ends a handshake that is not over, whether it has begun or not."""

    def __init__(self, crowd: "Crowd", address: str | bytes, answering: Answering) -> None:
        self.address = address
        self._crowd, self._answering, self._is_over = crowd, answering, False
        self._connection: Connection | None = None

    @property
    def waits_for_client(self) -> bool:
        """Whether nothing is being done for it."""
        return self._connection is None or self._connection.waits_for_client

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The handshake is over, if there was one."""
        stream = cast(asyncio.Transport, transport)
        self._connection = self._answering(self)
        stream.set_protocol(self._connection)
        self._connection.connection_made(stream)
        if self._is_over:
            stream.abort()

    def set_apart(self) -> None:
        """It is a follower's."""
        self._crowd.set_apart(self)

    def rest(self) -> None:
        """Its client asks too often."""
        if self._connection is not None:
            self._connection.rest()

    def abort(self) -> None:
        """Close it at once, or as soon as it is open."""
        self._is_over = True
        if self._connection is not None:
            reset(self._connection.transport)
        elif self.give_up is not None:
            self.give_up()

    def leave(self) -> None:
        """It is closed."""
        self._crowd.leave(self)
        self._connection = None  # no cycles here either: requests that are over refer to us


def reset(transport: asyncio.Transport) -> None:
    """Close a connection at once, and forget what was not sent: the kernel would keep it for a client."""
    with suppress(OSError):
        if transport.get_write_buffer_size():
            at_once = struct.pack("ii", 1, 0)
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
    transport.abort()


class Crowd:
    """All that was accepted at one port and is still there, the oldest first; followers are counted for themselves."""

    def __init__(self) -> None:
        self._operators: dict[Accepted, None] = {}
        self._followers: dict[Accepted, None] = {}

    def enter(self, new: Accepted) -> None:
        """Somebody has come."""
        self._operators[new] = None
        if len(self._operators) > MOST_CONNECTIONS:
            self._make_room(new)

    def set_apart(self, follower: Accepted) -> None:
        """It has shown a follower's token."""
        if follower in self._operators and len(self._followers) < MOST_OF_FOLLOWERS:
            del self._operators[follower]
            self._followers[follower] = None

    def leave(self, member: Accepted) -> None:
        """It has gone."""
        self._operators.pop(member, None)
        self._followers.pop(member, None)

    def _make_room(self, new: Accepted) -> None:
        """Of the address that has the most connections that wait for their client, the oldest goes.

        So silent clients lock nobody out, and those of one machine do not take the places of another one's.
        """
        waiting: dict[str | bytes, list[Accepted]] = {}
        for each in self._operators:
            if each is not new and each.waits_for_client:
                waiting.setdefault(each.address, []).append(each)
        victim = max(waiting.values(), key=len)[0] if waiting else new
        self.leave(victim)
        victim.abort()


class Acceptor:
    """Takes connections from a listening socket, some at a time, and gives each a protocol."""

    def __init__(
        self,
        listening: socket.socket,
        answering: Answering,
        crowd: Crowd,
        tls: ssl.SSLContext | None,
        patience: float,
    ) -> None:
        self._loop, self._crowd, self._answering = asyncio.get_running_loop(), crowd, answering
        self._tls, self._patience = tls, patience
        self._listening = listening
        self._opening: set[asyncio.Task[None]] = set()
        self._handshakes = None if tls is None else Handshakes(tls, patience, host_port(listening.getsockname()[:2]))
        listening.setblocking(False)
        self._loop.add_reader(listening, self._accept)

    def close(self) -> None:
        """Accept nobody any more; who has not finished the handshake is not waited for."""
        if self._listening.fileno() >= 0:
            self._loop.remove_reader(self._listening)
        if self._handshakes is not None:
            self._handshakes.close()
        for each in list(self._opening):
            each.cancel()

    async def wait_closed(self) -> None:
        """All handshakes are given up."""
        await asyncio.gather(*self._opening, return_exceptions=True)

    def _accept(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                client, address = self._listening.accept()
            except OSError as error:
                if error.errno in NO_MORE:
                    self._pause()
                return
            self._let_in(client, str(address[0]))

    def _pause(self) -> None:
        """There are no descriptors: the kernel would call again at once."""
        self._loop.remove_reader(self._listening)
        self._loop.call_later(AGAIN_SECONDS, self._go_on)

    def _go_on(self) -> None:
        if self._listening.fileno() >= 0:
            self._loop.add_reader(self._listening, self._accept)

    def _let_in(self, client: socket.socket, address: str) -> None:
        client.setblocking(False)
        with suppress(OSError):  # it may have gone already
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        accepted = Accepted(self._crowd, network_of(plain_address(address)), self._answering)
        if self._handshakes is None:
            self._open(accepted, client)
        else:
            accepted.give_up = partial(self._drop, accepted, client)
            begin = partial(self._open, accepted, client)
            self._handshakes.wait(accepted, client, accepted.address, begin, accepted.abort)
        self._crowd.enter(accepted)

    def _drop(self, accepted: Accepted, client: socket.socket) -> None:
        """Its handshake has not begun, and never will."""
        self._over(accepted)
        accepted.leave()
        client.close()

    def _over(self, accepted: Accepted) -> None:
        accepted.give_up = None  # no cycles: the collector would take thousands of them at once, and VMs would wait
        if self._handshakes is not None:
            self._handshakes.over(accepted)

    def _open(self, accepted: Accepted, client: socket.socket) -> None:
        opening = self._loop.create_task(self._opened(accepted, client))
        self._opening.add(opening)
        opening.add_done_callback(partial(self._is_open, accepted, client))
        if self._tls is not None:
            accepted.give_up = opening.cancel

    async def _opened(self, accepted: Accepted, client: socket.socket) -> None:
        timeout = None if self._tls is None else self._patience
        try:
            await self._loop.connect_accepted_socket(
                lambda: accepted, client, ssl=self._tls, ssl_handshake_timeout=timeout
            )
        except OSError:  # it does not speak TLS, or not in time
            accepted.leave()

    def _is_open(self, accepted: Accepted, client: socket.socket, opening: "asyncio.Task[None]") -> None:
        self._opening.discard(opening)
        self._over(accepted)
        if opening.cancelled():  # perhaps before it began
            client.close()
