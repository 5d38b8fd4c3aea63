"""Python's sockets by number: each is made once, and serves all connections that get its number."""

import socket


class Handles(dict[int, socket.SocketType]):
    """`handles[number]` is a socket of Python for a connection that was just accepted.

    The kernel gives the lowest free number to a new connection, so the same few come again and again. To make a socket
    for each connection costs a call of the kernel, which is not needed to read and write. A number is closed with
    `os.close`: who closed the socket would lose it.
    """

    __slots__ = ("_kind",)

    def __init__(self, kind: tuple[int, int, int]) -> None:
        super().__init__()
        self._kind = kind

    def __missing__(self, number: int) -> socket.SocketType:
        made = self[number] = socket.SocketType(*self._kind, number)
        return made

    def __del__(self) -> None:
        """By now the numbers belong to others: they must not be closed with the sockets."""
        for handle in self.values():
            handle.detach()
