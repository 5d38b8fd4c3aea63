"""When TLS handshakes begin: a share of processor time is for all of them, and addresses take turns (S24, S29).

A handshake costs the one who asks nothing and the loop a signature: 0.1 ms with an EC key, 5 ms with an RSA key of
4,096 bits. So nothing is done for a connection before its whole hello is there; it waits in the kernel. Then it waits
for its turn. Few enough are open at a time that all of them, if they go on at one moment, cost less than a poll may
wait: a client may ask for another round, and the signature is made in the second.
"""

import asyncio
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import structlog

from duenotice.clock import monotonic, processor_seconds

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

    def __init__(self, tls: ssl.SSLContext, patience: float, port: str) -> None:
        self._loop, self._tls, self._patience = asyncio.get_running_loop(), tls, patience
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
        address, later = self._whose_turn(now)
        if self._saved < 0:
            later = max(later, -self._saved / SHARE)
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
        self._begun[who] = now, waiting
        waiting.begin()
        self._soon()

    def _whose_turn(self, now: float) -> tuple[str | bytes, float]:
        """An address, and after how many seconds one of it may begin.

        When no more may be open, that is who has the fewest; the oldest of who has the most makes room for it.
        """
        if len(self._begun) < self._most:
            return next(iter(self._ready)), 0.0
        of = Counter(each.address for _, each in self._begun.values())
        address = min(self._ready, key=lambda each: of[each])
        since, oldest = self._begun[self._oldest_of_most()]
        if of[address] + 2 <= of[oldest.address]:
            return address, 0.0
        return address, max(0.0, since + SLOW_TO_ANSWER - now)

    def _oldest_of_most(self) -> object:
        of = Counter(each.address for _, each in self._begun.values())
        return max(self._begun, key=lambda who: of[self._begun[who][1].address])

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
