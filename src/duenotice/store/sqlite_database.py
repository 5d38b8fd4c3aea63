"""An open, checked `journal.db`: transactions, queries and upkeep; it does not know what the rows mean."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any

import apsw

from duenotice.clock import Alive
from duenotice.errors import Damaged, Unavailable
from duenotice.store import sqlite_file
from duenotice.store.codec import Mark
from duenotice.store.data_dir import DataDirectory, restore_check
from duenotice.store.open_files import OpenFiles
from duenotice.store.sqlite_file import (
    check_all,
    check_contents,
    check_header,
    check_identity,
    connect,
    find_or_create,
    grow_log,
    make_writable,
    newest_position,
)

_MARK_AT = "SELECT position, crc FROM records WHERE position = ?"


class SqliteDatabase:
    """One connection writes. Another reads and moves the write-ahead log, so that neither delays a commit."""

    def __init__(self, data_dir: Path) -> None:
        self._writing, self._reading = Lock(), Lock()
        self._intact = True
        self._overwritten: Unavailable | None = None
        self._moved_at = 0
        self.log_pages = 0
        self.restored = False
        self.seen = self._reached = 0
        with ExitStack() as undo:
            self._directory = DataDirectory(data_dir)
            self.alive: Alive | None = self._directory.alive
            undo.callback(self._directory.release)
            self.path = find_or_create(data_dir, existed=self._directory.reached is not None)
            with self.translated_errors():
                self._open(undo)
            undo.pop_all()

    def _open(self, undo: ExitStack) -> None:
        check_header(self.path)
        self._writer = connect(self.path)
        undo.callback(self._writer.close)
        check_identity(self._writer)
        check_contents(self._writer, self._directory.reached or 0, self.path.stat().st_size)
        make_writable(self._writer)
        self._writer.set_wal_hook(self._log_grew)
        self._reader = connect(self.path)
        undo.callback(self._reader.close)
        self._settle()

    def _settle(self) -> None:
        """All checks have passed: take over what a killed process left, and get ready to write."""
        newest, notes = newest_position(self._reader), self._directory
        self.restored, seen = restore_check(newest, notes.reached, notes.seen, notes.lifted_with, self._holds)
        self.note(newest)
        self.note_seen(seen)
        with suppress(apsw.FullError, apsw.IOError):  # a full disk must not keep us from reading
            self.move_log()
        grow_log(self.path)
        wal, shm, locked = self._beside("-wal"), self._beside("-shm"), self._directory.path
        files, directory = (self.path, wal, shm, locked, self.path.parent), self.path.parent
        self._files = OpenFiles(files, {wal: sqlite_file.LOG_SIZE_KEPT, locked: 0, directory: 0})
        self._log = wal
        self._files.wrote(wal)

    def _holds(self, mark: Mark) -> bool:
        return self.ask(_MARK_AT, mark[:1]) == [mark]

    @contextmanager
    def translated_errors(self) -> Iterator[None]:
        """Turns errors into ours; after damage, closing leaves the file as it is. Must not be nested."""
        try:
            with sqlite_file.translated_errors(self.path):
                yield
        except Damaged:
            self._intact = False
            raise

    def within(self, work: Callable[[apsw.Connection], None]) -> None:
        """Do this in a transaction, all or nothing (S6). It takes the write lock at once, so what is checked inside
        still holds at the commit."""
        try:
            with self._writing:
                self.check_files()  # before anything is written: what is refused must not be found there later (S6)
                self._do(work)
        except Exception as error:
            with self.translated_errors():  # only now: to go in and out of it costs as much as an insert
                raise error

    def _do(self, work: Callable[[apsw.Connection], None]) -> None:
        writer = self._writer
        writer.execute("BEGIN IMMEDIATE")
        try:
            work(writer)
            writer.execute("COMMIT")
        except BaseException:
            if writer.in_transaction:  # after some errors SQLite has rolled back by itself
                writer.execute("ROLLBACK")
            raise
        finally:
            self._files.wrote(self._log)

    def changed_by(self, statement: str, values: tuple[Any, ...]) -> int:
        """Do this in a transaction of its own, all or nothing (S6); how many rows it has changed.

        If an error has left another transaction open, nothing is done: it could be lost with that one (S5).
        """
        try:
            with self._writing:
                self.check_files()
                if self._writer.in_transaction:
                    return 0
                self._writer.execute(statement, values)
                self._files.wrote(self._log)
                return self._writer.changes()
        except Exception as error:
            with self.translated_errors():
                raise error

    def ask(self, query: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """All rows of an answer; to be called under `translated_errors`."""
        with self._reading:
            return self._reader.execute(query, values).fetchall()

    def newest_position(self) -> int:
        """The position of the newest record; to be called under `translated_errors`."""
        with self._reading:
            return newest_position(self._reader)

    def note(self, position: int) -> None:
        """Remember how far it has come. It is written down outside the database with what readers have seen, as one:
        what was not shown yet was not answered either, so nobody misses it.
        """
        self._reached = position

    def _write_down(self) -> None:
        """See `data_dir`. Not of a restored one: a start after a kill must still see that it is restored, until
        incarnations are lifted (S3)."""
        if not self.restored:
            self._directory.note(self._reached, self.seen)

    def note_lift(self, lift: Mark) -> None:
        """Remember which record is about to lift the incarnations of a restored journal, see `data_dir`."""
        self._directory.note_lift(lift)

    def end_restore(self, position: int) -> None:
        """Incarnations are lifted: from now on it is like any other."""
        self.restored = False
        self.note(position)
        self._write_down()

    def note_seen(self, position: int) -> None:
        """Remember how far readers have seen, see `data_dir`."""
        self.seen = position
        self._write_down()

    def note_alive(self, alive: Alive) -> None:
        """Remember that VMs can be answered now, see `data_dir`."""
        self.alive = alive
        if not self.restored:
            self._directory.note_alive(alive)

    def move_log(self) -> None:
        """Move the write-ahead log into the database while the writer goes on; under `translated_errors`."""
        with self._reading:
            try:
                pages, moved = self._reader.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            finally:
                self._moved_at = self._changed_at()
        if pages == moved:
            self.log_pages = 0
        self._write_down()
        self._directory.sync()

    def check_files(self) -> None:
        """Raise if a file was renamed, deleted or replaced.

        A log that was deleted lives as long as we have it open: what is in it is moved into the database, so that even
        a kill -9 loses nothing of it (S5).
        """
        if self._overwritten is not None:
            raise self._overwritten
        try:
            self._files.check()
        except Unavailable:
            if self._files.is_ours(self.path) and not self._files.is_ours(self._beside("-wal")):
                with suppress(Unavailable), self.translated_errors():
                    self.move_log()
            raise

    def check_bytes(self) -> None:
        """Raise if a file is not as it should be, or somebody else has overwritten what is stored (S5, S21).

        Only we write: into the log when something is stored, and into the database when the log is moved. If the kernel
        says that one was changed at another time, all that is stored is read. What still matches its checksums was not
        harmed. Then the log is moved: its own checksums count only at a start, and may be overwritten too.
        """
        with self._writing:
            self.check_files()
            is_touched, self._files.is_touched = self._files.is_touched, False
            self._files.wrote(self._log)
        with self._reading:
            is_touched |= self._changed_at() != self._moved_at
            self._moved_at = self._changed_at()
        if is_touched:
            try:
                with self.translated_errors():
                    self._check_all()
                    self.move_log()
            except Damaged as error:
                hint = f"Somebody else has written into it or its log while the service runs. {error.hint}"
                self._overwritten = Unavailable(error.message, hint=hint)
                raise self._overwritten from error

    def _check_all(self) -> None:
        reached, connection = self._reached, connect(self.path)
        try:
            check_all(connection, reached)
        finally:
            connection.close()

    def _changed_at(self) -> int:
        try:
            return self.path.stat().st_mtime_ns
        except OSError:
            return self._moved_at  # `check_files` says why

    def _is_anothers(self, path: Path) -> bool:
        return path.exists() and not self._files.is_ours(path)

    def _beside(self, end: str) -> Path:
        return self.path.with_name(self.path.name + end)

    def _log_grew(self, _connection: apsw.Connection, _database: str, pages: int) -> int:
        self.log_pages = pages
        return apsw.SQLITE_OK

    def close(self) -> None:
        """Leave one clean file and release the lock; a damaged file is left as it is."""
        with self._writing, self._reading:
            self._reader.close()
            with suppress(apsw.ConnectionClosedError):  # closing twice is fine
                # SQLite moves the log when its last connection goes, if it may; and then deletes the file of that name.
                may_move = self._intact and not self._is_anothers(self._beside("-wal"))
                self._writer.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0 if may_move else 1)
            self._writer.close()
            self._write_down()
            self._directory.release()
