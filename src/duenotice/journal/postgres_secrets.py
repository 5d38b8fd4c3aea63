"""The keys of access tokens in PostgreSQL, in a table of their own: no journal, snapshot or backup has them (M02)."""

from collections.abc import Callable
from typing import Any

import psycopg

from duenotice.journal.postgres_line import Line

_ROW = "INSERT INTO duenotice.signing_keys (keys) VALUES ('') ON CONFLICT DO NOTHING"
_READ = "SELECT keys FROM duenotice.signing_keys FOR UPDATE"
_WRITE = "UPDATE duenotice.signing_keys SET keys = %s"


class PostgresSecrets:
    """One text for all nodes; its connection is made when it is needed."""

    def __init__(self, url: str) -> None:
        self._line = Line(url)

    def change(self, work: Callable[[str], str]) -> str:
        """Store what this makes of what is there, which is "" at first; one node at a time."""

        def changed(db: "psycopg.Connection[tuple[Any, ...]]") -> str:
            db.execute(_ROW)
            ((before,),) = db.execute(_READ).fetchall()
            after = work(before)
            if after != before:
                db.execute(_WRITE, (after,))
            return after

        return self._line.run(changed)

    def close(self) -> None:
        """Close the connection."""
        self._line.close()
