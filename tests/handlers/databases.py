"""Real PostgreSQL servers: one alone, or two under Patroni and etcd. They refuse to be root: they are postgres."""

import contextlib
import json
import os
import pwd
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.handlers.balancer import free_port
from tests.handlers.occasions import wait_until
from tests.programs import require_program

BINARIES = "/usr/lib/postgresql/15/bin"
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
    drop = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "--pdeathsig=KILL"]
    environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "HOME": str(folder)}
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen([*drop, *command], env=environment, cwd=folder, stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def psql(connection: str, query: str) -> str:
    """Ask a server without our code."""
    command = ["psql", "-XqAt", "-w", "-v", "ON_ERROR_STOP=1", "-d", connection, "-c", query]
    done = subprocess.run(command, capture_output=True, text=True, timeout=15)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout.strip()


@contextlib.contextmanager
def postgresql() -> Iterator[str]:
    """One server; how to connect to it."""
    require_postgresql()
    with folder_of_postgres() as folder:
        with as_postgres(folder, f"{BINARIES}/initdb", "-D", f"{folder}/data", "-A", "trust", "--no-sync") as made:
            assert made.wait(30) == 0, (folder / "log").read_text()
        server = [f"{BINARIES}/postgres", "-D", f"{folder}/data", "-k", str(folder), "-c", "listen_addresses="]
        connection = f"host={folder} user=postgres dbname=postgres"
        with as_postgres(folder, *server):
            wait_until(lambda: answers(connection))
            yield connection


def answers(connection: str) -> bool:
    with contextlib.suppress(RuntimeError):
        return psql(connection, "SELECT 1") == "1"
    return False


class Cluster:
    """Two nodes under Patroni."""

    def __init__(self, ports: dict[str, int], rests: dict[str, int]) -> None:
        self._ports, self._rests = ports, rests

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
        """A leader, and a replica that streams."""
        return sorted((each["role"], each["state"]) for each in self.members().values()) == [
            ("leader", "running"),
            ("replica", "running"),
        ] and answers(self.writable)


@contextlib.contextmanager
def patroni() -> Iterator[Cluster]:
    """etcd, and two nodes that have found each other."""
    require_postgresql()
    program, etcd = require_program("patroni", "patroni"), require_program("etcd", "etcd-server")
    with folder_of_postgres() as folder, contextlib.ExitStack() as running:
        client, peer = free_port(), free_port()
        urls = [f"--listen-client-urls=http://127.0.0.1:{client}", f"--advertise-client-urls=http://127.0.0.1:{client}"]
        urls += [
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
        ]
        urls += [f"--initial-cluster=default=http://127.0.0.1:{peer}", f"--data-dir={folder}/etcd", "--unsafe-no-fsync"]
        running.enter_context(as_postgres(folder, etcd, *urls))
        ports = {name: free_port() for name in ("pg-0", "pg-1")}
        rests = {name: free_port() for name in ports}
        for name in ports:
            values = {"etcd": client, "rest": rests[name], "port": ports[name], "folder": folder, "binaries": BINARIES}
            (folder / f"{name}.yml").write_text(_PATRONI.format(name=name, **values))
            running.enter_context(as_postgres(folder, program, str(folder / f"{name}.yml")))
        cluster = Cluster(ports, rests)
        try:
            wait_until(cluster.is_whole, 60)
        except AssertionError:
            raise AssertionError((folder / "log").read_text()[-4000:]) from None
        yield cluster
