"""`haproxy` and `readiness` against a real HAProxy with real backends."""

import asyncio
import contextlib
import http.client
import http.server
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from duenotice.agent.handlers.base import HandlerFailed, TryAgain
from duenotice.agent.handlers.loading import load
from duenotice.agent.readiness import SWITCH
from tests.handlers.occasions import (
    NOTES,
    SECONDS,
    cancelled_when,
    occasion,
    prepare,
    prepare_killed,
    recover,
    wait_until,
)
from tests.programs import require_program

pytestmark = pytest.mark.serial
CONFIGURATION = """
global
    stats socket {folder}/admin.sock level admin
    stats socket 127.0.0.1:{admin} level admin
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
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
        drained = self.path == "/readyz" and self.server.name == "web-0" and SWITCH.is_drained
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


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def serving(backend: Backend) -> Iterator[Backend]:
    threading.Thread(target=backend.serve_forever, args=(0.05,), daemon=True).start()
    with backend:
        yield backend
        backend.let_go.set()
        backend.shutdown()


@pytest.fixture
def balancer(tmp_path):
    program = require_program("haproxy", "haproxy")
    with serving(Backend("web-0")) as one, serving(Backend("web-1")) as other:
        front, admin = free_port(), free_port()
        ports = {"web0": one.server_port, "web1": other.server_port, "front": front, "admin": admin}
        file = tmp_path / "haproxy.cfg"
        file.write_text(CONFIGURATION.format(folder=tmp_path, **ports))
        with (tmp_path / "log").open("w") as log:
            process = subprocess.Popen([program, "-db", "-f", str(file)], stdout=log, stderr=log)
            try:
                balancer = Balancer(tmp_path, front, admin, [one, other])
                wait_until(lambda: Path(balancer.socket).exists() or process.poll() is not None)
                assert process.poll() is None, (tmp_path / "log").read_text()
                wait_until(lambda: balancer.serving() == {"web-0", "web-1"})
                yield balancer
            finally:
                process.kill()
                process.wait()


def _keys(balancer: Balancer, **more: object) -> dict:
    return {"servers": ["web/web-0"], "socket": balancer.socket, **more}


@pytest.mark.parametrize("way", ["socket", "tcp"])
def test_it_drains_and_puts_back(balancer, way):
    """After prepare new requests go elsewhere, after recover they come again; twice is as once."""
    keys, notes = _keys(balancer, socket=getattr(balancer, way)), NOTES()
    prepare("haproxy", notes, **keys)
    prepare("haproxy", notes, **keys)
    assert balancer.serving() == {"web-1"}
    recover("haproxy", notes, **keys)
    recover("haproxy", notes, **keys)
    assert balancer.serving() == {"web-0", "web-1"}


def test_requests_in_flight_finish(balancer):
    """Prepare returns only when the last request has its answer."""
    answers: list[tuple[int, str]] = []
    clients = [threading.Thread(target=lambda: answers.append(balancer.get("/slow"))) for _ in range(4)]
    for client in clients:
        client.start()
    wait_until(lambda: sum(backend.slow for backend in balancer.backends) == 4)
    waiting = threading.Thread(target=prepare, args=("haproxy", NOTES()), kwargs=_keys(balancer))
    waiting.start()
    wait_until(lambda: balancer.admin_state("web-0"))
    balancer.backends[1].let_go.set()
    assert waiting.is_alive()
    balancer.backends[0].let_go.set()
    for thread in (waiting, *clients):
        thread.join(SECONDS)
    assert sorted(answers) == [(200, "web-0")] * 2 + [(200, "web-1")] * 2


def test_sessions_that_do_not_end_are_a_failure_unless_there_is_a_limit(balancer):
    """Without a limit all must end in the time there is; with one, going on is good enough."""
    clients = balancer.hold(2)
    with pytest.raises(HandlerFailed, match="sessions of web/web-0"):
        asyncio.run(load("it", "haproxy", _keys(balancer)).prepare(occasion({}, seconds=0.5)))
    prepare("haproxy", {}, **_keys(balancer, limit="100ms"))
    assert balancer.backends[0].slow == 1
    balancer.let_go(clients)


@pytest.mark.parametrize("state", ["drain", "maint"])
def test_what_somebody_else_took_out_stays_out(balancer, state):
    """A state that was there before is not ours to undo."""
    balancer.command(f"set server web/web-0 state {state}")
    before, notes = balancer.admin_state("web-0"), NOTES()
    prepare("haproxy", notes, **_keys(balancer))
    recover("haproxy", notes, **_keys(balancer))
    assert balancer.admin_state("web-0") == before


def test_what_somebody_took_out_meanwhile_stays_out(balancer):
    """An operator's maintenance during the event outlives our recover."""
    notes = NOTES()
    prepare("haproxy", notes, **_keys(balancer))
    balancer.command("set server web/web-0 state maint")
    recover("haproxy", notes, **_keys(balancer))
    assert balancer.serving() == {"web-1"}


@pytest.mark.parametrize("written", [False, True])
def test_recover_after_a_kill_at_the_note(balancer, written):
    """Nothing stays drained (S15)."""
    notes = NOTES()
    assert asyncio.run(prepare_killed("haproxy", notes, 1, written, **_keys(balancer)))
    recover("haproxy", notes, **_keys(balancer))
    assert balancer.serving() == {"web-0", "web-1"}


def test_recover_after_a_cancel_while_draining(balancer):
    """Cut while sessions last: recover puts the server back (S15)."""
    clients = balancer.hold(2)
    notes = NOTES()
    verb = load("it", "haproxy", _keys(balancer)).prepare(occasion(notes))
    asyncio.run(cancelled_when(verb, lambda: balancer.admin_state("web-0") != 0))
    recover("haproxy", notes, **_keys(balancer))
    assert balancer.admin_state("web-0") == 0
    balancer.let_go(clients)


def test_mistakes_are_told(balancer, tmp_path):
    """A server that HAProxy does not have, and a socket where nobody is."""
    with pytest.raises(HandlerFailed, match="no server web/web-9") as caught:
        prepare("haproxy", {}, **_keys(balancer, servers=["web/web-9"]))
    assert "web/web-0, web/web-1" in caught.value.hint
    with pytest.raises(TryAgain, match="does not answer"):
        prepare("haproxy", {}, **_keys(balancer, socket=str(tmp_path / "nothing")))


def test_readiness_makes_a_health_check_take_us_out(balancer):
    """`readiness` alone: HAProxy's own check sees 503 and sends nothing more, and the way back opens it."""
    notes = NOTES()
    prepare("readiness", notes, settle="800ms")
    try:
        assert balancer.serving() == {"web-1"}
    finally:
        recover("readiness", notes)
        recover("readiness", notes)
    wait_until(lambda: balancer.serving() == {"web-0", "web-1"})


@pytest.mark.parametrize("written", [False, True])
def test_readiness_comes_back_from_a_kill(written):
    """Killed at its note, recover leaves the machine ready (S15)."""
    notes = NOTES()
    assert asyncio.run(prepare_killed("readiness", notes, 1, written, settle="0s"))
    recover("readiness", notes)
    assert not SWITCH.is_drained
