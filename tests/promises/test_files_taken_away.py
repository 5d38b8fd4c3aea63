"""S5, S21: files that vanish or change under a running service are noticed, and nothing more is answered as done.

Real files and a real process. What VMs read goes on from memory, as on a full disk.
"""

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from duenotice.bootstrap.file_watch import EVERY
from tests.acceptance.conftest import DEMO
from tests.crash.server import Caller, Response, Server
from tests.support.served import wait_until

VERSION = "2020-07-01"
SECONDS = 10.0
"""How soon it must be noticed; the test waits longer, and looks that it is told which file it is."""

Crime = Callable[[Path], object]


class World:
    """A service with a journal on disk, an operator, and a VM that listens."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self.server = Server(self.data, DEMO)
        self.server.wait_until_serving()
        self.meet()
        assert self.poll().status == 200
        assert self.schedule().status == 201

    def meet(self) -> None:
        self.vm = Caller(self.server.metadata, {"Metadata": "true"}, "127.0.0.1")
        self.operator = Caller(self.server.operator, {"Authorization": f"Bearer {self.server.token}"})

    def poll(self) -> Response:
        return told(self.vm.ask("GET", f"/metadata/scheduledevents?api-version={VERSION}"))

    def schedule(self) -> Response:
        body = {"type": "Reboot", "resources": ["me"]}
        return told(self.operator.ask("POST", "/v1/events", body))

    def ready(self) -> Response:
        return told(self.operator.ask("GET", "/readyz"))

    def events(self) -> list[Any]:
        listed: list[Any] = told(self.operator.ask("GET", "/v1/events")).json()["items"]
        return listed

    def part(self) -> None:
        self.vm.close()
        self.operator.close()

    def restart(self) -> None:
        self.part()
        self.server = Server(self.data, DEMO)
        self.server.wait_until_serving()
        self.meet()


def told(response: Response | None) -> Response:
    assert response is not None
    return response


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.part()
    if made.server.alive():
        made.server.kill()


def _replace(data: Path) -> None:
    shutil.copy(data / "journal.db", data / "copy.db")
    (data / "copy.db").rename(data / "journal.db")


CRIMES: dict[str, tuple[str, Crime]] = {
    "the database is renamed": ("journal.db", lambda data: (data / "journal.db").rename(data / "elsewhere")),
    "the database is deleted": ("journal.db", lambda data: (data / "journal.db").unlink()),
    "a copy takes the place of the database": ("journal.db", _replace),
    "the log is deleted": ("journal.db-wal", lambda data: (data / "journal.db-wal").unlink()),
    "the shared memory is deleted": ("journal.db-shm", lambda data: (data / "journal.db-shm").unlink()),
    "the lock is deleted": ("journal.lock", lambda data: (data / "journal.lock").unlink()),
    "the directory is renamed": ("journal.db", lambda data: data.rename(data.with_name("elsewhere"))),
}


@pytest.mark.parametrize("crime", CRIMES)
def test_nothing_more_is_answered_as_done_and_polls_go_on(world: World, crime: str):
    """At once, and again and again; the refusal names the file and says what to do."""
    file, commit = CRIMES[crime]
    before = world.poll()
    commit(world.data)
    for _ in range(3):
        refused = world.schedule()
        assert refused.status == 503
        assert f"{world.data / file} " in refused.json()["title"]
        assert "stop the service" in refused.json()["hint"]
    assert world.poll() == before


@pytest.mark.parametrize("crime", CRIMES)
def test_it_is_noticed_although_nothing_is_stored(world: World, crime: str):
    """`/readyz` says which file, and the log what to do."""
    file, commit = CRIMES[crime]
    assert world.ready().status == 200
    commit(world.data)
    wait_until(lambda: world.ready().status == 503, seconds=3 * SECONDS)
    assert f"{world.data / file} " in world.ready().json()["title"]
    verbose = told(world.operator.ask("GET", "/readyz?verbose"))
    assert verbose.status == 503
    assert f"[-]files {world.data / file} " in verbose.body.decode()
    wait_until(lambda: "files-missing" in world.server.log())
    (line,) = [entry for entry in map(json.loads, world.server.log().splitlines()) if "files-" in entry["action"]]
    assert (line["action"], line["level"]) == ("files-missing", "critical")
    assert "stop the service" in line["hint"]


OPENED = {"journal.db": 0o666, "journal.db-wal": 0o622, "journal.lock": 0o602, "": 0o777}
"""Of the data directory too."""
SECRETS = ("admin.token", "azure-tokens.key")


@pytest.mark.parametrize("file", OPENED)
def test_nothing_is_stored_where_others_may_write(world: World, file: str):
    """At once; and when it is ours alone again, all goes on."""
    path, before = world.data / file, world.poll()
    mode = path.stat().st_mode & 0o777
    path.chmod(OPENED[file])
    refused = world.schedule()
    assert (refused.status, f"{path} can be changed by others" in refused.json()["title"]) == (503, True)
    assert "Find out whether it was changed" in refused.json()["hint"]
    _is_told_of(world, path)
    assert world.poll() == before
    path.chmod(mode)
    wait_until(lambda: world.ready().status == 200, seconds=3 * SECONDS)
    assert world.schedule().status == 201
    assert len(world.events()) == 2


@pytest.mark.parametrize("file", SECRETS)
def test_a_secret_that_others_may_read_is_told_of(world: World, file: str):
    path = world.data / file
    path.touch(0o600)
    path.chmod(0o644)
    _is_told_of(world, path)
    path.chmod(0o600)
    wait_until(lambda: world.ready().status == 200, seconds=3 * SECONDS)


def _is_told_of(world: World, path: Path) -> None:
    """Within ten seconds `/readyz` says which it is, and so does the log."""
    begun = time.monotonic()
    wait_until(lambda: world.ready().status == 503, seconds=3 * SECONDS)
    assert time.monotonic() - begun < SECONDS
    assert f"{path} " in world.ready().json()["title"]
    wait_until(lambda: "files-missing" in world.server.log())


def _stays_ready(world: World) -> None:
    """So long that somebody has looked at the files."""
    end = time.monotonic() + 1.5 * EVERY
    while time.monotonic() < end:
        assert world.ready().status == 200
        time.sleep(0.2)


def overwrite(path: Path, at: int, by: bytes) -> None:
    """In place, as a careless program would: same file, same size."""
    with path.open("r+b") as file:
        file.seek(at)
        file.write(by)


def _in_the_log(data: Path) -> None:
    """The newest copy of a record: one letter of it."""
    log, word = data / "journal.db-wal", b'"actor":"'
    overwrite(log, log.read_bytes().rindex(word) + len(word), b"x")


def _in_the_database(data: Path) -> None:
    """All but the first page, of which some are newer in the log."""
    overwrite(data / "journal.db", 4096, b"\xff" * ((data / "journal.db").stat().st_size - 4096))


@pytest.mark.parametrize("crime", [_in_the_log, _in_the_database])
def test_overwritten_bytes_are_noticed(world: World, crime: Crime):
    """Somebody writes into the file of a running service; polls go on from memory."""
    before = world.poll()
    time.sleep(0.1)  # the kernel notes times of change in steps of some milliseconds
    crime(world.data)
    _is_told_of(world, world.data / "journal.db")
    refused = world.schedule()
    assert (refused.status, "Somebody else has written into it" in refused.json()["hint"]) == (503, True)
    assert world.poll() == before


def test_an_overwritten_head_of_the_log_loses_nothing(world: World):
    """It counts only at the next start: what is in the log is moved into the database before that, whoever kills us."""
    ids = [event["id"] for event in world.events()]
    time.sleep(0.1)
    overwrite(world.data / "journal.db-wal", 0, b"x" * 32)
    _stays_ready(world)
    world.server.kill()
    world.restart()
    assert [event["id"] for event in world.events()] == ids  # their notice begins again after an absence (S25)


def test_what_was_only_touched_is_as_it_was(world: World):
    """A backup that restores times, or a disk that has its own: nothing of the content was harmed."""
    for end in ("", "-wal"):
        os.utime(world.data / f"journal.db{end}", (0, 0))
    _stays_ready(world)
    assert world.schedule().status == 201


def test_what_comes_back_is_used_again(world: World):
    """The same file at its old place; what was refused meanwhile has had no effect (S6)."""
    database, elsewhere = world.data / "journal.db", world.data / "elsewhere"
    database.rename(elsewhere)
    wait_until(lambda: world.ready().status == 503, seconds=3 * SECONDS)
    assert world.schedule().status == 503
    elsewhere.rename(database)
    wait_until(lambda: world.ready().status == 200, seconds=3 * SECONDS)
    assert len(world.events()) == 1
    assert world.schedule().status == 201
    assert len(world.events()) == 2


def test_a_stop_saves_what_a_deleted_log_held(world: World):
    events = world.events()
    (world.data / "journal.db-wal").unlink()
    world.server.stop()
    world.restart()
    assert world.events() == events


def test_a_kill_loses_nothing_of_a_deleted_log_that_was_noticed(world: World):
    events = world.events()
    (world.data / "journal.db-wal").unlink()
    wait_until(lambda: world.ready().status == 503, seconds=3 * SECONDS)
    world.server.kill()
    world.restart()
    assert world.events() == events


def test_the_log_of_another_journal_in_its_place_is_not_deleted_at_the_end(world: World):
    """Somebody restores a backup under the running service, with its log."""
    for end in ("", "-wal", "-shm"):
        (world.data / f"journal.db{end}").unlink()
        (world.data / f"journal.db{end}").write_bytes(b"a backup")
    world.server.stop()
    for end in ("", "-wal", "-shm"):
        assert (world.data / f"journal.db{end}").read_bytes() == b"a backup"
