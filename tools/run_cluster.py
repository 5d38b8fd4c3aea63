"""`make run-cluster`: PostgreSQL, three nodes and HAProxy, and a live view while leaders are killed."""

import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from duenotice.clock import monotonic

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = Path(sys.executable).with_name("duenotice")
BINARIES = Path("/usr/lib/postgresql/15/bin")
NAMES = ("a", "b", "c")
KILL_EVERY = 30.0
BALANCER = """
global
    maxconn 1000
defaults
    mode http
    timeout connect 1s
    timeout client 60s
    timeout server 60s
    retries 2
    option redispatch
    default-server check inter 200ms fall 1 rise 1
{fronts}
"""


def free_port() -> int:
    """A port that nobody has."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


class Cluster:
    """All the processes; each dies with us."""

    def __init__(self, folder: Path, open_things: ExitStack) -> None:
        self.folder, self._open = folder, open_things
        self.ports = {name: (free_port(), free_port()) for name in NAMES}
        self.fronts = (free_port(), free_port())
        self.nodes: dict[str, subprocess.Popen[bytes]] = {}
        self.killed = 0

    def start(self) -> None:
        """The database first, the balancer last."""
        self._start_database()
        for name in NAMES:
            self.start_node(name)
        self._start_balancer()

    def start_node(self, name: str) -> None:
        """One node, with a directory of its own."""
        metadata, operator = self.ports[name]
        url = f"postgresql://{_database_user()}@/postgres?host={self._sockets}"
        where = [f"--metadata-listen=127.0.0.1:{metadata}", f"--operator-listen=127.0.0.1:{operator}"]
        what = [f"--journal={url}", f"--node={name}", f"--data-dir={self.folder / name}", "--log-format=json"]
        vm = ["--default-vm=me", "--throttle=1000"]
        self.nodes[name] = self._run(f"node-{name}.log", [str(PROGRAM), "serve", *what, *where, *vm])

    def _start_database(self) -> None:
        self._sockets = Path(f"/tmp/duenotice-cluster-{os.getpid()}")  # a socket's path must be short
        self._sockets.mkdir(mode=0o700)
        self._open.callback(shutil.rmtree, self._sockets, ignore_errors=True)
        data = self._sockets / "data"
        if os.geteuid() == 0:
            shutil.chown(self._sockets, "postgres", "postgres")
        made = self._run("postgres.log", [*_as_user(), str(BINARIES / "initdb"), "-D", str(data), "-A", "trust"])
        if made.wait() != 0:
            raise SystemExit(f"error: initdb failed; see {self.folder / 'postgres.log'}")
        options = ["-D", str(data), "-k", str(self._sockets), "-c", "listen_addresses="]
        self._run("postgres.log", [*_as_user(), str(BINARIES / "postgres"), *options])
        ready = [str(BINARIES / "pg_isready"), "-q", "-h", str(self._sockets)]
        while subprocess.run(ready, check=False).returncode:
            time.sleep(0.1)

    def _start_balancer(self) -> None:
        fronts = ""
        for place, kind in enumerate(("vms", "operators")):
            fronts += f"listen {kind}\n    bind 127.0.0.1:{self.fronts[place]}\n    option httpchk GET /readyz\n"
            for name, ports in self.ports.items():
                fronts += f"    server {name} 127.0.0.1:{ports[place]} check port {ports[1]}\n"
        (self.folder / "haproxy.cfg").write_text(BALANCER.format(fronts=fronts))
        self._run("haproxy.log", ["haproxy", "-db", "-f", str(self.folder / "haproxy.cfg")])

    def _run(self, log: str, command: list[str]) -> "subprocess.Popen[bytes]":
        with (self.folder / log).open("ab") as out:
            process = subprocess.Popen(["setpriv", "--pdeathsig=KILL", *command], stdout=out, stderr=out, cwd="/tmp")
        self._open.callback(_end, process)
        return process

    def seen_by(self, name: str) -> dict[str, Any] | None:
        """What a node says of all nodes."""
        token = self.folder / name / "admin.token"
        try:
            headers = {"Authorization": f"Bearer {token.read_text().strip()}"}
            url = f"http://127.0.0.1:{self.ports[name][1]}/v1/nodes"
            with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=1) as answer:
                return dict(json.load(answer))
        except (OSError, ValueError):
            return None

    def kill_leader(self) -> None:
        """-9, and a new process five seconds later."""
        leader = next((seen["leader"] for name in NAMES if (seen := self.seen_by(name))), "")
        if leader:
            self.killed += 1
            self.nodes[leader].kill()
            self.nodes[leader].wait()
            time.sleep(5)
            self.start_node(leader)


class Vm:
    """A VM behind the balancer that polls ten times a second, and looks that nothing goes back."""

    def __init__(self, port: int) -> None:
        self.polls = self.failed = self.went_back = self.newest = 0
        self._url = f"http://127.0.0.1:{port}/metadata/scheduledevents?api-version=2020-07-01"
        threading.Thread(target=self._poll, daemon=True).start()

    def _poll(self) -> None:
        while True:
            try:
                with urllib.request.urlopen(
                    urllib.request.Request(self._url, headers={"Metadata": "true"}), timeout=3
                ) as got:
                    incarnation = int(json.load(got)["DocumentIncarnation"])
                self.polls += 1
                self.went_back += incarnation < self.newest
                self.newest = max(self.newest, incarnation)
            except (OSError, ValueError):
                self.failed += self.polls > 0  # until the first node is there, nobody can answer
            time.sleep(0.1)


def show(cluster: Cluster, vm: Vm) -> None:
    """One line for each node, and what the VM has read."""
    lines = [f"VMs ask http://127.0.0.1:{cluster.fronts[0]}   operators http://127.0.0.1:{cluster.fronts[1]}"]
    for name in NAMES:
        seen = cluster.seen_by(name)
        if seen is None:
            lines.append(f"  {name}  is down")
            continue
        says = "leads  " if seen["leader"] == name else "follows"
        lines.append(
            f"  {name}  {says}  epoch {seen['epoch']}  position {seen['shown']}/{seen['position']}"
            f"  may answer for {seen['right_for']:.1f} s"
        )
    lines.append(
        f"  leaders killed: {cluster.killed}   polls: {vm.polls}, failed {vm.failed}, went back {vm.went_back}"
    )
    clear = "\x1b[H\x1b[J" if sys.stdout.isatty() else ""
    print(clear + "\n".join(lines) + "\n  Ctrl-C ends everything.", flush=True)


def _database_user() -> str:
    return "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name


def _as_user() -> list[str]:
    """PostgreSQL refuses to be root."""
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def main(seconds: float) -> None:
    """Until Ctrl-C, or for some seconds."""
    for program in (str(BINARIES / "postgres"), "haproxy", "setpriv"):
        if shutil.which(program) is None:
            raise SystemExit(f"error: {program} is not there\n hint: install postgresql-15, haproxy and util-linux")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    folder = ROOT / ".run" / "cluster"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with ExitStack() as open_things:
        cluster = Cluster(folder, open_things)
        cluster.start()
        vm, end, next_kill = Vm(cluster.fronts[0]), monotonic() + seconds, monotonic() + KILL_EVERY
        while monotonic() < end:
            show(cluster, vm)
            if monotonic() >= next_kill:
                next_kill += KILL_EVERY
                threading.Thread(target=cluster.kill_leader, daemon=True).start()
            time.sleep(1)


if __name__ == "__main__":
    try:
        main(float(sys.argv[1]) if sys.argv[1:] else float("inf"))
    except KeyboardInterrupt:
        print("ended")
