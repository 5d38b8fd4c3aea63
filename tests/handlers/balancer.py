"""A real HAProxy before two real web servers."""

import contextlib
import http.client
import http.server
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

from duenotice.agent.handlers.readiness import READINESS
from tests.handlers.contexts import SECONDS, wait_until
from tests.programs import require_program
from tests.support.ports import free_port

CONFIGURATION = """
global
    stats socket {folder}/admin.sock level admin
    stats socket 127.0.0.1:{admin} level admin
    stats socket {folder}/user.sock level user
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
    timeout check 10s
frontend front
    bind 127.0.0.1:{front}
    default_backend web
backend web
    balance roundrobin
    option httpchk GET /readyz
    default-server check inter 100ms fall 2 rise 1
    server web-0 127.0.0.1:{web0}
    server web-1 127.0.0.1:{web1}
"""


class Backend(http.server.ThreadingHTTPServer):
    """A web server that names itself; `/slow` answers when let go; `/readyz` of web-0 shows the agent's switch."""

    daemon_threads = True

    def __init__(self, name: str) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.name = name
        self.slow = 0
        self.let_go = threading.Event()

    def handle_error(self, *_: object) -> None:
        """A health check hangs up as soon as it knows enough."""


class Answering(http.server.BaseHTTPRequestHandler):
    server: Backend

    def do_GET(self) -> None:
        if self.path == "/slow":
            self.server.slow += 1
            assert self.server.let_go.wait(SECONDS)
        drained = self.path == "/readyz" and self.server.name == "web-0" and READINESS.is_drained
        body = self.server.name.encode()
        self.send_response(503 if drained else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class Balancer:
    """HAProxy before two backends."""

    def __init__(self, folder: Path, front: int, admin: int, backends: list[Backend]) -> None:
        self.socket, self.tcp = str(folder / "admin.sock"), f"127.0.0.1:{admin}"
        self.user_socket = str(folder / "user.sock")
        self.front, self.backends = front, backends

    def get(self, path: str = "/") -> tuple[int, str]:
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.front, timeout=SECONDS)) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def hold(self, count: int) -> list[threading.Thread]:
        """Clients whose requests have reached the backends and wait there."""
        clients = [threading.Thread(target=self.get, args=("/slow",)) for _ in range(count)]
        for client in clients:
            client.start()
        wait_until(lambda: sum(backend.slow for backend in self.backends) == count)
        return clients

    def let_go(self, clients: list[threading.Thread]) -> None:
        for backend in self.backends:
            backend.let_go.set()
        for client in clients:
            client.join(SECONDS)

    def serving(self) -> set[str]:
        """Who answers now: round robin shows every server in a few requests."""
        return {self.get()[1] for _ in range(6)}

    def command(self, text: str) -> str:
        with socket.socket(socket.AF_UNIX) as admin:
            admin.connect(self.socket)
            admin.sendall(text.encode() + b"\n")
            return b"".join(iter(lambda: admin.recv(65536), b"")).decode()

    def admin_state(self, server: str) -> int:
        lines = self.command("show servers state web").splitlines()[2:]
        return next(int(fields[6]) for fields in map(str.split, lines) if fields[3:4] == [server])


@contextlib.contextmanager
def serving(backend: Backend) -> Iterator[Backend]:
    threading.Thread(target=backend.serve_forever, args=(0.05,), daemon=True).start()
    with backend:
        yield backend
        backend.let_go.set()
        backend.shutdown()


@contextlib.contextmanager
def balancing(folder: Path) -> Iterator[Balancer]:
    """Run it until the block ends."""
    program = require_program("haproxy", "haproxy")
    with serving(Backend("web-0")) as one, serving(Backend("web-1")) as other, (folder / "log").open("w") as log:
        front, admin = free_port(), free_port()
        ports = {"web0": one.server_port, "web1": other.server_port, "front": front, "admin": admin}
        file = folder / "haproxy.cfg"
        file.write_text(CONFIGURATION.format(folder=folder, **ports))
        process = subprocess.Popen([program, "-db", "-f", str(file)], stdout=log, stderr=log)
        try:
            balancer = Balancer(folder, front, admin, [one, other])
            wait_until(lambda: Path(balancer.socket).exists() or process.poll() is not None)
            assert process.poll() is None, (folder / "log").read_text()
            wait_until(lambda: balancer.serving() == {"web-0", "web-1"})
            yield balancer
        finally:
            process.kill()
            process.wait()
