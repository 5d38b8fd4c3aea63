"""A PostgreSQL 15 of the measurement's own, on a socket; it syncs, and knows when each transaction was committed."""

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from benchmarks.support.children import Child
from benchmarks.support.machine import ANY_CORE, CannotMeasure, pinned, require

BINARIES = Path("/usr/lib/postgresql/15/bin")
_SECONDS = 30.0


class Database:
    """Where its socket is."""

    def __init__(self, folder: Path, user: str) -> None:
        self._folder, self._user = folder, user
        self.url = f"postgresql://{user}@/postgres?host={quote(str(folder), safe='')}"

    def sql(self, query: str) -> list[list[str]]:
        """The rows that psql prints."""
        command = [str(BINARIES / "psql"), "-h", str(self._folder), "-U", self._user, "-d", "postgres", "-AtXc", query]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
        if done.returncode:
            raise CannotMeasure(f"psql says: {done.stderr}")
        return [line.split("|") for line in done.stdout.splitlines()]


@contextmanager
def postgresql() -> Iterator[Database]:
    """Until the block ends. As root it runs as the user postgres, because it refuses to be root."""
    is_root = os.geteuid() == 0
    user = "postgres" if is_root else pwd.getpwuid(os.geteuid()).pw_name
    become = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if is_root else []
    require(str(BINARIES / "initdb"), "postgresql-15")
    folder = Path(tempfile.mkdtemp(prefix="duenotice-bench-"))  # a socket's path must be short
    try:
        if is_root:
            shutil.chown(folder, user, user)
        data = str(folder / "data")
        made = subprocess.run([*become, str(BINARIES / "initdb"), "-D", data, "-A", "trust"], capture_output=True)
        if made.returncode:
            raise CannotMeasure(f"initdb says: {made.stderr.decode()}")
        options = [f"-k{folder}", "-clisten_addresses=", "-ctrack_commit_timestamp=on", "-cshared_buffers=64MB"]
        command = pinned(ANY_CORE, [*become, str(BINARIES / "postgres"), "-D", data, *options])
        with Child(command, folder.with_suffix(".log")):
            database = Database(folder, user)
            _wait_for(database)
            yield database
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        folder.with_suffix(".log").unlink(missing_ok=True)


def _wait_for(database: Database) -> None:
    until = time.monotonic() + _SECONDS
    while True:
        try:
            database.sql("SELECT 1")
            return
        except CannotMeasure:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
