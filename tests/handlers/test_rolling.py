"""End to end: a maintenance rolls through an availability set, and nobody outside notices."""

import contextlib
import http.client
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from duenotice.agent.ledger import read_events
from tests.handlers.contexts import script, wait_until
from tests.programs import require_program
from tests.support.namespaces import METADATA_ADDRESS, Machine, Server, plug_in, serving

pytestmark = pytest.mark.machine
SECONDS = 30.0
ADDRESSES = {"web-0": "10.0.0.1", "web-1": "10.0.0.2", "web-2": "10.0.0.3"}
BALANCER = "10.0.0.9"
FLEET = """
[[availability_sets]]
name = "web"
update_domains = 2
vms = [
  { name = "web-0", address = "10.0.0.1", update_domain = 0 },
  { name = "web-1", address = "10.0.0.2", update_domain = 0 },
  { name = "web-2", address = "10.0.0.3", update_domain = 1 },
]
"""
HAPROXY = """
global
    stats socket {balancer}:9999 level admin
defaults
    mode http
    retries 0
    timeout connect 2s
    timeout client 10s
    timeout server 10s
listen web
    bind {balancer}:80
    balance roundrobin
"""
AGENT = """
[metadata]
endpoint = "http://{metadata}"
[approval]
policy = "all-ready"
[approval.peers]
key_file = "{folder}/key"
[approval.peers.addresses]
{peers}
[[rules]]
types = ["Reboot"]
handlers = ["drain", "hold"]
[handlers.drain]
kind = "haproxy"
socket = "{balancer}:9999"
servers = ["web/{name}"]
[handlers.hold]
kind = "command"
prepare = ["{folder}/hold"]
"""
BACKEND = """
import http.server, sys, time
class Answering(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        time.sleep(0.02)
        self.send_response(200)
        self.send_header("Content-Length", str(len(sys.argv[1])))
        self.end_headers()
        self.wfile.write(sys.argv[1].encode())
    def log_message(self, *_): pass
http.server.ThreadingHTTPServer((sys.argv[2], 80), Answering).serve_forever()
"""


class Vm:
    """A machine with a backend and an agent, both of which a reboot ends."""

    def __init__(self, machine: Machine, folder: Path) -> None:
        self.machine, self.folder, self.address = machine, folder, ADDRESSES[machine.name]
        self.let_go = folder / "let-go"
        self._running = contextlib.ExitStack()
        self._processes: list[subprocess.Popen[str]] = []
        folder.mkdir(mode=0o700)
        (folder / "key").write_text("a key that all three of them share")
        (folder / "key").chmod(0o600)
        script(folder / "hold", f"#!/bin/sh\nuntil [ -e {self.let_go} ]; do sleep 0.05; done\n")
        peers = "\n".join(f'{name} = "http://{address}:9707"' for name, address in ADDRESSES.items())
        values = {"metadata": METADATA_ADDRESS, "balancer": BALANCER, "folder": folder, "peers": peers}
        (folder / "agent.toml").write_text(AGENT.format(name=machine.name, **values))

    def start(self) -> None:
        """Boot: the backend answers before this returns."""
        python = ["env", f"PYTHONPATH={os.pathsep.join(sys.path)}", sys.executable]
        agent = ["-m", "duenotice", "agent", "run", "--config", f"{self.folder}/agent.toml"]
        state = ["--state-dir", f"{self.folder}/state"]
        backend = [*python, "-c", BACKEND, self.machine.name, self.address]
        for number, command in enumerate((backend, [*python, *agent, *state])):
            log = self.folder / f"log-{number}"
            self._processes.append(self._running.enter_context(self.machine.running(*command, log=log)))
        wait_until(lambda: self.machine.call(lambda: _get(self.address)) == self.machine.name)

    def stop(self) -> None:
        """The power is gone: kill -9."""
        for process in self._processes:
            process.kill()
        self._processes.clear()
        self._running.close()

    def events(self) -> list[Any]:
        return list(read_events(self.folder / "state").values())

    def is_prepared(self, handler: str) -> bool:
        return any(tracked.runs.get(handler) and tracked.runs[handler].state == "prepared" for tracked in self.events())


class Client(threading.Thread):
    """Asks the balancer again and again, and remembers every answer; what is no answer is a failure."""

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self._machine, self._ended = machine, threading.Event()
        self.answers: list[str] = []

    def run(self) -> None:
        self._machine.call(self._ask)

    def _ask(self) -> None:
        while not self._ended.is_set():
            self.answers.append(_get(BALANCER))

    def fresh(self) -> set[str]:
        """Who answers from now on."""
        return set(self.go_on(9)[1:])

    def go_on(self, count: int) -> list[str]:
        """The next so many answers."""
        since = len(self.answers)
        wait_until(lambda: len(self.answers) >= since + count)
        return self.answers[since : since + count]

    def __enter__(self) -> "Client":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.join()


def _get(address: str) -> str:
    try:
        with contextlib.closing(http.client.HTTPConnection(address, 80, timeout=5)) as connection:
            connection.request("GET", "/")
            answer = connection.getresponse()
            return answer.read().decode() if answer.status == 200 else f"status {answer.status}"
    except (OSError, http.client.HTTPException) as error:
        return f"failed: {error!r}"


@contextlib.contextmanager
def world(folder: Path) -> Iterator[tuple[Server, dict[str, Vm], Machine]]:
    """The service, three VMs and a balancer, all on one network."""
    with contextlib.ExitStack() as made:
        cloud = made.enter_context(Machine("cloud"))
        cloud.run("sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")  # of this namespace only
        front = made.enter_context(Machine("front"))
        _join(front, BALANCER, cloud)
        vms = {}
        for name, address in ADDRESSES.items():
            machine = made.enter_context(Machine(name))
            _join(machine, address, cloud)
            vms[name] = Vm(machine, folder / name)
        server = made.enter_context(serving(cloud, FLEET, folder))
        lines = [f"    server {name} {address}:80" for name, address in ADDRESSES.items()]
        (folder / "haproxy.cfg").write_text(HAPROXY.format(balancer=BALANCER) + "\n".join(lines) + "\n")
        haproxy = [require_program("haproxy", "haproxy"), "-db", "-f", f"{folder}/haproxy.cfg"]
        for vm in vms.values():
            made.callback(vm.stop)
            vm.start()
        made.enter_context(front.running(*haproxy, log=folder / "haproxy.log"))
        wait_until(lambda: front.call(lambda: _get(BALANCER)) in ADDRESSES)
        yield server, vms, front


def _join(machine: Machine, address: str, cloud: Machine) -> None:
    plug_in(machine, address, cloud)
    machine.ip(f"route add 10.0.0.0/24 via {METADATA_ADDRESS} dev eth0 onlink")


def _live(server: Server) -> list[tuple[list[str], str]]:
    """The events that are not over: whom they hit, and whether they have started."""
    events = server.operate("/v1/events", method="GET")
    return [(each["resources"], each["phase"]) for each in events if each["phase"] in ("scheduled", "started")]


def _wait_for_work(vm: Vm, handler: str) -> None:
    wait_until(lambda: vm.is_prepared(handler), SECONDS)


def _roll(server: Server, vms: list[Vm], client: Client) -> None:
    """One update domain: told, drained, approved early but not before all are ready, rebooted."""
    names = [vm.machine.name for vm in vms]
    others = set(ADDRESSES) - set(names)
    for vm in vms:
        _wait_for_work(vm, "drain")
    assert client.fresh() == others
    for vm in vms[:-1]:
        vm.let_go.touch()
        _wait_for_work(vm, "hold")
    client.go_on(100)  # the leader has asked the last one meanwhile, more than once
    assert _live(server) == [(names, "scheduled")]
    vms[-1].let_go.touch()
    wait_until(lambda: _live(server) == [(names, "started")], SECONDS)  # and the clock has stood still
    for vm in vms:
        vm.stop()
    assert client.fresh() == others
    for vm in vms:
        vm.start()


def test_a_rolling_maintenance_is_noticed_by_nobody(tmp_path):
    """No request of a steady client fails, events start early but never before all are ready, all backends return."""
    with world(tmp_path) as (server, vms, front), Client(front) as client:
        assert client.fresh() == set(ADDRESSES)
        server.operate("/v1/maintenances", {"on": ["set=web"], "type": "Reboot", "settle": "5m"})
        for names in (["web-0", "web-1"], ["web-2"]):
            _roll(server, [vms[name] for name in names], client)
            server.operate("/v1/clock/advance", {"by": "10m"})
            wait_until(lambda: client.fresh() == set(ADDRESSES), SECONDS)
            server.operate("/v1/clock/advance", {"by": "5m"})
        assert _live(server) == []
    failed = [answer for answer in client.answers if answer not in ADDRESSES]
    assert (failed, len(client.answers) > 100) == ([], True)
