"""A request whose answer a kill -9 took, sent again with its key, is done once (S6)."""

import contextlib
import http.client
import json
import random
import socket
from pathlib import Path
from typing import Any

from tests.crash.server import Server
from tests.support.seed import SEED

FLEET = '[[vms]]\nname = "db-0"\naddress = "127.0.1.10"\n'
BODY = json.dumps({"type": "Reboot", "resources": ["db-0"]}).encode()
PATIENCE = (None, None, 0.0, 0.0, 0.001, 0.001, 0.003, 0.003)
"""Seconds until each kill; None: until the answer begins, so that some rounds always prove what is done once."""
SECONDS = 30


def test_a_request_that_is_sent_again_after_a_kill_is_done_once(tmp_path: Path) -> None:
    """Killed somewhere between the last byte of the request and the first of the answer, or just behind it."""
    fleet = tmp_path / "fleet.toml"
    chance = random.Random(SEED)
    fleet.write_text(FLEET)
    replayed = []
    for number, patience in enumerate(chance.sample(PATIENCE, len(PATIENCE)), 1):
        with serving(tmp_path / "data", fleet) as server:
            send_and_look_away(server, f"key-{number}", patience)
        with serving(tmp_path / "data", fleet) as server:
            status, headers, _ = call(server, "POST", "/v1/events", f"key-{number}")
            replayed.append("Idempotent-Replayed" in headers)
            raised = call(server, "GET", "/v1/audit?action=event-raised")[2]["items"]
            assert (status, len(raised)) == (201, number), f"DUENOTICE_SEED={SEED}, {replayed}"
    assert any(replayed), f"DUENOTICE_SEED={SEED}: no round was killed late enough to prove anything"


@contextlib.contextmanager
def serving(data_dir: Path, fleet: Path) -> Any:
    """A server that is killed at the end."""
    server = Server(data_dir, fleet)
    try:
        server.wait_until_serving()
        yield server
    finally:
        server.kill()


def send_and_look_away(server: Server, key: str, patience: float | None) -> None:
    """Send a whole request and wait so long for the first byte of its answer, None for ever."""
    head = f"POST /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.token}\r\nIdempotency-Key: {key}\r\n"
    with socket.create_connection(server.operator, SECONDS) as line:
        line.sendall(f"{head}Content-Length: {len(BODY)}\r\n\r\n".encode() + BODY)
        line.settimeout(patience or (SECONDS if patience is None else 0.000001))
        with contextlib.suppress(TimeoutError, BlockingIOError):
            line.recv(1)


def call(server: Server, method: str, path: str, key: str = "") -> tuple[int, Any, Any]:
    """One call that is answered."""
    headers = {"Authorization": f"Bearer {server.token}"} | ({"Idempotency-Key": key} if key else {})
    with contextlib.closing(http.client.HTTPConnection(*server.operator, timeout=SECONDS)) as connection:
        connection.request(method, path, BODY if key else None, headers)
        answer = connection.getresponse()
        return answer.status, answer.headers, json.loads(answer.read())
