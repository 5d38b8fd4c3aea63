"""The servers that journals are tried on."""

from tests.support.postgres import database, postgres_folder, server

__all__ = ["database", "postgres_folder", "server"]
