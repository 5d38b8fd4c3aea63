"""Looks every few seconds whether the files of the journal are where they were, also while nothing is stored (S5).

Each commit looks by itself; this is for a service that has nothing to store, and for `/readyz`.
"""

import asyncio

from duenotice.engine.engine import Engine
from duenotice.engine.log import FILES, RepeatedFailure
from duenotice.engine.ports import Journal
from duenotice.engine.threads import WorkerThread, run_in
from duenotice.errors import Unavailable
from duenotice.store.sqlite import SqliteJournal

EVERY = 4.0
"""Real seconds between two looks."""


class FileWatch:
    """Keeps `engine.trouble` up to date; only a journal in files has something to look at."""

    def __init__(self, engine: Engine, journal: Journal) -> None:
        self._engine = engine
        self._journal = journal if isinstance(journal, SqliteJournal) else None
        self._failures = RepeatedFailure(FILES)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look."""
        if self._journal is not None:
            self._task = asyncio.create_task(self._run(self._journal), name="file-watch")
            self._task.add_done_callback(self._engine.lost)

    async def stop(self) -> None:
        """Stop looking: the files are closed next."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self, journal: SqliteJournal) -> None:
        worker = WorkerThread("file-watch")  # its own: a disk that hangs must delay nothing else
        try:
            while True:
                try:
                    await run_in(worker, journal.check_files)
                except Unavailable as trouble:
                    self._engine.trouble = trouble
                    self._failures.failed(trouble)
                else:
                    self._engine.trouble = None
                    self._failures.worked()
                await asyncio.sleep(EVERY)
        finally:
            worker.shutdown(wait=False)
