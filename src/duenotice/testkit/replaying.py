"""Serves a recording: every client gets what was answered then, at the speed that is asked for."""

import asyncio
from collections.abc import Sequence
from http import HTTPStatus

from duenotice.clock import monotonic
from duenotice.errors import Malformed
from duenotice.metadata_api.http1 import RequestReader
from duenotice.testkit.recording import Frame, frame_at

_READ = 65536


class Replay:
    """A recording being played; time begins with the first request."""

    def __init__(self, frames: Sequence[Frame], speed: float) -> None:
        self._frames, self._speed = frames, speed
        self._begun: float | None = None
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen, and tell on which address: port 0 takes a free one."""
        self._server = await asyncio.start_server(self._serve, host, port)
        bound: tuple[str, int] = self._server.sockets[0].getsockname()[:2]
        return bound

    def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests = RequestReader()
        try:
            while data := await reader.read(_READ):
                requests.feed(data)
                while (request := requests.next()) is not None:
                    writer.write(self._answer(request.head.method))
        except (Malformed, OSError):
            pass
        finally:
            writer.close()

    def _answer(self, method: str) -> bytes:
        """Approvals are accepted and change nothing."""
        frame = self._now()
        if method == "POST":
            return _rendered(200, {}, b"")
        return b"" if not frame.answered.status else _recorded(frame)

    def _now(self) -> Frame:
        now = monotonic()
        self._begun = now if self._begun is None else self._begun
        return frame_at(self._frames, (now - self._begun) * self._speed)


def _recorded(frame: Frame) -> bytes:
    return _rendered(frame.answered.status, frame.answered.headers, frame.answered.body.encode())


def _rendered(status: int, headers: dict[str, str], body: bytes) -> bytes:
    phrase = HTTPStatus(status).phrase if status in set(HTTPStatus) else "Recorded"
    lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body
