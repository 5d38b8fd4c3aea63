"""Requests as bytes and the little of HTTP that a load needs; one blocking exchange."""

import re
import socket
from typing import NamedTuple

VERSION = "2020-07-01"
PATH = f"/metadata/scheduledevents?api-version={VERSION}"
SECONDS = 60.0

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class Address(NamedTuple):
    """Where to connect to."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def poll(*headers: str, more: str = "") -> bytes:
    """A VM's GET of its document."""
    return _request("GET", PATH + more, "Metadata: true", *headers)


def get(path: str, token: str) -> bytes:
    """An operator's GET."""
    return _request("GET", path, f"Authorization: Bearer {token}")


def post(path: str, token: str, body: bytes) -> bytes:
    """An operator's POST."""
    headers = (f"Authorization: Bearer {token}", "Content-Type: application/json", f"Content-Length: {len(body)}")
    return _request("POST", path, *headers) + body


def whole(data: bytes) -> bool:
    """Whether all bytes of an answer have arrived."""
    end = data.find(b"\r\n\r\n")
    if end < 0:
        return False
    length = _LENGTH.search(data, 0, end + 2)
    return len(data) >= end + 4 + (int(length[1]) if length else 0)


def exchange(server: Address, request: bytes, source: str = "") -> bytes:
    """The answer to one request on a connection of its own."""
    with socket.create_connection(server, SECONDS, (source, 0) if source else None) as connection:
        connection.sendall(request)
        answer = b""
        while not whole(answer):
            some = connection.recv(65536)
            if not some:
                raise ConnectionError(f"{server} closed the connection after {answer!r}")
            answer += some
        return answer


def _request(method: str, target: str, *headers: str) -> bytes:
    return "".join(f"{line}\r\n" for line in (f"{method} {target} HTTP/1.1", "Host: duenotice", *headers, "")).encode()
