"""PostgreSQL for tests: one real server for the whole run, and a new database for each test."""

from collections.abc import Iterator
from itertools import count
from typing import NamedTuple
from urllib.parse import quote

import pytest

from tests.handlers.databases import postgresql, psql

_NUMBERS = count(1)


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
        yield connection.split()[0].removeprefix("host=")


@pytest.fixture
def database(postgres_folder: str) -> Iterator[Database]:
    """A new database."""
    made = Database(postgres_folder, f"test_{next(_NUMBERS)}")
    server = Database(postgres_folder, "postgres")
    server.sql(f"CREATE DATABASE {made.name} TEMPLATE template0 ENCODING 'UTF8'")
    yield made
    server.sql(f"DROP DATABASE {made.name} WITH (FORCE)")
