"""Ports for servers that must come back at the same place: outside the range that the kernel gives to clients."""

import random
import socket

_CHANCE = random.SystemRandom()
FROM, TO = 20_000, 32_000
"""Below Linux's range for outgoing connections: one of these could take a port between two lives of a server."""


def free_port(host: str = "127.0.0.1") -> int:
    """A port on which nothing listens."""
    for _ in range(1000):
        port = _CHANCE.randrange(FROM, TO)
        with socket.socket() as probe:
            try:
                probe.bind((host, port))
            except OSError:
                continue
        return port
    raise AssertionError(f"no free port between {FROM} and {TO}")
