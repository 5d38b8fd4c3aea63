"""`postgresql`: a checkpoint before the event, so that the start after it is quick; needs the program `psql`."""

from msgspec import Struct

from duenotice.agent.handlers.base import Argv, Handler, HandlerContext, until
from duenotice.agent.handlers.processes import run

_SWITCH_WAL = "SELECT CASE WHEN pg_is_in_recovery() THEN NULL ELSE pg_switch_wal() END"
_BEHIND = """
SELECT count(*) FROM pg_stat_replication
WHERE NOT pg_is_in_recovery() AND state = 'streaming' AND flush_lsn < '{}'::pg_lsn
"""
_POSITION = "SELECT CASE WHEN pg_is_in_recovery() THEN '0/0' ELSE pg_current_wal_flush_lsn() END"


class Options(Struct, frozen=True, forbid_unknown_fields=True):
    """How to reach the server, as libpq writes it; `psql` may begin with `runuser -u postgres --`."""

    connection: str = "dbname=postgres"
    """As libpq writes it."""
    psql: Argv = ("/usr/bin/psql",)
    switch_wal: bool = False
    """Also begin a new file of the write-ahead log."""
    wait_for_replicas: bool = False
    """Also wait until the standbys have all of it on disk."""

    def __post_init__(self) -> None:
        if not self.psql or not self.psql[0].startswith("/"):
            raise ValueError("`psql` must begin with an absolute path")


class Postgresql(Handler[Options]):
    """Changes nothing that would have to be put back."""

    options = Options

    async def prepare(self, context: HandlerContext) -> None:
        await self._ask(context, "CHECKPOINT")
        if self._options.switch_wal:
            await self._ask(context, _SWITCH_WAL)
        if self._options.wait_for_replicas:
            position = await self._ask(context, _POSITION)
            await until(context, f"replicas to flush {position}", lambda: self._flushed(context, position), pause=0.5)

    async def recover(self, context: HandlerContext) -> None:
        """Nothing to do: a checkpoint need not be undone."""

    def programs(self) -> list[Argv]:
        return [self._options.psql]

    async def _flushed(self, context: HandlerContext, position: str) -> bool:
        return await self._ask(context, _BEHIND.format(position)) == "0"

    async def _ask(self, context: HandlerContext, query: str) -> str:
        flags = ("--no-psqlrc", "--no-password", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1")
        argv = (*self._options.psql, *flags, f"--dbname={self._options.connection}", f"--command={query}")
        return (await run(argv, context)).strip()
