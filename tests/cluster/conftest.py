"""PostgreSQL for the tests of followers."""

from tests.support.postgres import database, postgres_folder

__all__ = ["database", "postgres_folder"]
