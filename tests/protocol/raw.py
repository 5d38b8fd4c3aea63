"""A client that sends exactly the bytes it is told to and reads answers strictly."""

import socket
from types import TracebackType
from typing import NamedTuple

from tests.protocol.world import SOLO, World

PATH = "/metadata/scheduledevents?api-version=2020-07-01"
NOTHING = b'{"DocumentIncarnation":0,"Events":[]}'


def request(method: str = "GET", path: str = PATH, *headers: str, body: bytes = b"", version: str = "1.1") -> bytes:
    """A request as most clients send it; `headers` come on top."""
    lines = [f"{method} {path} HTTP/{version}", "Host: 169.254.169.254", "Metadata: true", *headers]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


POLL = request()
LAST_POLL = request("GET", PATH, "Connection: close")


class Reply(NamedTuple):
    """One answer; header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


class Client:
    """A connection from one source address."""

    def __init__(self, world: World, source: str = SOLO, timeout: float = 5.0) -> None:
        self.socket = socket.create_connection(world.address, timeout, (source, 0))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._unread = b""

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def end(self) -> None:
        """Send no more, but go on reading."""
        self.socket.shutdown(socket.SHUT_WR)

    def ask(self, data: bytes = POLL) -> Reply:
        self.send(data)
        return self.reply()

    def reply(self, to_head: bool = False) -> Reply:
        """The next answer, and not a byte more."""
        while b"\r\n\r\n" not in self._unread:
            self._read_more()
        head, _, self._unread = self._unread.partition(b"\r\n\r\n")
        status_line, *lines = head.decode("latin-1").split("\r\n")
        version, status, _ = status_line.split(" ", 2)
        assert version == "HTTP/1.1"
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        has_body = not to_head and status not in ("100", "304")
        length = int(headers["content-length"]) if has_body else 0
        while len(self._unread) < length:
            self._read_more()
        body, self._unread = self._unread[:length], self._unread[length:]
        return Reply(int(status), headers, body)

    def is_closed(self) -> bool:
        """Whether the server sends nothing more; waits for its end."""
        try:
            return not self._unread and not self.socket.recv(1)
        except ConnectionResetError:
            return True

    def is_silent(self, seconds: float) -> bool:
        """Whether nothing comes for so long."""
        self.socket.settimeout(seconds)
        try:
            self.socket.recv(1, socket.MSG_PEEK)
            return False
        except TimeoutError:
            return True
        finally:
            self.socket.settimeout(5)

    def _read_more(self) -> None:
        data = self.socket.recv(65536)
        assert data, f"the server closed in the middle of an answer: {self._unread!r}"
        self._unread += data


def ask(world: World, data: bytes = POLL, source: str = SOLO) -> Reply:
    """One request on a connection of its own."""
    with Client(world, source) as client:
        return client.ask(data)
