"""The little HTTP that the agent speaks on its ports and its socket: one request per connection, limits on everything.

When all places are taken, a new connection takes that of the one which has said nothing for the longest time. So
idle connections, however many, keep no load balancer from its answer.
"""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from duenotice.errors import Misconfigured
from duenotice.http.fetch import HttpAnswer
from duenotice.settings import host_port, listen_hint

LARGEST_HEAD = 8 * 1024
SECONDS = 5.0
CONNECTIONS = 64
JSON = "application/json; charset=utf-8"
_REASONS = {200: "OK", 400: "Bad Request", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed",
            409: "Conflict", 503: "Service Unavailable"}  # fmt: skip


class Request(NamedTuple):
    """A request without a body: its target, its headers with names in lower case, and its method (HEAD is GET)."""

    target: str
    headers: Mapping[str, str]
    method: str = "GET"


Respond = Callable[[Request], HttpAnswer | Awaitable[HttpAnswer]]


async def serve(where: tuple[str, int] | Path, respond: Respond, methods: tuple[str, ...] = ()) -> asyncio.Server:
    """Answer on an address, or on a socket file that only we may use; `methods` are allowed besides GET and HEAD.

    A caller that is slow or sends too much loses its connection, and nothing else happens.
    """
    allowed = ("GET", "HEAD", *methods)
    places: dict[asyncio.StreamWriter, None] = {}  # the one that has been silent for the longest time is the first

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(places) >= CONNECTIONS:
            oldest = next(iter(places))
            del places[oldest]
            oldest.transport.abort()
        places[writer] = None
        try:
            async with asyncio.timeout(SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                places.pop(writer, None)
                places[writer] = None
                writer.write(_encode(await _respond(head, respond, allowed)))
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # only this caller is affected
        finally:
            places.pop(writer, None)
            writer.close()

    if isinstance(where, Path):
        return await asyncio.start_unix_server(answer, sock=_socket_file(where), limit=LARGEST_HEAD)
    try:
        return await asyncio.start_server(answer, *where, limit=LARGEST_HEAD)
    except OSError as error:
        problem = f"Cannot listen on {host_port(where)}: {os.strerror(error.errno or 0)}."
        raise Misconfigured(problem, hint=listen_hint(where, error)) from None


def _socket_file(path: Path) -> socket.socket:
    """A new socket with that name, for its owner only. Such a name may have 107 bytes, and a path may be longer."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    directory = -1
    try:
        os.fchmod(made.fileno(), 0o600)  # before it has its name
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        path.unlink(missing_ok=True)
        made.bind(short_name(directory, path))
        return made
    except OSError as error:
        made.close()
        why = os.strerror(error.errno or 0)
        raise Misconfigured(f"Cannot make {path}: {why}.", hint="Look at the disk and the directory.") from None
    finally:
        with suppress(OSError):
            os.close(directory)


def short_name(directory: int, path: Path) -> str:
    """A name for a file in an open directory that is short enough for a socket."""
    near = Path(f"/proc/self/fd/{directory}")
    return str(near / path.name if near.exists() else path)


async def _respond(head: bytes, respond: Respond, allowed: tuple[str, ...]) -> HttpAnswer:
    try:
        start, headers = _read_head(head)
        method, target, _ = start.split(" ")
    except ValueError:
        return HttpAnswer(400, b'{"error":"This is not a request."}')
    if method not in allowed:
        only = b'{"error":"Only %b is answered here."}' % " and ".join(allowed).encode()
        return HttpAnswer(405, only, {"allow": ", ".join(allowed)})
    found = respond(Request(target, headers, "GET" if method == "HEAD" else method))
    answer = found if isinstance(found, HttpAnswer) else await found
    return answer._replace(body=b"") if method == "HEAD" else answer


def _read_head(head: bytes) -> tuple[str, dict[str, str]]:
    start, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return start, {name.lower(): value.strip() for name, _, value in pairs}


def _encode(answer: HttpAnswer) -> bytes:
    lines = [f"HTTP/1.1 {answer.status} {_REASONS.get(answer.status, 'Unknown')}"]
    lines += [f"{name}: {value}" for name, value in {"content-type": JSON, **answer.headers}.items()]
    lines += [f"content-length: {len(answer.body)}", "connection: close", "", ""]
    return "\r\n".join(lines).encode("latin-1") + answer.body
