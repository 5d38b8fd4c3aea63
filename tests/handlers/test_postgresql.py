"""`postgresql` against a real server."""

import asyncio

import pytest

from duenotice.agent.handlers.base import HandlerFailed
from duenotice.agent.handlers.loading import load, problems
from tests.handlers.contexts import context, prepare, recover, script
from tests.handlers.databases import postgresql, psql
from tests.programs import require_program

pytestmark = pytest.mark.machine
CHECKPOINT = "SELECT redo_lsn FROM pg_control_checkpoint()"


@pytest.fixture(scope="module")
def server():
    with postgresql() as connection:
        psql(connection, "CREATE TABLE rows (id int)")
        yield connection


def test_prepare_makes_a_checkpoint(server):
    """The position that a start after a crash would begin from moves past what was written before."""
    psql(server, "INSERT INTO rows SELECT generate_series(1, 1000)")
    written, before = psql(server, "SELECT pg_current_wal_lsn()"), psql(server, CHECKPOINT)
    prepare("postgresql", {}, connection=server)
    after = psql(server, CHECKPOINT)
    assert psql(server, f"SELECT '{after}'::pg_lsn > '{before}' AND '{after}'::pg_lsn >= '{written}'") == "t"
    recover("postgresql", {}, connection=server)


def test_it_can_end_the_segment_so_that_it_is_archived(server):
    """With `switch_wal` the rest of the segment is given up."""
    psql(server, "INSERT INTO rows VALUES (0)")
    before = psql(server, "SELECT pg_walfile_name(pg_current_wal_lsn())")
    prepare("postgresql", {}, connection=server, switch_wal=True, wait_for_replicas=True)
    psql(server, "INSERT INTO rows VALUES (0)")
    assert psql(server, "SELECT pg_walfile_name(pg_current_wal_lsn())") > before


def test_failures_say_what_psql_said(server):
    """No server, or no right."""
    with pytest.raises(HandlerFailed, match=r"psql exited with 2: .*/nowhere"):
        prepare("postgresql", {}, connection="host=/nowhere")
    with pytest.raises(HandlerFailed, match="nobody"):
        prepare("postgresql", {}, connection=server.replace("user=postgres", "user=nobody"))


def test_a_psql_that_hangs_is_ended(tmp_path):
    """The notice left is the limit."""
    hang = script(tmp_path / "psql", "#!/bin/sh\nexec sleep 60\n")
    handler = load("it", "postgresql", {"psql": [hang]})
    with pytest.raises(HandlerFailed, match="did not end in time"):
        asyncio.run(handler.prepare(context({}, seconds=0.3)))


def test_a_missing_psql_is_found_by_the_check(tmp_path):
    """`agent check` names it before any event does."""
    assert problems(load("it", "postgresql", {"psql": [str(tmp_path / "psql")]}))
    assert problems(load("it", "postgresql", {"psql": [require_program("psql", "postgresql-client-15")]})) == []
