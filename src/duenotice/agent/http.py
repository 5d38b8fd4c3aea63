"""The little HTTP that the agent's two ports speak: one GET per connection, with limits on everything."""

import asyncio
import os
from collections.abc import Callable, Mapping
from typing import NamedTuple

from duenotice.errors import Misconfigured
from duenotice.http_call import HttpAnswer
from duenotice.settings import host_port, listen_hint

LARGEST_HEAD = 8 * 1024
SECONDS = 5.0
CONNECTIONS = 64
JSON = "application/json; charset=utf-8"
_REASONS = {200: "OK", 400: "Bad Request", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed",
            503: "Service Unavailable"}  # fmt: skip


class Request(NamedTuple):
    """A GET: its target and its headers, names in lower case."""

    target: str
    headers: Mapping[str, str]


Respond = Callable[[Request], HttpAnswer]


async def serve(address: tuple[str, int], respond: Respond) -> asyncio.Server:
    """Answer on an address; a caller that is slow or sends too much loses its connection, and nothing else happens."""
    open_now = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal open_now
        open_now += 1
        try:
            if open_now <= CONNECTIONS:
                async with asyncio.timeout(SECONDS):
                    await _exchange(reader, writer, respond)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # only this caller is affected
        finally:
            open_now -= 1
            writer.close()

    try:
        return await asyncio.start_server(answer, *address, limit=LARGEST_HEAD)
    except OSError as error:
        problem = f"Cannot listen on {host_port(address)}: {os.strerror(error.errno or 0)}."
        raise Misconfigured(problem, hint=listen_hint(address, error)) from None


async def _exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, respond: Respond) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    writer.write(_encode(_respond(head, respond)))
    await writer.drain()


def _respond(head: bytes, respond: Respond) -> HttpAnswer:
    try:
        start, headers = _read_head(head)
        method, target, _ = start.split(" ")
    except ValueError:
        return HttpAnswer(400, b'{"error":"This is not a request."}')
    if method not in ("GET", "HEAD"):
        return HttpAnswer(405, b'{"error":"Only GET is answered here."}', {"allow": "GET, HEAD"})
    answer = respond(Request(target, headers))
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
