"""Lets tests that start nodes in memory start them on PostgreSQL instead: `pytest -p tests.support.on_postgres …`.

All that a VM or an operator sees must be the same, so these tests must pass as they are, but for `NOT_HERE` of
`three_nodes`: on a database a node is one of several, also when it is the only one.
"""

from contextlib import ExitStack
from itertools import count
from typing import Any

import pytest

from tests.handlers.databases import postgresql
from tests.support.node import Node
from tests.support.postgres import Database

_RUNNING = ExitStack()


def pytest_sessionstart() -> None:
    """One server for all."""
    connection = _RUNNING.enter_context(postgresql("fsync=off", "max_connections=400"))
    server = Database(connection.split()[0].removeprefix("host="), "postgres")
    numbers, begin = count(1), Node.__init__

    def on_postgres(node: Node, *args: Any, **settings: Any) -> None:
        if settings.get("data_dir", ":memory:") == ":memory:":
            database = server._replace(name=f"node_{next(numbers)}")
            server.sql(f"CREATE DATABASE {database.name} TEMPLATE template0 ENCODING 'UTF8'")
            settings["journal"] = database.url
        begin(node, *args, **settings)

    _RUNNING.enter_context(pytest.MonkeyPatch.context()).setattr(Node, "__init__", on_postgres)


def pytest_sessionfinish() -> None:
    """The server ends with the run."""
    _RUNNING.close()
