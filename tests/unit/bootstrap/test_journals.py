"""Which journal the settings name, and what is told when they name none."""

import builtins
from pathlib import Path
from typing import Any

import pytest

from duenotice.bootstrap.cluster import store_of
from duenotice.bootstrap.journals import is_postgres, node_name, open_journal
from duenotice.errors import Misconfigured
from duenotice.settings import ServeSettings
from duenotice.store.memory import MemoryJournal
from duenotice.store.sqlite import SqliteJournal


def test_without_a_url_it_is_a_file_or_memory(tmp_path: Path) -> None:
    assert isinstance(open_journal(None), MemoryJournal)
    journal = open_journal(tmp_path)
    assert isinstance(journal, SqliteJournal)
    journal.close()


@pytest.mark.parametrize(("url", "expected"), [("", False), ("postgresql://db/x", True), ("postgres:///x", True)])
def test_a_url_names_a_database(url: str, expected: bool) -> None:
    assert is_postgres(url) is expected


@pytest.mark.parametrize("url", ["mysql://db/x", "host=db dbname=x", "/var/lib/duenotice", "postgresql:x"])
def test_anything_else_is_refused(url: str) -> None:
    with pytest.raises(Misconfigured, match="is not the URL of a database") as caught:
        is_postgres(url)
    assert "postgresql://user@host/database" in caught.value.hint


@pytest.mark.parametrize(
    "url", ["postgresq://u:seCRet@db/x", "postgresql://u:seCRet%zz@db/x", "postgresql://u:seCRet%"]
)
def test_the_password_of_a_bad_url_is_not_shown(url: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        store_of(ServeSettings(journal=url), None, "node")
    assert "seCRet" not in caught.value.message + caught.value.hint


def test_a_missing_driver_is_told_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever does not use PostgreSQL need not have it."""
    load = builtins.__import__

    def without_driver(name: str, *rest: Any, **more: Any) -> Any:
        if name == "psycopg":
            raise ImportError("No module named 'psycopg'")
        return load(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without_driver)
    with pytest.raises(Misconfigured, match="No module named 'psycopg'") as caught:
        store_of(ServeSettings(journal="postgresql://db/x"), None, "node")
    assert caught.value.hint == "pip install 'duenotice[postgres]'"


@pytest.mark.parametrize(
    ("host", "name"), [("db-0.example", "db-0.example"), ("my host!", "my-host"), ("", "node"), ("x" * 90, "x" * 50)]
)
def test_a_node_has_the_name_of_its_host(monkeypatch: pytest.MonkeyPatch, host: str, name: str) -> None:
    """As far as that is a valid name."""
    monkeypatch.setattr("socket.gethostname", lambda: host)
    assert node_name("") == name
    assert node_name("given") == "given"


@pytest.mark.parametrize("given", ["a b", "-a", "a/b", "x" * 51, "ä"])
def test_a_name_that_is_not_valid_is_refused(given: str) -> None:
    with pytest.raises(Misconfigured, match="is not a valid name"):
        node_name(given)
