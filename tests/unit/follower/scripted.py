"""A node for followers that says what a test wants, over real HTTP: one document of one VM, at some position."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from time import monotonic

import msgspec

from duenotice.domain.snapshot import Snapshot
from duenotice.store.codec import SNAPSHOTS
from duenotice.wire import replication as f

AT = datetime(2026, 1, 1, tzinfo=UTC)
LEASE = 600_000_000
"""Long: a test says when a right is over."""


class ScriptedNode:
    """`with ScriptedNode("a", position=5) as node:`; its stream says Hello, and then what is put into `says`."""

    def __init__(self, name: str, position: int, right: int = LEASE, lease: int = LEASE) -> None:
        self.name, self.position, self.right, self.lease = name, position, right, lease
        self.says: Queue[f.Line | None] = Queue()
        self.left = threading.Event()
        self.joined = threading.Event()
        self.beaten_at: list[float] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def beats(self) -> int:
        """How many there were."""
        return len(self.beaten_at)

    def __enter__(self) -> "ScriptedNode":
        return self

    def __exit__(self, *_: object) -> None:
        self.die()

    def die(self) -> None:
        """Its streams end, and nobody is there any more."""
        self._server.shutdown()
        self._server.server_close()
        self.says.put(None)

    def snapshot(self) -> f.FollowSnapshot:
        """Of a fleet without VMs."""
        row = SNAPSHOTS.pack(Snapshot(self.position, AT))
        return f.FollowSnapshot(self.name, row.position, row.format, row.crc, msgspec.Raw(row.payload))


def _handler(node: ScriptedNode) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """One request."""

        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if self.path.startswith("/v1/follow/snapshot"):
                self._answer(node.snapshot())
                return
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            node.joined.set()
            line: f.Line | None = f.Joined(node.position, node.lease, node.position)
            while line is not None:
                said = msgspec.json.encode(line) + b"\n"
                self.wfile.write(b"%x\r\n%b\r\n" % (len(said), said))
                line = node.says.get()
            self.close_connection = True

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            beat = msgspec.json.decode(body, type=f.FollowerBeat)
            node.beaten_at.append(monotonic())
            if beat.leaving:
                node.left.set()
            self._answer(f.Right(0 if beat.leaving else node.right, 0))

        def _answer(self, said: msgspec.Struct) -> None:
            data = msgspec.json.encode(said)
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    return Handler


Condition = Callable[[], bool]
