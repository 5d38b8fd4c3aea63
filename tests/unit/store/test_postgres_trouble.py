"""A database that cannot be used: one clear line with what to do, nothing lost, and it goes on when it can."""

import os
import secrets
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from msgspec import structs

from duenotice.domain.records import Record
from duenotice.errors import Damaged, DuenoticeError, Misconfigured, Unavailable
from duenotice.store import postgres_connection
from duenotice.store.postgres_connection import Connection, name_of
from duenotice.store.postgres_schema import VERSION, About, about, migrate, prepared
from duenotice.testkit.journal_contract import record, records
from tests.handlers.contexts import wait_until
from tests.handlers.databases import answers
from tests.programs import require_program
from tests.support.leading import LeadingJournal
from tests.support.ports import free_port
from tests.support.postgres import Database, Server

pytestmark = pytest.mark.machine


def opened(url: str) -> LeadingJournal:
    return LeadingJournal(url, None)


def refused(url: str) -> DuenoticeError:
    """What a start says, which must be an error of ours."""
    with pytest.raises(DuenoticeError) as caught:
        opened(url)
    return caught.value


# --- who is let in ---


@pytest.fixture
def strict(server: Server) -> Database:
    """A server that asks for passwords; the role `app` has one, and may create a schema."""
    database = server.start()
    database.sql("CREATE ROLE app LOGIN PASSWORD 'right'; GRANT CREATE ON DATABASE postgres TO app")
    hba = server.folder / "data" / "pg_hba.conf"
    hba.write_text("local all postgres trust\nlocal all app scram-sha-256\n")
    database.sql("SELECT pg_reload_conf()")
    wait_until(lambda: not answers(f"host={database.folder} user=nobody dbname=postgres"))
    wait_until(lambda: not answers(f"host={database.folder} user=app dbname=postgres"))
    return database


def test_a_wrong_password_is_told_without_it(strict: Database) -> None:
    error = refused(strict.url_of("app", "guessed"))
    assert isinstance(error, Misconfigured)
    assert "the password is wrong or missing" in error.message
    assert "guessed" not in error.message + error.hint
    assert "PGPASSWORD" in error.hint


@pytest.mark.parametrize(
    ("user", "database", "told"),
    [
        ("app", "postgres", "the password is wrong or missing"),
        ("nobody", "postgres", "the server refuses connections from here"),
        ("postgres", "nowhere", "that database cannot be used"),
    ],
)
def test_who_is_not_let_in_is_told_why(strict: Database, user: str, database: str, told: str) -> None:
    error = refused(strict._replace(name=database).url_of(user))
    assert (type(error), told in error.message) == (Misconfigured, True)
    assert error.hint


def test_a_password_that_expires_while_it_runs_is_a_passing_trouble(strict: Database) -> None:
    """Nothing is lost, and with the right one it goes on."""
    journal = opened(strict.url_of("app", "right"))
    journal.append(records(1, 1))
    strict.sql("ALTER ROLE app PASSWORD 'new'")
    strict.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'")
    with pytest.raises(Unavailable, match="password is wrong"):
        journal.append(records(2, 2))
    strict.sql("ALTER ROLE app PASSWORD 'right'")
    journal.append(records(2, 2))
    assert list(journal.read(0)) == records(1, 2)
    journal.close()


def test_a_role_needs_no_more_than_the_page_says(database: Database) -> None:
    """The owner makes the tables; who serves may change rows, and no more."""
    database.sql("CREATE ROLE plain LOGIN")
    try:
        error = refused(database.url_of("plain"))
        assert (type(error), "this role may not use it" in error.message) == (Misconfigured, True)
        assert "duenotice db migrate" in error.hint
        prepared(database.url)
        database.sql(
            "GRANT USAGE ON SCHEMA duenotice TO plain;"
            "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA duenotice TO plain"
        )
        journal = opened(database.url_of("plain"))
        journal.append(records(1, 3))
        assert list(journal.read(0)) == records(1, 3)
        journal.close()
    finally:
        database.sql("DROP OWNED BY plain; DROP ROLE plain")


# --- how it is found ---


def test_a_server_that_is_not_there_is_unavailable(tmp_path: Path) -> None:
    error = refused(f"postgresql://postgres@/db?host={tmp_path}")
    assert (type(error), str(tmp_path) in error.message) == (Unavailable, True)


@pytest.mark.parametrize("url", ["postgresql://[", "postgresql:///x?nonsense=1"])
def test_a_url_that_is_not_valid_is_told(url: str) -> None:
    assert isinstance(refused(url), Misconfigured)


def test_of_several_hosts_the_one_that_takes_writes_is_used(database: Database, tmp_path: Path) -> None:
    journal = opened(f"postgresql://postgres@/{database.name}?host={tmp_path},{database.folder}")
    journal.append(records(1, 1))
    journal.close()
    assert database.sql("SELECT position FROM duenotice.head") == "1"


def test_service_files_and_variables_of_libpq_work(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "pg_service.conf"
    file.write_text(f"[duenotice]\nhost={database.folder}\nuser=postgres\n")
    monkeypatch.setenv("PGSERVICEFILE", str(file))
    monkeypatch.setenv("PGDATABASE", database.name)
    journal = opened("postgresql:///?service=duenotice")
    journal.append(records(1, 1))
    journal.close()
    assert database.sql("SELECT position FROM duenotice.head") == "1"
    assert isinstance(refused("postgresql:///?service=nothing"), Misconfigured)


def test_a_database_is_named_without_its_password() -> None:
    assert name_of("postgresql://app:secret@db.example:5433/fleet") == "the database fleet at db.example:5433"
    assert name_of("postgresql:///?service=prod&password=secret") == "the database at prod"


def certificate(folder: Path, name: str) -> Path:
    """A certificate of localhost that signs itself, with its key beside it; the user postgres owns both."""
    key, made = folder / f"{name}.key", folder / f"{name}.crt"
    words = ["req", "-x509", "-nodes", "-newkey", "rsa:2048", "-days", "1", "-subj", "/CN=localhost"]
    openssl = require_program("openssl", "openssl")
    subprocess.run([openssl, *words, "-keyout", key, "-out", made], check=True, capture_output=True)
    for file in (key, made):
        file.chmod(0o600)
        os.chown(file, folder.stat().st_uid, folder.stat().st_gid)
    return made


def test_tls_is_set_up_in_the_url(server: Server) -> None:
    """With a certificate that is trusted; another one is refused."""
    right, wrong = (certificate(server.folder, name) for name in ("right", "wrong"))
    port = free_port()
    key = right.with_suffix(".key")
    server.start(
        "listen_addresses=localhost", f"port={port}", "ssl=on", f"ssl_cert_file={right}", f"ssl_key_file={key}"
    )
    url = f"postgresql://postgres@localhost:{port}/postgres?sslmode=verify-full&sslrootcert="
    journal = opened(f"{url}{right}")
    asked = journal._connection.ask("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
    journal.close()
    assert asked == [(True,)]
    error = refused(f"{url}{wrong}")
    assert (type(error), "its certificate is not trusted" in error.message) == (Misconfigured, True)
    assert "sslrootcert" in error.hint


# --- what is in it (N16) ---


def test_a_database_of_a_newer_duenotice_is_refused(database: Database) -> None:
    prepared(database.url)
    database.sql("UPDATE duenotice.about SET version = 9, readable_from = 8")
    error = refused(database.url)
    assert (type(error), "made by a newer duenotice (version 9" in error.message) == (Misconfigured, True)
    assert "Upgrade" in error.hint


def test_a_newer_one_that_this_version_can_read_is_used(database: Database) -> None:
    """Two versions run side by side while nodes are upgraded one by one; what the newer one has more is left alone."""
    prepared(database.url)
    database.sql("UPDATE duenotice.about SET version = 9; ALTER TABLE duenotice.records ADD more text")
    journal = opened(database.url)
    journal.append(records(1, 3))
    assert list(journal.read(0)) == records(1, 3)
    journal.close()


@pytest.mark.parametrize(
    ("foreign", "told"),
    [
        ("CREATE SCHEMA duenotice; CREATE TABLE duenotice.records (x int)", "tables that duenotice did not make"),
        ("CREATE SCHEMA duenotice; CREATE TABLE duenotice.about (x int)", "tables that duenotice did not make"),
    ],
)
def test_tables_of_somebody_else_are_refused_and_left_alone(database: Database, foreign: str, told: str) -> None:
    database.sql(foreign)
    error = refused(database.url)
    assert (type(error), told in error.message) == (Misconfigured, True)
    assert "Name another database" in error.hint
    assert database.sql("SELECT count(*) FROM pg_tables WHERE schemaname = 'duenotice'") == "1"


def test_a_table_that_was_changed_is_refused(database: Database) -> None:
    prepared(database.url)
    database.sql("ALTER TABLE duenotice.head DROP COLUMN turn")
    assert "duenotice.head is not the one that duenotice made: it lacks turn bigint" in refused(database.url).message


def test_a_database_in_another_encoding_is_refused(database: Database) -> None:
    """Text would be stored in other bytes than those under the checksum."""
    database.sql("CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")
    try:
        error = refused(database._replace(name="latin").url)
        assert (type(error), "encoding LATIN1" in error.message) == (Misconfigured, True)
    finally:
        database.sql("DROP DATABASE latin WITH (FORCE)")


def test_of_many_that_make_the_tables_one_does(database: Database) -> None:
    """Nodes that start at the same time on a new database."""
    found: list[About] = []
    threads = [threading.Thread(target=lambda: found.append(prepared(database.url))) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 5 and len(set(found)) == 1
    assert found[0].version == VERSION


def test_to_look_at_the_tables_changes_nothing(database: Database) -> None:
    connection = Connection(database.url)
    assert about(connection) == About(0)
    before, after = migrate(connection)
    assert (before, after.version, about(connection)) == (About(0), VERSION, after)
    assert migrate(connection) == (after, after)
    connection.close()


# --- bad days ---


def test_a_standby_is_not_written_to(database: Database) -> None:
    """Or a server that is set to read only: the journal waits for the primary."""
    journal = opened(database.url)
    journal.append(records(1, 1))
    admin = database._replace(name="postgres")
    admin.sql(f"ALTER DATABASE {database.name} SET default_transaction_read_only = on")
    admin.sql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database.name}'")
    with pytest.raises(Unavailable, match="only a standby"):
        journal.append(records(2, 2))
    admin.sql(f"ALTER DATABASE {database.name} RESET ALL")
    journal.append(records(2, 2))
    assert list(journal.read(0)) == records(1, 2)
    journal.close()


@pytest.fixture
def little_room(database: Database) -> Iterator[Database]:
    """A database on a disk of 10 MB."""
    require_program("mount", "mount")
    folder = Path(database.folder) / f"disk-{database.name}"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=10m", "tmpfs", folder], capture_output=True).returncode:
        folder.rmdir()
        pytest.skip("needs to mount a disk")
    account = Path(database.folder).stat()
    os.chown(folder, account.st_uid, account.st_gid)
    database.sql(f"CREATE TABLESPACE small LOCATION '{folder}'")
    database.sql("CREATE DATABASE tight TABLESPACE small TEMPLATE template0 ENCODING 'UTF8'")
    try:
        yield database._replace(name="tight")
    finally:
        database.sql("DROP DATABASE tight WITH (FORCE)")
        database.sql("DROP TABLESPACE small")
        subprocess.run(["umount", folder], check=True)
        folder.rmdir()


def bulky(position: int) -> Record:
    """A record that takes a good part of that disk, since it cannot be compressed."""
    return structs.replace(record(position), actor=secrets.token_urlsafe(300_000))


def test_a_full_disk_is_a_passing_trouble(little_room: Database) -> None:
    """When there is no room nothing of the append is kept, and with room again the journal goes on (S6, N15)."""
    journal = opened(little_room.url)
    journal.append(records(1, 3))
    full = 0
    for position in range(4, 1000):
        try:
            journal.append([bulky(position)])
        except Unavailable as error:
            full = position
            assert "its disk is full" in error.message
            assert "Free some space" in error.hint
            break
    assert [record.position for record in journal.read(0)] == list(range(1, full))
    disk = next(Path(little_room.folder).glob("disk-*"))
    subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)
    journal.append([bulky(full)])
    assert journal.last_position() == full
    journal.close()


def test_somebody_who_holds_the_head_is_a_passing_trouble(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_connection, "_SET_UP", "SET lock_timeout = '100ms'")
    journal = opened(database.url)
    person = Connection(database.url)
    holding = person.raw()
    with holding.transaction():
        holding.execute("SELECT * FROM duenotice.head FOR UPDATE")
        with pytest.raises(Unavailable, match="somebody holds a lock"):
            journal.append(records(1, 1))
    journal.append(records(1, 1))
    assert journal.last_position() == 1
    person.close()
    journal.close()


def test_a_server_that_stands_still_does_not_hold_the_journal_for_ever(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It accepts what is sent and does not answer; when it goes on, so does the journal, and nothing is there twice."""
    database = server.start()
    journal = opened(database.url + "&connect_timeout=2")
    journal.append(records(1, 3))
    monkeypatch.setattr("duenotice.store.postgres_members._APPEND_ENOUGH", 0.5)
    pids = [int(pid) for pid in database.sql("SELECT pid FROM pg_stat_activity").split()] + [server.process.pid]
    try:
        for pid in pids:
            _signal(pid, signal.SIGSTOP)
        with pytest.raises(Unavailable, match="does not answer"):
            journal.append(records(4, 6))
    finally:
        for pid in pids:
            _signal(pid, signal.SIGCONT)
    wait_until(lambda: answers(f"host={database.folder} user=postgres dbname=postgres"))
    newest = journal.last_position()
    journal.append(records(newest + 1, newest + 3))
    assert list(journal.read(0)) == records(1, newest + 3)
    journal.close()


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # the session that was asked for the list is over
        os.kill(pid, number)


def test_a_dropped_schema_is_damage(database: Database) -> None:
    journal = opened(database.url)
    database.sql("DROP SCHEMA duenotice CASCADE")
    with pytest.raises(Damaged, match="not the ones that duenotice made"):
        journal.append(records(1, 1))
    journal.close()
