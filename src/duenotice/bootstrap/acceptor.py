"""How connections of operators are let in: each counts from the moment in which it is accepted, TLS or not (S24).

A handshake that is under way, or has not begun, is one of them, so that nobody who never ends it can take descriptors
that VMs need.

When TLS handshakes begin: a share of processor time is for all of them, and addresses take turns (S24, S29). A
handshake costs the one who asks nothing and the loop a signature: 0.1 ms with an EC key, 5 ms with an RSA key of 4,096
bits. So nothing is done for a connection before its whole hello is there; it waits in the kernel. Then it waits for its
turn. Few enough are open at a time that all of them, if they go on at one moment, cost less than a poll may wait: a
client may ask for another round, and the signature is made in the second. Addresses that are known go before strangers.
"""

import asyncio
import errno
import socket
import ssl
import struct
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple, cast

import structlog

from duenotice.bootstrap.known_addresses import KnownAddresses, Who
from duenotice.clock import monotonic, processor_seconds
from duenotice.engine.followers import MOST_FOLLOWERS
from duenotice.metadata_api.sessions import network_of, plain_address
from duenotice.settings import host_port

SHARE = 0.1
"""Of the processor time of the loop that answers VMs."""
SAVED_SECONDS = 0.1
"""So much of it can be saved up: a browser opens some connections at a moment, a console some dozens."""
OPEN_SECONDS, MOST_OPEN, FEWEST_OPEN = 0.04, 64, 2
"""What all handshakes that have begun and not ended may cost together, and how many these are."""
BESIDE_SECONDS = 0.0004
"""What a connection costs beside its handshake."""
SLOW_TO_ANSWER = 1.0
"""Seconds after which one that has begun makes room for another one, if there is none."""
MORE_OPEN = 2
"""So many more a known address may have open before one of its makes room for a stranger's."""
MEASURED_AGAIN_SECONDS = 60.0
"""A new certificate can have another key."""
TIMES = 3
"""How often it is measured; the fastest counts."""
SLOW_SECONDS = 0.0015
"""An RSA key of 2,048 bits takes half as long."""
HINT = "Use a certificate with an EC key (P-256): with one like this few can connect in a second."
LONGEST_HELLO = 16 * 1024
_RECORD, _MESSAGE = 5, 4
"""Bytes before what is in a record of TLS, and before what is in a message of a handshake."""
_TCP_INFO, _ESTABLISHED = 11, 1
"""Of Linux: what it knows of a connection, and the state that the first byte of it is then."""
CURVE = "prime256v1"
"""The only group for exchanging keys: the client chooses among those that we allow, and with the default ones a
handshake costs 90 ms (ffdhe8192). Clients of today have this one; those that guess another first ask a second time."""

log = structlog.get_logger()


def cost_of(context: ssl.SSLContext) -> float:
    """Seconds of processor time of one handshake with this certificate."""
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client, server = trusting.wrap_bio(to_client, to_server), context.wrap_bio(to_server, to_client, server_side=True)
    spent = 0.0
    for _ in range(4):
        with suppress(ssl.SSLWantReadError):
            client.do_handshake()
        begun = processor_seconds()
        with suppress(ssl.SSLError):
            server.do_handshake()
        spent += processor_seconds() - begun
    return spent


def bytes_of_hello(begun: bytes) -> int:
    """How many bytes must be there before it is worth to look again; `ValueError`: it is not a hello, or an odd one."""
    if begun and begun[0] != 22:  # a handshake's record
        raise ValueError("This is not TLS.")
    if len(begun) < _RECORD + _MESSAGE:
        return _RECORD + _MESSAGE
    record, message = int.from_bytes(begun[3:5], "big"), int.from_bytes(begun[6:9], "big")
    if begun[5] != 1 or message + _MESSAGE > record or record > LONGEST_HELLO:
        raise ValueError("This is not a hello in one record.")
    return _RECORD + record


class Waiting(NamedTuple):
    """A connection whose handshake has not begun."""

    client: socket.socket
    address: str | bytes
    begin: Callable[[], None]
    """Begins it; `Handshakes.over` must be told when it has ended, in whatever way."""
    end: Callable[[], None]
    """Closes it, before or after it has begun."""
    too_late: asyncio.TimerHandle


class Handshakes:
    """Those of one port: who waits for its client's hello, who waits for a turn, and who has begun."""

    def __init__(self, tls: ssl.SSLContext, patience: float, port: str, known: KnownAddresses) -> None:
        self._loop, self._tls, self._patience = asyncio.get_running_loop(), tls, patience
        self._known, self._last_was_known = known, False
        self._all: dict[object, Waiting] = {}
        self._ready: dict[str | bytes, dict[object, Waiting]] = {}  # by address, which take turns
        self._begun: dict[object, tuple[float, Waiting]] = {}
        self._next: asyncio.Handle | None = None
        self._later: asyncio.TimerHandle | None = None
        self._saved, self._counted_until = SAVED_SECONDS, monotonic()
        self._port = port
        tls.set_ecdh_curve(CURVE)
        self._measure(self._counted_until)

    def wait(
        self,
        who: object,
        client: socket.socket,
        address: str | bytes,
        begin: Callable[[], None],
        end: Callable[[], None],
    ) -> None:
        """Begin when the hello is there and it is its turn."""
        too_late = self._loop.call_later(self._patience, end)
        self._all[who] = Waiting(client, address, begin, end, too_late)
        _read_when(client, bytes_of_hello(b""))
        self._loop.add_reader(client, self._look, who)

    def over(self, who: object) -> None:
        """It has ended, or its connection was closed before it began."""
        self._begun.pop(who, None)
        waiting = self._all.pop(who, None)
        if waiting is not None:
            waiting.too_late.cancel()
            ready = self._ready.get(waiting.address, {})
            if ready.pop(who, None) is None:
                self._loop.remove_reader(waiting.client)
            elif not ready:
                del self._ready[waiting.address]
        self._soon()

    def close(self) -> None:
        """Nobody begins any more."""
        for each in list(self._all.values()):
            each.end()

    def _look(self, who: object) -> None:
        """Something of the hello is there: nothing is done until all of it is."""
        waiting = self._all[who]
        try:
            begun = waiting.client.recv(LONGEST_HELLO, socket.MSG_PEEK)
            wanted = bytes_of_hello(begun)
        except BlockingIOError:
            return
        except (OSError, ValueError):
            waiting.end()
            return
        if len(begun) >= wanted:
            self._loop.remove_reader(waiting.client)
            _read_when(waiting.client, 1)
            self._ready.setdefault(waiting.address, {})[who] = waiting
            self._soon()
        elif len(begun) < waiting.client.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT):
            waiting.end()  # no more will come
        else:
            _read_when(waiting.client, wanted)

    def _soon(self) -> None:
        """Somebody is ready, or there is room: do not wait for what was waited for."""
        if self._later is not None:
            self._later.cancel()
            self._later = None
        if self._ready and self._next is None:
            self._next = self._loop.call_soon(self._begin)

    def _begin(self) -> None:
        """Begin one, if there is processor time and room for it; VMs are answered before the next one."""
        self._next, now = None, monotonic()
        self._saved = min(SAVED_SECONDS, self._saved + SHARE * (now - self._counted_until))
        self._counted_until = now
        if not self._ready:
            return
        address, later = ("", -self._saved / SHARE) if self._saved < 0 else self._whose_turn(now)
        if later > 0:
            self._later = self._loop.call_later(later, self._soon)
            return
        who, waiting = next(iter(self._ready[address].items()))
        if _has_gone(waiting.client):
            waiting.end()  # and `over` looks for the next one
            return
        self._make_room()
        ready = self._ready.pop(address)
        del ready[who], self._all[who]
        if ready:
            self._ready[address] = ready  # behind the others
        waiting.too_late.cancel()
        if now - self._measured_at > MEASURED_AGAIN_SECONDS:
            self._measure(now)
        self._saved -= self._cost
        self._last_was_known = address in self._known.all
        self._begun[who] = now, waiting
        waiting.begin()
        self._soon()

    def _whose_turn(self, now: float) -> tuple[str | bytes, float]:
        """An address, and after how many seconds one of it may begin; every second turn is for those that are known.

        When no more may be open, that is who has the fewest; the oldest of who has the most makes room for it.
        """
        known = [address for address in self._ready if address in self._known.all]
        strangers = [address for address in self._ready if address not in self._known.all]
        turns = strangers if strangers and (self._last_was_known or not known) else known
        if len(self._begun) < self._most:
            return turns[0], 0.0
        weight = self._weights()
        address = min(turns, key=weight)
        since, oldest = self._begun[self._oldest_of_most()]
        if weight(address) + 2 <= weight(oldest.address):
            return address, 0.0
        return address, max(0.0, since + SLOW_TO_ANSWER - now)

    def _weights(self) -> Callable[[str | bytes], int]:
        """How many each address has open; of one that is known some do not count."""
        of = Counter(each.address for _, each in self._begun.values())
        return lambda address: of[address] - MORE_OPEN * (address in self._known.all)

    def _oldest_of_most(self) -> object:
        weight = self._weights()
        return max(self._begun, key=lambda who: weight(self._begun[who][1].address))

    def _make_room(self) -> None:
        if len(self._begun) >= self._most:
            _, oldest = self._begun.pop(self._oldest_of_most())
            oldest.end()

    def _measure(self, now: float) -> None:
        cost = min(cost_of(self._tls) for _ in range(TIMES))
        if cost > SLOW_SECONDS:
            log.warning(
                "TLS with this key is slow", action="slow-key", port=self._port, seconds=round(cost, 4), hint=HINT
            )
        self._measured_at, self._cost = now, cost + BESIDE_SECONDS
        self._saved -= TIMES * cost
        self._most = min(MOST_OPEN, max(FEWEST_OPEN, int(OPEN_SECONDS / cost)))


def _has_gone(client: socket.socket) -> bool:
    """Whether the client has closed its side: it will never answer, and a signature would be for nobody."""
    try:
        return client.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, 1)[0] != _ESTABLISHED
    except OSError:
        return False  # this system does not tell


def _read_when(client: socket.socket, count: int) -> None:
    """Hear of it when so much is there: who sends one byte at a time wakes nobody."""
    with suppress(OSError):  # it may have gone already
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)


MOST_CONNECTIONS = 200
"""File descriptors of this process are for VMs."""

MORE_CONNECTIONS = 8
"""So many more of a known address may wait for their client before one of them makes room for a stranger's."""

MOST_OF_FOLLOWERS = 2 * MOST_FOLLOWERS
"""A follower has a stream and a connection for its beats; these are counted for themselves."""

ACCEPTED_AT_ONCE, ACCEPTED_WHEN_FULL = 16, 4
"""Connections taken in one turn of the loop; the others wait in the kernel, and VMs are answered in between (S26). When
it is full, another one has to be found and closed for each."""

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

    def is_of(self, who: Who) -> None:
        """Its client has shown a token, or is a health probe: its address is known from now on."""
        self._crowd.known.hear(self.address, who)

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
        self.known = KnownAddresses()
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

    @property
    def is_full(self) -> bool:
        """Whether the next one takes the place of another one."""
        return len(self._operators) >= MOST_CONNECTIONS

    def _make_room(self, new: Accepted) -> None:
        """Of the address that has the most connections that wait for their client, the oldest goes.

        So silent clients lock nobody out, those of one machine do not take the places of another one's, and one machine
        with many addresses not those of addresses that are known.
        """
        waiting: dict[str | bytes, list[Accepted]] = {}
        for each in self._operators:
            if each is not new and each.waits_for_client:
                waiting.setdefault(each.address, []).append(each)
        victim = max(waiting.items(), key=self._weight)[1][0] if waiting else new
        self.leave(victim)
        victim.abort()

    def _weight(self, waiting: tuple[str | bytes, list[Accepted]]) -> int:
        address, connections = waiting
        return len(connections) - MORE_CONNECTIONS * (address in self.known.all)


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
        port = host_port(listening.getsockname()[:2])
        self._handshakes = None if tls is None else Handshakes(tls, patience, port, crowd.known)
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
        for _ in range(ACCEPTED_WHEN_FULL if self._crowd.is_full else ACCEPTED_AT_ONCE):
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
