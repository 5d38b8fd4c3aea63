"""A receiver of pushed messages: a real HTTP server that agrees to be told, and answers as it is told to."""

import hashlib
import hmac
import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ssl import SSLContext
from typing import Any, NamedTuple

SECONDS = 30
HANG = 0
"""In place of a status: no answer until the receiver is closed."""
HUGE = -1
"""In place of a status: 200 with ten megabytes."""
DRIP = -2
"""In place of a status: 200, and then a byte now and then."""


class Delivery(NamedTuple):
    """One message as it came."""

    method: str
    headers: dict[str, str]
    body: bytes

    @property
    def message(self) -> Any:
        """The one message in the body, in either format."""
        said = json.loads(self.body)
        return said[0] if isinstance(said, list) else said

    @property
    def told(self) -> tuple[str, str]:
        """Which event, as documents write its id, and its status."""
        properties = self.message["data"]["resourceInfo"]["properties"]
        return properties["EventId"].upper(), properties["EventStatus"]

    def is_signed(self, secret: str) -> bool:
        """As docs/push.md says that it is checked."""
        signed = self.headers["Duenotice-Timestamp"].encode() + b"." + self.body
        wanted = "sha256=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
        return hmac.compare_digest(wanted, self.headers["Duenotice-Signature"])


class PushReceiver:
    """`with PushReceiver() as receiver:` — `answer` says what a message is answered with."""

    def __init__(self, tls: SSLContext | None = None, agrees: bool = True) -> None:
        self.asked: list[Delivery] = []
        self.deliveries: list[Delivery] = []
        self.taken: list[Delivery] = []
        self.agrees = agrees
        self.answer: Callable[[Delivery], int] = lambda _: 200
        self._headers: dict[str, str] = {}
        self._closing, self._changed = threading.Event(), threading.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_port
        self.url = f"http{'s' if tls else ''}://localhost:{self.port}/hook?code=hidden"

    def __enter__(self) -> "PushReceiver":
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._server.shutdown()
        self._thread.join(SECONDS)
        self._server.server_close()

    def wait(self, condition: Callable[[], object]) -> None:
        """Until something that it was sent makes this true."""
        with self._changed:
            assert self._changed.wait_for(condition, SECONDS), "it was never sent that"

    def statuses(self, event_id: str) -> list[str]:
        """What it was told of an event and has taken, in order; a message that came twice counts once."""
        first: dict[str, tuple[str, str]] = {}
        for each in list(self.taken):
            first.setdefault(each.message["id"], each.told)
        return [status for found, status in first.values() if found == event_id]

    def _take(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("Content-Length", "0")))
        came = Delivery(request.command, dict(request.headers.items()), body)
        is_question = came.method == "OPTIONS" or b"SubscriptionValidationEvent" in body
        status = (200 if self.agrees else 403) if is_question else self.answer(came)
        self._keep(came, is_question, status)  # before the answer: the next message may be here before we go on
        if is_question:
            _reply(request, status, *self._agreement(came))
        else:
            self._say(request, status)

    def _keep(self, came: Delivery, is_question: bool, status: int) -> None:
        with self._changed:
            (self.asked if is_question else self.deliveries).append(came)
            if not is_question and status in (200, HUGE):
                self.taken.append(came)
            self._changed.notify_all()

    def _agreement(self, came: Delivery) -> tuple[bytes, dict[str, str]]:
        if came.method == "OPTIONS":
            return b"", {"WebHook-Allowed-Origin": came.headers["WebHook-Request-Origin"]}
        code = came.message["data"]["validationCode"]
        return json.dumps({"validationResponse": code}).encode(), {}

    def _say(self, request: BaseHTTPRequestHandler, status: int) -> None:
        if status == HANG:
            self._closing.wait(SECONDS)
        elif status == HUGE:
            _reply(request, 200, b"x" * 10_000_000)
        elif status == DRIP:
            _reply(request, 200, b"", {"Content-Length": "100"})
            while not self._closing.is_set():
                request.wfile.write(b"x")
                time.sleep(0.05)
        elif 300 <= status < 400:
            _reply(request, status, b"", {"Location": f"http://localhost:{self.port}/elsewhere"})
        else:
            _reply(request, status)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        take = self._take

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                with suppress(OSError):  # the service does not wait for the rest
                    take(self)

            do_OPTIONS = do_POST  # noqa: N815

            def log_message(self, *_: object) -> None:
                """Tests are quiet."""

        return Handler


def _reply(
    request: BaseHTTPRequestHandler, status: int, body: bytes = b"", headers: dict[str, str] | None = None
) -> None:
    request.send_response(status)
    for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
        request.send_header(name, value)
    request.end_headers()
    request.wfile.write(body)
