"""Real PostgreSQL servers: one alone, or two under Patroni and etcd. They refuse to be root: they are postgres."""

import atexit
import contextlib
import functools
import json
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import threading
import urllib.request
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.handlers.contexts import wait_until
from tests.programs import require_program
from tests.support.ports import free_port

BINARIES = "/usr/lib/postgresql/15/bin"
NODES = ("db-0", "db-1")
_AS_POSTGRES = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
# A PID namespace: what runs in it dies with it, and it dies with us, even if we are killed.
_BOX = ["setpriv", "--pdeathsig=KILL", "unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
_PATRONI = """
scope: test
name: {name}
etcd3: {{host: "127.0.0.1:{etcd}"}}
restapi: {{listen: "127.0.0.1:{rest}", connect_address: "127.0.0.1:{rest}"}}
bootstrap:
  dcs: {{ttl: 20, loop_wait: 1, retry_timeout: 3, postgresql: {{parameters: {{fsync: "off", max_connections: 20}}}}}}
  initdb: [{{encoding: UTF8}}, {{auth-local: trust}}, {{auth-host: trust}}, no-sync]
postgresql:
  listen: "127.0.0.1:{port}"
  connect_address: "127.0.0.1:{port}"
  data_dir: "{folder}/{name}"
  bin_dir: "{binaries}"
  pgpass: "{folder}/{name}.pgpass"
  authentication:
    replication: {{username: postgres, password: x}}
    superuser: {{username: postgres, password: x}}
  parameters: {{unix_socket_directories: "{folder}"}}
  pg_hba: ["local all all trust", "host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"]
"""


def require_postgresql() -> None:
    """Skip where there is no server, or where we cannot become its user."""
    require_program(f"{BINARIES}/postgres", "postgresql-15")
    require_program("setpriv", "util-linux")
    if os.geteuid() != 0:
        pytest.skip("needs to be root to become the user postgres")


@contextlib.contextmanager
def folder_of_postgres() -> Iterator[Path]:
    """A folder that the user postgres can reach and own; pytest's are for their maker only."""
    account = pwd.getpwnam("postgres")
    folder = Path(tempfile.mkdtemp(prefix="duenotice-postgres-"))
    try:
        os.chown(folder, account.pw_uid, account.pw_gid)
        yield folder
    finally:
        shutil.rmtree(folder)


@contextlib.contextmanager
def as_postgres(folder: Path, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program that runs as postgres until the block ends, and dies with us."""
    drop = [*_AS_POSTGRES, "--pdeathsig=KILL", *command]
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(drop, env=_environment(folder), cwd=folder, stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _environment(folder: Path) -> dict[str, str]:
    return {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "HOME": str(folder)}


def make_data(folder: Path) -> None:
    """A data directory in `folder`; a copy, because to make one takes ten times as long."""
    subprocess.run(["cp", "-a", f"{_model()}/data", folder], check=True, timeout=60)


@functools.cache
def _model() -> Path:
    """The folder with the data directory that others are copies of."""
    until_the_end = contextlib.ExitStack()
    atexit.register(until_the_end.close)
    folder = until_the_end.enter_context(folder_of_postgres())
    with as_postgres(folder, f"{BINARIES}/initdb", "-D", f"{folder}/data", "-A", "trust", "--no-sync") as made:
        assert made.wait(60) == 0, (folder / "log").read_text()
    return folder


def psql(connection: str, query: str) -> str:
    """Ask a server without our code; nor Debian's, whose psql is a program in Perl that starts this one."""
    command = [f"{BINARIES}/psql", "-XqAt", "-w", "-v", "ON_ERROR_STOP=1", "-d", connection, "-c", query]
    done = subprocess.run(command, capture_output=True, text=True, timeout=15)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout.strip()


@contextlib.contextmanager
def postgresql(*options: str, port: int = 5432) -> Iterator[str]:
    """One server, with settings such as fsync=off; how to connect to it by its socket."""
    require_postgresql()
    with folder_of_postgres() as folder:
        make_data(folder)
        server = [f"{BINARIES}/postgres", "-D", f"{folder}/data", "-k", str(folder), "-c", "listen_addresses="]
        server += [word for option in (f"port={port}", *options) for word in ("-c", option)]
        connection = f"host={folder} port={port} user=postgres dbname=postgres"
        with as_postgres(folder, *server):
            wait_until(lambda: answers(connection))
            yield connection


def answers(connection: str) -> bool:
    with contextlib.suppress(RuntimeError):
        return psql(connection, "SELECT 1") == "1"
    return False


class Promotion(NamedTuple):
    """A line of Patroni's history."""

    leader: str
    at: datetime


class Cluster:
    """Two nodes under Patroni, each of which can lose its power."""

    def __init__(self, folder: Path, etcd: int) -> None:
        self._folder = folder
        self._ports = {name: free_port() for name in NODES}
        self._rests = {name: free_port() for name in NODES}
        self._boxes: dict[str, subprocess.Popen[bytes]] = {}
        for name in NODES:
            values = {"rest": self._rests[name], "port": self._ports[name], "folder": folder, "binaries": BINARIES}
            (folder / f"{name}.yml").write_text(_PATRONI.format(name=name, etcd=etcd, **values))

    def power_on(self, name: str) -> None:
        """Patroni and its server in a box of their own."""
        with (self._folder / "log").open("ab") as log:
            command = [*_BOX, *_AS_POSTGRES, "patroni", str(self._folder / f"{name}.yml")]
            self._boxes[name] = subprocess.Popen(
                command, env=_environment(self._folder), cwd=self._folder, stdout=log, stderr=log
            )

    def power_off(self, name: str) -> None:
        """kill -9 of everything in the box, at once; returns when nothing of it is left."""
        box = self._boxes.pop(name, None)
        if box is not None:
            for child in Path(f"/proc/{box.pid}/task/{box.pid}/children").read_text().split():
                os.kill(int(child), signal.SIGKILL)  # the first process of a PID namespace takes all others with it
            box.wait(15)

    def url(self, name: str) -> str:
        """The REST API of a node."""
        return f"http://127.0.0.1:{self._rests[name]}"

    @property
    def writable(self) -> str:
        """How a client connects to whoever leads."""
        ports = ",".join(map(str, self._ports.values()))
        hosts = ",".join("127.0.0.1" for _ in self._ports)
        return (
            f"host={hosts} port={ports} user=postgres dbname=postgres target_session_attrs=read-write connect_timeout=2"
        )

    def connection(self, name: str) -> str:
        """How to connect to one node."""
        return f"host=127.0.0.1 port={self._ports[name]} user=postgres dbname=postgres"

    def members(self) -> dict[str, dict[str, Any]]:
        """What Patroni says of each."""
        for name in self._rests:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.url(name)}/cluster", timeout=5) as answer:
                return {member["name"]: member for member in json.load(answer)["members"]}
        return {}

    def leader(self) -> str:
        """Who leads; empty when nobody does."""
        return next((name for name, member in self.members().items() if member["role"] == "leader"), "")

    def is_whole(self) -> bool:
        """A leader, and a replica that streams; Patroni calls one running that does not, so the leader is asked."""
        roles = sorted((each["role"], each["state"]) for each in self.members().values())
        if roles != [("leader", "running"), ("replica", "running")]:
            return False
        with contextlib.suppress(RuntimeError):
            return psql(self.writable, "SELECT state FROM pg_stat_replication") == "streaming"
        return False

    def switchovers(self) -> list[Promotion]:
        """Who was promoted when, as Patroni has written down."""
        with urllib.request.urlopen(f"{self.url(self.leader())}/history", timeout=5) as answer:
            return [Promotion(line[4], datetime.fromisoformat(line[3])) for line in json.load(answer) if len(line) > 4]


class Writer(threading.Thread):
    """Inserts one row after another to whoever leads, and remembers those that were acknowledged."""

    def __init__(self, cluster: Cluster, first: int) -> None:
        super().__init__()
        self._cluster, self._next = cluster, first
        self._ended = threading.Event()
        self.acknowledged: list[int] = []

    def run(self) -> None:
        while not self._ended.wait(0.02):  # a busier one would take the processor from those it watches
            with contextlib.suppress(RuntimeError):  # nobody leads just now: an insert that was not acknowledged
                psql(self._cluster.writable, f"INSERT INTO rows VALUES ({self._next})")
                self.acknowledged.append(self._next)
            self._next += 1

    def go_on(self) -> None:
        """Wait until some more are acknowledged."""
        count = len(self.acknowledged)
        wait_until(lambda: len(self.acknowledged) >= count + 5)

    def __enter__(self) -> "Writer":
        self.start()
        self.go_on()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.join()


@contextlib.contextmanager
def patroni() -> Iterator[Cluster]:
    """etcd, and two nodes that have found each other."""
    require_postgresql()
    require_program("patroni", "patroni")
    require_program("unshare", "util-linux")
    etcd = require_program("etcd", "etcd-server")
    with folder_of_postgres() as folder, contextlib.ExitStack() as running:
        client, peer = free_port(), free_port()
        urls = [f"--listen-client-urls=http://127.0.0.1:{client}", f"--advertise-client-urls=http://127.0.0.1:{client}"]
        urls += [
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
        ]
        urls += [f"--initial-cluster=default=http://127.0.0.1:{peer}", f"--data-dir={folder}/etcd", "--unsafe-no-fsync"]
        running.enter_context(as_postgres(folder, etcd, *urls))
        cluster = Cluster(folder, client)
        for name in NODES:
            running.callback(cluster.power_off, name)
            cluster.power_on(name)
        try:
            wait_until(cluster.is_whole, 60)
        except AssertionError:
            raise AssertionError((folder / "log").read_text()[-4000:]) from None
        yield cluster
