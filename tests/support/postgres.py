"""PostgreSQL for tests: one real server for the whole run, and a new database for each test."""

import os
import select
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

import psycopg
import pytest
from psycopg import sql

from tests.handlers.contexts import wait_until
from tests.handlers.databases import (
    BINARIES,
    answers,
    as_postgres,
    folder_of_postgres,
    make_data,
    postgresql,
    psql,
    require_postgresql,
)

_NUMBERS = count(1)
_CREATE: Final = "CREATE DATABASE {} TEMPLATE template0 ENCODING 'UTF8' STRATEGY file_copy"
_ADMINISTRATORS: dict[str, psycopg.Connection] = {}
"""By the folder of their server: who makes and drops databases. A psql for each takes longer than most tests."""


class Database(NamedTuple):
    """A new, empty database; as the user postgres, if nothing else is said."""

    folder: str
    name: str

    @property
    def url(self) -> str:
        return self.url_of("postgres")

    def url_of(self, user: str, password: str = "") -> str:
        """The URL for a role."""
        login = f"{user}:{quote(password)}" if password else user
        return f"postgresql://{login}@/{self.name}?host={quote(self.folder, safe='')}"

    def sql(self, query: str) -> str:
        """What psql says; without our code."""
        return psql(f"host={self.folder} user=postgres dbname={self.name}", query)


@pytest.fixture(scope="session")
def postgres_folder() -> Iterator[str]:
    """Where the server of this run has its socket."""
    with postgresql("fsync=off") as connection:  # what is durable is tested on servers of their own
        folder = connection.split()[0].removeprefix("host=")
        with psycopg.connect(Database(folder, "postgres").url, autocommit=True) as _ADMINISTRATORS[folder]:
            yield folder


@pytest.fixture
def database(postgres_folder: str) -> Iterator[Database]:
    """A new database."""
    administrator, made = _ADMINISTRATORS[postgres_folder], Database(postgres_folder, f"test_{next(_NUMBERS)}")
    name = sql.Identifier(made.name)
    administrator.execute(sql.SQL(_CREATE).format(name))
    yield made
    administrator.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))


class Server:
    """A server of a test's own, which can be killed and started again; it syncs, as a real one does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._running = ExitStack()
        make_data(folder)

    def start(self, *options: str) -> Database:
        """Run it, with settings such as `hba_file=…`; the database that every server has."""
        words = [word for option in options for word in ("-c", option)]
        alone = [] if any(option.startswith("listen_addresses") for option in options) else ["-c", "listen_addresses="]
        command = ["-D", f"{self.folder}/data", "-k", str(self.folder), *alone, *words]
        self.process = self._running.enter_context(as_postgres(self.folder, f"{BINARIES}/postgres", *command))
        made = Database(str(self.folder), "postgres")
        port = next((option.partition("=")[2] for option in options if option.startswith("port=")), "5432")
        wait_until(lambda: answers(f"host={made.folder} port={port} user=postgres dbname=postgres"))
        return made

    def kill(self) -> None:
        """kill -9 of all its processes at once."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        for pid in (self.process.pid, *map(int, children)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        wait_until(lambda: all(_is_gone(int(pid)) for pid in children))

    def stop(self) -> None:
        """Whoever is still connected is not waited for."""
        self.process.send_signal(signal.SIGINT)
        self._running.close()


def _is_gone(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return True


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of this test's own; it does not run yet."""
    require_postgresql()
    with folder_of_postgres() as folder:
        server = Server(folder)
        yield server
        server.stop()


class Wire:
    """Between a node and its server: can lose the answer to an append, after the server has done it."""

    def __init__(self, folder: Path, server: str) -> None:
        self._to = f"{server}/.s.PGSQL.5432"
        self.loses_next_answer = False
        self.lost = 0
        self.meanwhile: Callable[[], object] = lambda: None
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(folder / ".s.PGSQL.5432"))
        self._listening.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        server = socket.socket(socket.AF_UNIX)
        server.connect(self._to)
        is_append = False
        with client, server, suppress(OSError):
            while True:
                ready, _, _ = select.select([client, server], [], [])
                for end in ready:
                    data = end.recv(65536)
                    if not data:
                        return
                    if end is server and is_append and self.loses_next_answer:
                        self.loses_next_answer, self.lost = False, self.lost + 1
                        self.meanwhile()
                        return
                    is_append = end is client and (is_append or b"duenotice.append" in data)
                    (server if end is client else client).sendall(data)
