"""The servers that the contracts are tried on."""

from tests.support.postgres import database, postgres_folder

__all__ = ["database", "postgres_folder"]
