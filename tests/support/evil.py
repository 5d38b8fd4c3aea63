"""A metadata service that sends exactly the bytes a test likes, however wrong; nothing of ours is in it.

    with EvilServer(json_answer(DOCUMENT)) as server:                  # the same for every request
        client = MetadataClient(server.endpoint)
    with EvilServer([reply(429), json_answer(DOCUMENT)]) as server:    # one after the other; the last stays
        ...
        server.requests          # each request as `Asked(method, target, headers, body, at, connection)`

An answer is a list of acts, done one after the other: `bytes` are sent, a `float` is a pause in seconds, `CLOSE` ends
the connection, `RESET` ends it with a RST, `HANG` says no more until the client gives up. After the last act the
connection stays open for the next request. `on_connect=[CLOSE]` is done before any request is read.
`server.answers = …` changes the answers meanwhile, from any thread. It listens on loopback, in a thread of its own.
"""

import asyncio
import contextlib
import json
import socket
import struct
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Self, cast

Act = bytes | float | str
Answer = list[Act]

CLOSE: Final = "close"
RESET: Final = "reset"
HANG: Final = "hang"
SECONDS = 30


@dataclass(frozen=True)
class Asked:
    """One request as it came; `at` in monotonic seconds, `connection` counted from 1."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    at: float
    connection: int


def reply(status: int | str, body: bytes = b"", *headers: str) -> Answer:
    """A well-formed answer; with headers of its own, as whole lines, and the right Content-Length."""
    lines = (f"HTTP/1.1 {status} x", *headers, f"Content-Length: {len(body)}")
    return ["".join(f"{line}\r\n" for line in (*lines, "")).encode() + body]


def json_answer(content: Any, *headers: str, status: int = 200) -> Answer:
    """A well-formed answer in JSON; bytes are taken as they are."""
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    return reply(status, body, "Content-Type: application/json; charset=utf-8", *headers)


def chunked(*pieces: bytes) -> bytes:
    """A body in chunks, with its end."""
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (*pieces, b""))


class EvilServer:
    """`with EvilServer(answer) as server:` or `with EvilServer([first, second, …]) as server:`."""

    def __init__(self, answers: Answer | Sequence[Answer], on_connect: Answer | None = None) -> None:
        self.answers = answers
        self.to_posts: Answer | None = None
        """What POSTs are answered, if not the same as others."""
        self.requests: list[Asked] = []
        self.connections = 0
        self.answered = 0
        """How many answers have been sent to their end."""
        self._on_connect = on_connect or []
        self._used = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._ready = threading.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def answers(self) -> Sequence[Answer]:
        """What is still to be answered; the last one stays."""
        return self._answers

    @answers.setter
    def answers(self, answers: Answer | Sequence[Answer]) -> None:
        several = bool(answers) and all(isinstance(each, list) for each in answers)
        self._used = 0
        self._answers = cast(list[Answer], list(answers) if several else [answers])

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()

    @property
    def endpoint(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def targets(self) -> list[str]:
        """What was asked for, in order."""
        return [asked.target for asked in self.requests]

    def _run(self) -> None:
        with contextlib.closing(self._loop):
            self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._tasks.add(task)
        self.connections += 1
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._converse(reader, writer, self.connections)
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        await self._act(self._on_connect, reader, writer)
        while not writer.is_closing():
            self.requests.append(asked := await _read(reader, number))
            to_this = self.to_posts if asked.method == "POST" else None
            await self._act(to_this or self._next(), reader, writer)
            self.answered += 1

    def _next(self) -> Answer:
        answers = self._answers
        answer = answers[min(self._used, len(answers) - 1)]
        self._used += 1
        return answer

    async def _act(self, acts: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for act in acts:
            if isinstance(act, bytes):
                writer.write(act)
                await writer.drain()
            elif isinstance(act, float):
                await asyncio.sleep(act)
            elif act == HANG:
                await reader.read()
            else:
                _end(writer, abruptly=act == RESET)


async def _read(reader: asyncio.StreamReader, connection: int) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.split("\r\n")[:-2]
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    method, target, _ = first.split(" ")
    return Asked(method, target, headers, body, time.monotonic(), connection)


def _end(writer: asyncio.StreamWriter, abruptly: bool) -> None:
    if abruptly:
        linger = struct.pack("ii", 1, 0)  # nothing is sent any more but a RST
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()
    else:
        writer.close()
