"""What we tell systemd, a datagram on the socket that it names, and what it hands over: sockets opened for us."""

import os
import socket
from contextlib import suppress

_FIRST = 3
"""systemd hands over files from this number on."""


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


def given_socket(address: tuple[str, int]) -> socket.socket | None:
    """The socket for HOST:PORT that a socket unit has opened, if any; also for a port that we may not take."""
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        return None  # none, or they are for the process that has started us
    count = os.environ.get("LISTEN_FDS", "")
    for number in range(_FIRST, _FIRST + int(count) if count.isdecimal() else _FIRST):
        try:
            given = socket.socket(fileno=number)
        except OSError:  # not a socket, or not open
            continue
        if given.type == socket.SOCK_STREAM and given.getsockname()[:2] == address:
            given.set_inheritable(False)
            return given
        given.detach()
    return None
