"""A start that cannot work ends with one line of what is wrong and one of what to do; a real PostgreSQL for all."""

import secrets
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.acceptance.conftest import DEMO
from tests.cluster.trio import NodeServer
from tests.cluster.versions import wrong_clock
from tests.handlers.databases import folder_of_postgres, require_postgresql
from tests.support.cli import Done, duenotice
from tests.support.node import Answer
from tests.support.postgres import Database, Server
from tests.support.served import Served, wait_until

pytestmark = pytest.mark.machine

LEASE = 1.0


@pytest.fixture(scope="module")
def postgres() -> Iterator[Database]:
    """One server for all tests of this file; it asks the role `serving` for its password."""
    require_postgresql()
    with folder_of_postgres() as folder:
        (folder / "hba").write_text("local all postgres trust\nlocal all all scram-sha-256\n")
        server = Server(folder)
        database = server.start("fsync=off", f"hba_file={folder}/hba")
        database.sql("CREATE ROLE serving LOGIN PASSWORD 'right'")
        yield database
        server.stop()


Made = Callable[..., Database]


@pytest.fixture
def made(postgres: Database, request: pytest.FixtureRequest) -> Made:
    """Makes a new database, with some SQL run in it; `options` come behind CREATE DATABASE."""

    def make(name: str, sql: str = "", options: str = "OWNER serving ENCODING 'UTF8'") -> Database:
        postgres.sql(f"CREATE DATABASE {name} TEMPLATE template0 {options}")
        request.addfinalizer(lambda: postgres.sql(f"DROP DATABASE {name} WITH (FORCE)"))
        if sql:
            postgres._replace(name=name).sql(sql)
        return postgres._replace(name=name)

    return make


def serve(database: Database, data_dir: Path, *more: str, password: str = "right") -> Done:
    """Start a node that is expected to end by itself."""
    where = ("--metadata-listen=127.0.0.1:0", "--operator-listen=127.0.0.1:0", "--log-format=json", f"--lease={LEASE}")
    url = database.url_of("serving", password)
    done = duenotice(None, "serve", f"--data-dir={data_dir}", *where, *more, DUENOTICE_JOURNAL=url)
    assert password not in done.err or password == "right"
    return done


def told(done: Done) -> tuple[int, str, str]:
    """The exit code, what happened, and what to do."""
    what, hint = done.err.splitlines()[-2:]
    return done.code, what.removeprefix("error: "), hint.removeprefix(" hint: ")


def migrated(database: Database) -> Database:
    """The same, with the tables of duenotice."""
    assert duenotice(None, "db", "migrate", DUENOTICE_JOURNAL=database.url_of("serving", "right")).code == 0
    return database


def is_empty(database: Database) -> bool:
    return database.sql("SELECT count(*) FROM pg_namespace WHERE nspname = 'duenotice'") == "0"


def test_a_password_that_is_wrong_or_has_expired(made: Made, postgres: Database, tmp_path: Path) -> None:
    """PostgreSQL says the same for both, so the hint names both."""
    code, what, hint = told(serve(made("secret"), tmp_path, password="guessed"))
    assert (code, "the password is wrong or missing" in what, "VALID UNTIL" in hint) == (2, True, True)
    postgres.sql("ALTER ROLE serving VALID UNTIL '2020-01-01'")
    try:
        assert told(serve(postgres._replace(name="secret"), tmp_path)) == (code, what, hint)
    finally:
        postgres.sql("ALTER ROLE serving VALID UNTIL 'infinity'")


@pytest.mark.parametrize(
    ("sql", "options", "what"),
    [
        ("CREATE SCHEMA duenotice; CREATE TABLE duenotice.about (x int)", None, "tables that duenotice did not make"),
        ("CREATE SCHEMA duenotice; CREATE TABLE duenotice.bills (x int)", None, "tables that duenotice did not make"),
        ("", "OWNER serving ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'", "has the encoding LATIN1"),
        ("", "ENCODING 'UTF8'", "this role may not use it"),
    ],
    ids=["foreign-about", "foreign-table", "encoding", "grants"],
)
def test_a_database_that_is_not_for_us(made: Made, tmp_path: Path, sql: str, options: str | None, what: str) -> None:
    """It is left as it is."""
    database = made("foreign_one", sql, *([options] if options else []))
    code, said, hint = told(serve(database, tmp_path))
    assert (code, what in said, bool(hint)) == (2, True, True), said
    assert is_empty(database) is (not sql)


def test_tables_of_another_version(made: Made, tmp_path: Path) -> None:
    """A newer duenotice has made them, and this one cannot read them."""
    database = migrated(made("newer"))
    database.sql("UPDATE duenotice.about SET version = 9, readable_from = 9")
    assert told(serve(database, tmp_path)) == (
        2,
        "The tables were made by a newer duenotice (version 9, this one knows 3).",
        "Upgrade duenotice, or restore a backup made by this version.",
    )


def test_the_directory_of_another_cluster_and_a_database_that_was_emptied(made: Made, tmp_path: Path) -> None:
    """Nothing is changed there: neither another cluster's journal, nor a database whose schema was dropped."""
    mine, other = migrated(made("mine")), migrated(made("other"))
    with Served(tmp_path, DEMO, journal=mine.url, clock="real", lease=LEASE):
        pass
    records = other.sql("SELECT count(*) FROM duenotice.records")
    code, what, hint = told(serve(other, tmp_path))
    assert (code, "has another journal than the one" in what) == (2, True)
    assert str(tmp_path / "database.notes") in hint
    assert other.sql("SELECT count(*) FROM duenotice.records") == records
    mine.sql("DROP SCHEMA duenotice CASCADE")
    code, what, _ = told(serve(mine, tmp_path))
    assert (code, "has no journal, but this data directory belongs to one" in what) == (2, True)
    assert is_empty(mine)


def test_a_name_that_is_in_use_and_a_node_that_others_cannot_ask(made: Made, tmp_path: Path) -> None:
    """The node that was there goes on as if nobody had come."""
    database = migrated(made("named"))
    with Served(tmp_path / "a", DEMO, journal=database.url, node="a", clock="real", lease=LEASE) as node:
        code, what, hint = told(serve(database, tmp_path / "b", "--node=a"))
        assert (code, what.startswith("Another process is the node 'a' already, at http://127.0.0.1:")) == (4, True)
        assert "--node" in hint
        code, what, _ = told(serve(database, tmp_path / "c", "--node=c", "--operator-listen=none"))
        assert (code, what) == (2, "The node 'a' could not pass commands on to this one: it has no operator port.")
        code, what, _ = told(serve(database, tmp_path / "d", "--node=d", f"--node-url={url_of(node)}"))
        assert (code, what) == (2, f"This node and the node 'a' say that they are both at {url_of(node)}.")
        node.enable("web-0")
        assert node.schedule("Reboot", "web-0")


def url_of(node: Served) -> str:
    return "http://{}:{}".format(*node.operator_address)


def test_a_clock_that_is_an_hour_ahead(made: Made, tmp_path: Path) -> None:
    """The node starts, because nobody is hit early for that; its log says what is wrong and what to do."""
    url = migrated(made("late")).url
    server = NodeServer(wrong_clock(3600), tmp_path, DEMO, journal=url, node="ahead", clock="real", lease=LEASE)
    server.wait_until_serving()
    (line,) = [line for line in server.log().splitlines() if '"action": "clock-differs"' in line]
    assert "the clock of this machine is 1h ahead of the database's" in line
    assert "Set the wrong one right (NTP)." in line
    server.stop()


@pytest.fixture
def tight(postgres: Database, made: Made, tmp_path: Path) -> Iterator[Database]:
    """A database on a disk of 10 MB."""
    disk = Path(postgres.folder) / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=10m", "tmpfs", disk], capture_output=True).returncode:
        disk.rmdir()
        pytest.skip("needs to mount a disk")
    subprocess.run(["chown", "--reference", postgres.folder, disk], check=True)
    postgres.sql(f"CREATE TABLESPACE small LOCATION '{disk}'")
    postgres.sql("CREATE DATABASE tight OWNER serving TABLESPACE small TEMPLATE template0 ENCODING 'UTF8'")
    try:
        yield postgres._replace(name="tight")
    finally:
        postgres.sql("DROP DATABASE tight WITH (FORCE)")
        postgres.sql("DROP TABLESPACE small")
        subprocess.run(["umount", disk], check=True)
        disk.rmdir()


def test_a_disk_that_is_full_at_the_database(tight: Database, tmp_path: Path) -> None:
    """Changes are 503 and say why, nothing is lost, and with room again all works by itself (N15)."""
    with Served(
        tmp_path / "a", DEMO, journal=tight.url_of("serving", "right"), node="a", clock="real", lease=LEASE
    ) as node:
        node.enable("web-0")
        event = node.schedule("Reboot", "web-0")
        tight.sql("CREATE TABLE junk (x text)")
        with suppress(RuntimeError):
            while True:
                tight.sql("INSERT INTO junk SELECT string_agg(md5(random()::text), '') FROM generate_series(1, 9000)")
        answers = [schedule(node)]
        while answers[-1].status == 201:  # until the last free page is used
            answers.append(schedule(node))
        problem = answers[-1].json()
        assert (answers[-1].status, "its disk is full (" in problem["title"]) == (503, True)
        assert problem["hint"].startswith("Free some space on the disk of the database.")
        assert "INSERT" not in problem["title"]
        tight.sql("DROP TABLE junk")
        wait_until(lambda: schedule(node).status == 201)
        known = [each["EventId"] for each in node.events("web-0")]
        assert {event, *(answer.json()["events"][0]["id"] for answer in answers[:-1])} <= set(known)


def schedule(node: Served) -> Answer:
    """Something that cannot be compressed much."""
    body = {"type": "Reboot", "resources": ["web-0"], "description": secrets.token_hex(500)}
    return node.operator("POST", "/v1/events", body)
