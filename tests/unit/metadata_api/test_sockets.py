"""Sockets of Python by number."""

import os
import socket

from duenotice.metadata_api.sockets import SocketCache

KIND = int(socket.AF_UNIX), int(socket.SOCK_STREAM), 0


def test_the_next_connection_with_a_number_has_the_socket_of_the_last_one() -> None:
    cache = SocketCache(KIND)
    ours, theirs = socket.socketpair()
    again, other = socket.socketpair()
    with ours, theirs, again, other:
        first = cache[ours.fileno()]
        os.dup2(again.fileno(), ours.fileno())  # closes what had the number
        assert cache[ours.fileno()] is first
        first.send(b"new")
        assert (other.recv(9), theirs.recv(9)) == (b"new", b"")


def test_what_has_a_number_later_is_not_closed_with_the_sockets() -> None:
    cache = SocketCache(KIND)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert cache[ours.fileno()].fileno() == ours.fileno()
        del cache
        ours.send(b"open")
        assert theirs.recv(9) == b"open"
