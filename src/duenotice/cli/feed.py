"""What the service tells us as time goes on: records of its feed, the events they add up to, and its clock."""

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any

from duenotice.cli.api import Api, target
from duenotice.cli.errors import TimedOut
from duenotice.clock import monotonic
from duenotice.errors import DuenoticeError, Unavailable

FIRST_PAUSE, LONGEST_PAUSE = 0.25, 8.0
Record = dict[str, Any]
Say = Callable[[str], None]
Events = dict[str, Any]

OUTCOMES = {"event-completed": "completed", "event-cancelled": "cancelled", "event-failed": "failed"}
_CARRIERS = ("event-raised", "event-moved", "event-narrowed", "event-postponed", "event-started")
_PHASES = ("scheduled", "started")
LOOK_AGAIN = 5.0
SLACK = 2.0
"""Our copy may be wrong by so many seconds before it is set again: the service tells whole seconds only."""


class Feed:
    """`with Feed(api, say) as feed:` misses no record from then on. A thread reads, and `next` returns what it read.

    A lost connection is reported once. It is tried again after growing pauses, and goes on where it was lost.
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


def fold(events: Events, record: Any) -> Any:
    """Take in a record. Returns the event to show, or None; the phase of an event that is over says how it ended."""
    action, event_id = record["action"], record["event_id"]
    if action in OUTCOMES:
        gone = events.pop(event_id, None)
        return None if gone is None else gone | {"phase": OUTCOMES[action]}
    now = _as_of(record, events.get(event_id))
    if now is None or now == events.get(event_id):
        return None
    events[event_id] = now
    return now


def _as_of(record: Any, known: Any) -> Any:
    """The event after a record; None when the record is not about an event, or is not new."""
    if record["action"] == "event-approved" and known is not None:
        return known | {"approved_by": record["details"]["by"]}
    if record["action"] not in _CARRIERS:
        return None
    event = record["details"]["event"]
    # We read the events after we opened the feed, so its first records may be older than what we read.
    older = known is not None and _PHASES.index(event["phase"]) < _PHASES.index(known["phase"])
    return None if older else event


class ServiceClock:
    """`now()` asks nobody between two reads; a countdown drawn with it runs as fast as the service's time."""

    def __init__(self, look: Callable[[], Any], steady: Callable[[], float] = monotonic) -> None:
        self._look, self._steady = look, steady
        self._at, self._read, self._speed, self.name = datetime.min.replace(tzinfo=UTC), 0.0, 0.0, ""

    def now(self) -> str:
        """The service's time."""
        if not self.name:
            self._set(self._look())
        elif self._steady() - self._read >= LOOK_AGAIN or self._speed == 0:
            with suppress(Unavailable, TimedOut):  # the feed reports the lost connection, and tries again
                self._set(self._look())
        return f"{self._guess():%Y-%m-%dT%H:%M:%SZ}"

    def _guess(self) -> datetime:
        return self._at + timedelta(seconds=(self._steady() - self._read) * self._speed)

    def _set(self, told: Any) -> None:
        at, guess, speed = datetime.fromisoformat(told["now"]), self._guess(), float(told["speed"])
        close = abs((at - guess).total_seconds()) <= SLACK * max(1.0, speed) and speed == self._speed and speed > 0
        self._at, self._read = (guess if close else at), self._steady()
        self._speed, self.name = speed, str(told["clock"])
