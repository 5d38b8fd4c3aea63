"""PostgreSQL for the tests of nodes."""

from tests.support.postgres import database, postgres_folder

__all__ = ["database", "postgres_folder"]
