"""Looks every few seconds whether the files are where they were and ours alone, also while nothing is stored (S5).

Each commit looks after the journal by itself; this is for a service that has nothing to store, for what takes longer to
look at, for the secrets beside the journal, and for `/readyz`.
"""

import asyncio
from pathlib import Path

from duenotice.engine.engine import Engine
from duenotice.engine.log import FILES, RepeatedFailure
from duenotice.engine.ports import Journal
from duenotice.engine.threads import WorkerThread, run_in
from duenotice.errors import Misconfigured, Unavailable
from duenotice.store.sqlite import SqliteJournal
from duenotice.system import check_ours

EVERY = 4.0
"""Real seconds between two looks."""


class FileWatch:
    """Keeps `engine.trouble` up to date; a journal in memory without a directory has nothing to look at."""

    def __init__(self, engine: Engine, journal: Journal, directory: Path | None, *secrets: str) -> None:
        self._engine, self._directory, self._secrets = engine, directory, secrets
        self._journal = journal if isinstance(journal, SqliteJournal) else None
        self._failures = RepeatedFailure(FILES)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look."""
        if self._journal is not None or self._directory is not None:
            self._task = asyncio.create_task(self._run(), name="file-watch")
            self._task.add_done_callback(self._engine.lost)

    async def stop(self) -> None:
        """Stop looking: the files are closed next."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _look(self) -> None:
        if self._journal is not None:
            self._journal.check_files()
        if self._directory is not None:
            try:
                check_ours(self._directory, *self._secrets)
            except Misconfigured as error:
                raise Unavailable(error.message, hint=error.hint) from error

    async def _run(self) -> None:
        worker = WorkerThread("file-watch")  # its own: a disk that hangs must delay nothing else
        try:
            while True:
                try:
                    await run_in(worker, self._look)
                except Unavailable as trouble:
                    self._engine.trouble = trouble
                    self._failures.failed(trouble)
                else:
                    self._engine.trouble = None
                    self._failures.worked()
                await asyncio.sleep(EVERY)
        finally:
            worker.shutdown(wait=False)
