"""The little HTTP that the agent's two ports and its peers need: one GET per connection, with limits on everything."""

import asyncio
import os
from collections.abc import Callable, Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from duenotice.errors import Malformed, Misconfigured, Unavailable
from duenotice.settings import host_port, listen_hint

LARGEST_HEAD = 8 * 1024
LARGEST_ANSWER = 64 * 1024
SECONDS = 5.0
CONNECTIONS = 64
JSON = "application/json; charset=utf-8"
_REASONS = {200: "OK", 400: "Bad Request", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed",
            503: "Service Unavailable"}  # fmt: skip


class Request(NamedTuple):
    """A GET: its target and its headers, names in lower case."""

    target: str
    headers: Mapping[str, str]


class Answer(NamedTuple):
    """The answer to a request."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = {"content-type": JSON}


Respond = Callable[[Request], Answer]


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


def _respond(head: bytes, respond: Respond) -> Answer:
    try:
        start, headers = _read_head(head)
        method, target, _ = start.split(" ")
    except ValueError:
        return Answer(400, b'{"error":"This is not a request."}')
    if method not in ("GET", "HEAD"):
        return Answer(405, b'{"error":"Only GET is answered here."}', {"allow": "GET, HEAD"})
    answer = respond(Request(target, headers))
    return answer._replace(body=b"") if method == "HEAD" else answer


def _read_head(head: bytes) -> tuple[str, dict[str, str]]:
    start, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return start, {name.lower(): value.strip() for name, _, value in pairs}


def _encode(answer: Answer) -> bytes:
    lines = [f"HTTP/1.1 {answer.status} {_REASONS.get(answer.status, 'Unknown')}"]
    lines += [f"{name}: {value}" for name, value in answer.headers.items()]
    lines += [f"content-length: {len(answer.body)}", "connection: close", "", ""]
    return "\r\n".join(lines).encode("latin-1") + answer.body


async def get(url: str, headers: Mapping[str, str], timeout: float = SECONDS) -> Answer:
    """One GET without proxy or redirect; raises `Unavailable` or `Malformed` when there is no whole answer in time."""
    try:
        async with asyncio.timeout(timeout):
            return _read_answer(await _fetch(url, headers))
    except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
        raise Unavailable(f"{url} does not answer: {error or type(error).__name__}.", hint="Is it up?") from None
    except ValueError:
        raise Malformed(f"{url} does not speak HTTP.", hint="Is that the agent's port?") from None


async def _fetch(url: str, headers: Mapping[str, str]) -> bytes:
    parts = urlsplit(url)
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port or 80, limit=LARGEST_ANSWER)
    try:
        lines = [f"GET {target} HTTP/1.1", f"host: {parts.netloc}", "connection: close"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
        return await _read_all(reader)
    finally:
        writer.close()


async def _read_all(reader: asyncio.StreamReader) -> bytes:
    data = b""
    while chunk := await reader.read(LARGEST_ANSWER):
        data += chunk
        if len(data) > LARGEST_ANSWER:
            raise ValueError("too long")
    return data


def _read_answer(data: bytes) -> Answer:
    head, found, body = data.partition(b"\r\n\r\n")
    start, headers = _read_head(head)
    version, status, *_ = start.split(" ")
    if not found or not version.startswith("HTTP/1.") or int(headers.get("content-length", -1)) != len(body):
        raise ValueError("half an answer")
    return Answer(int(status), body, headers)
