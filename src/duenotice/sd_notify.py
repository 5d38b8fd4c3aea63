"""Tells systemd our state, if it asks for that: a datagram on the socket that it names. Nothing else."""

import os
import socket
from contextlib import suppress


def sd_notify(*states: str) -> None:
    """`READY=1`, `WATCHDOG=1`, `STATUS=…`, `STOPPING=1`."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address.startswith(("/", "@")):
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out:
            out.sendto("\n".join(states).encode(), address.replace("@", "\0", 1) if address[0] == "@" else address)


def watchdog_seconds() -> float | None:
    """How often to say that we are alive: half of what systemd allows."""
    text = os.environ.get("WATCHDOG_USEC", "")
    return int(text) / 2e6 if text.isdecimal() and int(text) else None
