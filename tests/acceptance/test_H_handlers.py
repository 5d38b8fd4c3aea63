"""The six tasks of the notice, done by a real agent."""

import http.client
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agent.machine import Machine, metadata_endpoint
from tests.handlers.balancer import balancing
from tests.handlers.contexts import script, wait_until
from tests.support.node import Node
from tests.support.ports import free_port

pytestmark = pytest.mark.machine
FLEET = """
[[vms]]
name = "web-0"
address = "127.0.42.1"
"""
CONFIG = """
[metadata]
endpoint = "{{endpoint}}"
source_address = "{{address}}"
[approval]
policy = "own"
[status]
listen = "127.0.0.1:{port}"
[[rules]]
types = ["Reboot"]
handlers = ["log", "save", "drain", "hand-over", "leave", "stop"]
[handlers.save]
kind = "checkpoint"
pidfile = "{folder}/pid"
file = "{folder}/state"
settle = "100ms"
recover = ["{folder}/restore"]
[handlers.drain]
kind = "haproxy"
socket = "{socket}"
servers = ["web/web-0"]
[handlers.hand-over]
kind = "command"
prepare = ["{folder}/demote"]
recover = ["{folder}/promote"]
[handlers.leave]
kind = "readiness"
settle = "100ms"
[handlers.log]
kind = "log"
to = "file"
path = "{folder}/events.jsonl"
[handlers.stop]
kind = "shutdown"
steps = [ {{{{ stop = ["{folder}/stop"], start = ["{folder}/start"] }}}} ]
"""
SAVES = """
import os, signal, sys
signal.signal(signal.SIGUSR1, lambda *_: open(sys.argv[1], "w").write("saved"))
open(sys.argv[2], "w").write(str(os.getpid()))
while True:
    signal.pause()
"""


def _ready(port: int) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", "/readyz")
    with connection.getresponse() as answer:
        status = answer.status
    connection.close()
    return status


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def test_H02_the_six_tasks_are_done_in_the_notice_and_undone_after_it(tmp_path):
    """State saved, connections drained, primary moved, pool left, event logged, services stopped; then all put back."""
    said, state, port = tmp_path / "said", tmp_path / "state", free_port()
    for name in ("demote", "promote", "stop", "start", "restore"):
        script(tmp_path / name, f"#!/bin/sh\necho {name} >>{said}\n")
    saver = subprocess.Popen([sys.executable, "-c", SAVES, str(state), str(tmp_path / "pid")])
    try:
        wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
        with balancing(tmp_path) as balancer, Node(FLEET) as node:
            config = CONFIG.format(folder=tmp_path, socket=balancer.socket, port=port)
            with Machine(tmp_path / "vm", metadata_endpoint(node), "127.0.42.1", config=config) as machine:
                node.enable("web-0")
                event_id = node.schedule("Reboot", "web-0").upper()
                machine.start()
                machine.until(lambda: node.statuses("web-0") == ["Started"])
                assert state.read_text() == "saved"
                assert balancer.serving() == {"web-1"}
                assert _ready(port) == 503
                assert _lines(said) == ["demote", "stop"]
                assert [json.loads(line)["phase"] for line in _lines(tmp_path / "events.jsonl")] == ["prepare"]

                node.advance("20m")
                machine.until(lambda: machine.is_over(event_id))
                assert balancer.serving() == {"web-0", "web-1"}
                assert _ready(port) == 200
                assert sorted(_lines(said)[2:]) == ["promote", "restore", "start"]
                assert [json.loads(line)["phase"] for line in _lines(tmp_path / "events.jsonl")] == [
                    "prepare",
                    "recover",
                ]
    finally:
        saver.kill()
        saver.wait()
