"""A real PostgreSQL with a database on a small disk of its own, which can be filled up."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.handlers.databases import BINARIES, answers, as_postgres, folder_of_postgres, require_postgresql
from tests.support.postgres import Database
from tests.support.served import wait_until

MEGABYTES = 256
# The disk is mounted where only this server sees it, so it goes when the server does, even if we are killed.
_IN_A_PLACE_OF_ITS_OWN = """
mount -t tmpfs -o size={size}m small-disk "$0/small" && mkdir "$0/small/space" && chown -R postgres "$0/small" &&
exec setpriv --reuid=postgres --regid=postgres --clear-groups --pdeathsig=KILL "$@"
"""


class SmallDisk:
    """The disk of the server with this pid."""

    def __init__(self, folder: Path, pid: int) -> None:
        self._filler = Path(f"/proc/{pid}/root{folder}/small/filler")
        self._log = folder / "log"

    def fill(self) -> None:
        """Nothing more fits on it."""
        with self._filler.open("wb", buffering=0) as file:
            for piece in (bytes(1 << 20), bytes(1 << 12)):
                with suppress(OSError):  # no room is what is wanted
                    while True:
                        file.write(piece)

    def free(self) -> None:
        """There is room again."""
        self._filler.unlink(missing_ok=True)

    def refused(self) -> int:
        """How often the server found no room so far."""
        return self._log.read_text(errors="replace").count("No space left on device")


@contextmanager
def postgresql_on_small_disk() -> Iterator[tuple[Database, SmallDisk]]:
    """A server, until the block ends; its log and catalogue are elsewhere, and have room."""
    require_postgresql()
    with folder_of_postgres() as folder:
        with as_postgres(folder, f"{BINARIES}/initdb", "-D", f"{folder}/data", "-A", "trust", "--no-sync") as made:
            assert made.wait(60) == 0, (folder / "log").read_text()
        (folder / "small").mkdir()
        with _serving(folder) as process:
            server = Database(str(folder), "postgres")
            wait_until(lambda: answers(f"host={folder} user=postgres dbname=postgres"))
            server.sql(f"CREATE TABLESPACE small LOCATION '{folder}/small/space'")
            server.sql("CREATE DATABASE cluster TEMPLATE template0 ENCODING 'UTF8' TABLESPACE small")
            yield server._replace(name="cluster"), SmallDisk(folder, process.pid)


@contextmanager
def _serving(folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    script = _IN_A_PLACE_OF_ITS_OWN.format(size=MEGABYTES)
    server = [f"{BINARIES}/postgres", "-D", f"{folder}/data", "-k", str(folder), "-c", "listen_addresses="]
    command = ["unshare", "--mount", "sh", "-c", script, str(folder), *server, "-c", "fsync=off"]
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "HOME": str(folder)}
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
