"""Texts that do harm where they are shown raw, and a service in whose answers every text is such a one."""

import contextlib
import http.client
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from tests.support.node import Outside

MARKUP = "[bold]loud[/bold] [link=http://evil.test]here[/link] [/nope]"
"""What rich reads as a style where it may."""

POISON = (
    f"{MARKUP} \x1b]0;owned\x07\x1b[6n\x1b[2J \x9b31m \x85 \r\nerror: forged\t\x7f"
    "\u202eeurt\u202c \u2067x\u2069 \u200f\u061c \u2028\u2029 \u200b\u2060\ufeff\u3164 \U000e0041 \ud800"
)
RAW = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\u3164\ufeff\U000e0000-\U000e007f]"
)
"""What may reach nobody's eyes; line ends and tabs are looked at where they matter."""

WIRE = POISON.replace("\ud800", "")
"""The same as JSON in UTF-8 can carry it."""

_KEPT = {"id", "event_id", "now", "next", "phase", "status", "type", "action", "state", "change", "kind"}
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT.*")


class Poisoned:
    """`with Poisoned(node) as bad:` — passes requests on to a node, and spoils every text of the answers."""

    def __init__(self, node: Outside, text: str = POISON) -> None:
        self.token = node.token
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(node.operator_address, text))
        self._server.daemon_threads = True
        self.operator_address = ("127.0.0.1", self._server.server_address[1])

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def poisoned(value: Any, text: str = POISON) -> Any:
    """The same thing with every text spoiled that need not be understood."""
    if isinstance(value, dict):
        kept = {key: value[key] for key in value.keys() & _KEPT}
        return {key: poisoned(inner, text) for key, inner in value.items()} | kept
    if isinstance(value, list):
        return [poisoned(inner, text) for inner in value]
    return value + text if isinstance(value, str) and value and not _MOMENT.fullmatch(value) else value


def _handler(node: tuple[str, int], text: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            given = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection")}
            connection = http.client.HTTPConnection(*node, timeout=60)
            with contextlib.closing(connection), contextlib.suppress(OSError):
                connection.request(self.command, self.path, body, given)
                with connection.getresponse() as answer:
                    self._pass_on(answer)

        def _pass_on(self, answer: http.client.HTTPResponse) -> None:
            self.send_response(answer.status)
            self.end_headers()
            if answer.getheader("content-type", "").startswith("text/event-stream"):
                while line := answer.readline():
                    self._line(line)
            elif found := answer.read():
                self.wfile.write(json.dumps(poisoned(json.loads(found), text)).encode())

        def _line(self, line: bytes) -> None:
            if line.startswith(b"data: "):
                line = b"data: " + json.dumps(poisoned(json.loads(line[6:]), text)).encode() + b"\n"
            self.wfile.write(line)
            self.wfile.flush()

        do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler
