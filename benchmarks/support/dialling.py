"""Polls from many addresses, each on a connection of its own, which either side may close: what wrk cannot do."""

import socket
import time
from collections.abc import Iterator, Sequence
from itertools import cycle

from benchmarks.support.http import SECONDS, Address, whole
from benchmarks.support.machine import CannotMeasure
from benchmarks.support.results import p99
from benchmarks.support.wrk import Load

_LAST = b"\r\nConnection: close\r\n"
_PORT_LATER = getattr(socket, "IP_BIND_ADDRESS_NO_PORT", 24)


def dial(server: Address, request: bytes, sources: Sequence[str], at_once: int, seconds: int) -> Load:
    """Connect from one address after the other, so many at a time, and read an answer and the end, whoever ends it.

    A request that does not close is that of `curl` and `requests`: these have their answer and hang up.
    """
    turns, took = cycle(sources), list[float]()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        took += _dial_some(server, request, turns, at_once)
    return Load(len(took), p99(took) * 1e6)


def _dial_some(server: Address, request: bytes, turns: Iterator[str], at_once: int) -> list[float]:
    """Seconds from connecting to the end, for each.

    All connect, then all ask: between the two a network takes its time, and wrk sends no sooner either.
    """
    began, clients = [], []
    for _ in range(at_once):
        began.append(time.monotonic())
        clients.append(_connected(server, next(turns)))
    for client in clients:
        client.send(request)
    return [_heard(client) - begin for client, begin in zip(clients, began, strict=True)]


def _connected(server: Address, source: str) -> socket.socket:
    client = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    client.settimeout(SECONDS)
    client.setsockopt(socket.IPPROTO_IP, _PORT_LATER, 1)
    client.bind((source, 0))
    client.connect(server)
    return client


def _heard(client: socket.socket) -> float:
    with client:
        answer = b""
        while (not whole(answer) or _LAST in answer) and (some := client.recv(65536)):
            answer += some
    if not answer.startswith(b"HTTP/1.1 200 "):
        raise CannotMeasure(f"Expected 200, got {answer!r}.")
    return time.monotonic()
