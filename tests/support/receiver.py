"""A receiver of webhooks: a real HTTP server that answers as it is told and remembers what it was sent."""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ssl import SSLContext
from typing import Any, NamedTuple

HANG = 0
"""In place of a status: no answer until the receiver is closed."""
SECONDS = 30


class Received(NamedTuple):
    """One request."""

    headers: dict[str, str]
    body: bytes

    def event(self) -> Any:
        return json.loads(self.body)


class Receiver:
    """`with Receiver(500, 200) as receiver:` — the last status answers everything after it too."""

    def __init__(self, *statuses: int, said: bytes = b"", tls: SSLContext | None = None, **headers: str) -> None:
        self.received: list[Received] = []
        self._statuses, self._said, self._headers = list(statuses), said, headers
        self._closing = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.url = f"http{'s' if tls else ''}://localhost:{self._server.server_port}/impact"

    def __enter__(self) -> "Receiver":
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._server.shutdown()
        self._thread.join(SECONDS)
        self._server.server_close()

    def answers(self, *statuses: int) -> None:
        """From now on these."""
        self._statuses = list(statuses)

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers["Content-Length"]))
        self.received.append(Received(dict(request.headers.items()), body))
        status = self._statuses.pop(0) if len(self._statuses) > 1 else self._statuses[0]
        if status == HANG:
            self._closing.wait(SECONDS)
            return
        request.send_response(status)
        for name, value in {"Content-Length": str(len(self._said)), **self._headers}.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(self._said)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        answer: Callable[[BaseHTTPRequestHandler], None] = self._answer

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                answer(self)

            def log_message(self, *_: object) -> None:
                """Tests are quiet."""

        return Handler
