"""The live feed as the command line reads it: records as they arrive, also across lost connections."""

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any

from duenotice.cli.api import Api, target
from duenotice.cli.errors import TimedOut
from duenotice.errors import DuenoticeError, Unavailable

FIRST_PAUSE, LONGEST_PAUSE = 0.25, 8.0
Record = dict[str, Any]
Say = Callable[[str], None]


class Feed:
    """`with Feed(api, say) as feed:` misses no record from then on. A thread reads, and `next` returns what it read.

    A lost connection is reported once. It connects again after growing pauses, and goes on where it stopped.
    """

    def __init__(self, api: Api, say: Say) -> None:
        self._api, self._say = api, say
        self._came: SimpleQueue[Record | DuenoticeError] = SimpleQueue()
        self._last_id, self._lost, self._pause = "", False, FIRST_PAUSE
        self._listens, self._closed = threading.Event(), threading.Event()
        self._failed: DuenoticeError | None = None

    def __enter__(self) -> "Feed":
        threading.Thread(target=self._run, name="feed", daemon=True).start()
        self._listens.wait()
        if self._failed is not None:
            raise self._failed
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed.set()

    def next(self, seconds: float) -> list[Record]:
        """The records that have arrived; waits at most that long for the first one."""
        came: list[Record] = []
        try:
            came.append(self._taken(seconds))
            while True:
                came.append(self._taken(0))
        except Empty:
            return came

    def _taken(self, seconds: float) -> Record:
        found = self._came.get(timeout=max(0.0, seconds)) if seconds > 0 else self._came.get_nowait()
        if isinstance(found, DuenoticeError):
            raise found
        return found

    def _run(self) -> None:
        try:
            self._listen()
        except DuenoticeError as error:
            self._failed = error
        except ValueError as error:
            self._failed = DuenoticeError(f"The feed cannot be read: {error}.", hint="Is this the operator's port?")
        if self._failed is not None:
            self._came.put(self._failed)
        self._listens.set()

    def _listen(self) -> None:
        """Connect again and again. The first connection must succeed; a token that is refused ends it."""
        while not self._closed.is_set():
            try:
                self._hear()
            except (Unavailable, TimedOut):
                if not self._listens.is_set():
                    raise
            if not (self._lost or self._closed.is_set()):
                self._lost = True
                self._say("connection lost, trying again")
            self._closed.wait(self._pause)
            self._pause = min(self._pause * 2, LONGEST_PAUSE)

    def _hear(self) -> None:
        headers = {"Last-Event-ID": self._last_id} if self._last_id else {}
        with self._api.lines(target("feed"), headers) as lines:
            for self._last_id, data in frames(lines):
                self._found()
                if data:
                    self._came.put(json.loads(data))

    def _found(self) -> None:
        if self._lost:
            self._say("connected again")
        self._lost, self._pause = False, FIRST_PAUSE
        self._listens.set()


def frames(lines: Iterable[bytes]) -> Iterator[tuple[str, bytes]]:
    """Id and data of each server-sent event that has an id; the first has no data, only our position."""
    fields: dict[bytes, bytes] = {}
    for line in lines:
        name, _, value = line.rstrip(b"\r\n").partition(b":")
        if name:
            fields[name] = value.removeprefix(b" ")
        elif not line.strip():
            if b"id" in fields:
                yield fields[b"id"].decode(), fields.get(b"data", b"")
            fields = {}
