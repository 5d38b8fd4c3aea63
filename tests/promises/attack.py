"""A real node under attack at its operator's port, with a VM that polls meanwhile and what the node needs of memory."""

import http.client
import json
import resource
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.crash.server import Server
from tests.promises.prober import Polls, Prober
from tests.promises.stalls.fleet import only_the_poller
from tests.support.certificates import Certificates

SLOWEST_SECONDS = 0.25
RAISED_BYTES = 100 * 1024 * 1024
SECONDS = 60.0
"""Against hangs."""


@dataclass
class Seen:
    """What came of an attack."""

    polls: Polls = field(default_factory=Polls)
    raised: int = 0
    """Bytes of memory at the most, above what the node had before."""


class Attacked:
    """A node, its admin, and the means of an attack; `with` ends all of it."""

    def __init__(self, folder: Path, certificates: Certificates | None = None, fleet: str = "") -> None:
        self._own = ExitStack()
        own_fleet = folder / "fleet.toml"
        own_fleet.write_text(only_the_poller() + fleet)
        more = (
            {}
            if certificates is None
            else {
                "operator_cert_file": certificates.certificate,
                "operator_key_file": certificates.key,
            }
        )
        self._tls = None if certificates is None else ssl.create_default_context(cafile=str(certificates.ca))
        self.server = Server(folder / "data", own_fleet, **more)
        self._own.callback(self.server.kill)
        self.server.wait_until_serving()
        self._prober = self._own.enter_context(Prober(self.server.metadata))

    def __enter__(self) -> "Attacked":
        return self

    def __exit__(self, *_: object) -> None:
        self._own.close()

    def ask(
        self, method: str, path: str, body: Any = None, token: str | None = None, **headers: str
    ) -> tuple[int, bytes]:
        """One request of its own connection; the admin's, unless another token is given, or the empty one for none."""
        host, port = self.server.operator
        kinds = http.client.HTTPConnection if self._tls is None else http.client.HTTPSConnection
        more: dict[str, Any] = {} if self._tls is None else {"context": self._tls}
        connection = kinds(host, port, timeout=SECONDS, **more)
        token = self.server.token if token is None else token
        given = {"Authorization": f"Bearer {token}"} if token else {}
        payload = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        try:
            connection.request(method, path, payload, given)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def token(self, name: str, role: str) -> str:
        """A new token."""
        status, body = self.ask("POST", "/v1/tokens", {"name": name, "role": role})
        assert status == 201, body
        return str(json.loads(body)["token"])

    def cookie(self, token: str) -> str:
        """What a browser sends that has signed in with a token."""
        form = f"token={token}".encode()
        host, port = self.server.operator
        connection = http.client.HTTPConnection(host, port, timeout=SECONDS)
        try:
            connection.request("POST", "/sign-in", form, {"Content-Type": "application/x-www-form-urlencoded"})
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 303
            return str(answer.headers["set-cookie"]).partition(";")[0]
        finally:
            connection.close()

    def silent(self, sent: bytes = b"", address: str = "127.0.0.1") -> socket.socket:
        """A connection of somebody who sends this and never reads; closed in the end."""
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(SECONDS)
        client.bind((address, 0))
        client.connect(self.server.operator)
        client.sendall(sent)
        self._own.callback(client.close)
        return client

    def quiet(self, seconds: float) -> Polls:
        """What polls take when nobody attacks."""
        return self._prober.idle(seconds)

    @contextmanager
    def watched(self) -> Iterator[Seen]:
        """How polls and the memory of the node are while the block runs."""
        process = Path(f"/proc/{self.server.pid}")
        (process / "clear_refs").write_text("5")  # the peak is counted from now on
        seen, before = Seen(), _bytes(process, "VmRSS")
        with self._prober.watching(tail=0.2) as watch:
            watch.grace = SECONDS
            yield seen
        seen.polls, seen.raised = watch.polls, _bytes(process, "VmHWM") - before

    def descriptors(self) -> int:
        """How many the node has open."""
        return len(list(Path(f"/proc/{self.server.pid}/fd").iterdir()))


def get(path: str, token: str = "", cookie: str = "") -> bytes:
    """The bytes of a request; the name of a cookie ends with the port that it is for."""
    host = f"x:{cookie.partition('=')[0].rpartition('_')[2]}" if cookie else "x"
    who = f"Authorization: Bearer {token}\r\n" if token else f"Cookie: {cookie}\r\n" if cookie else ""
    return f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{who}\r\n".encode()


def post(method: str, path: str, token: str, body: bytes) -> bytes:
    """The bytes of a request with a body."""
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def many_descriptors(count: int) -> None:
    """Let this process have so many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, count)), hard))


def _bytes(process: Path, what: str) -> int:
    lines = (process / "status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{what}:"))
