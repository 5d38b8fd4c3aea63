"""What the service tells us as time goes on: records of its feed, the events they add up to, and its clock."""

import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from duenotice.clock import monotonic
from duenotice.errors import DuenoticeError, Unavailable

if TYPE_CHECKING:
    from duenotice.client import OperatorClient
    from duenotice.wire.operator import Clock, Event, Record

Say = Callable[[str], None]
Events = dict[str, "Event"]

OUTCOMES = {"event-completed": "completed", "event-cancelled": "cancelled", "event-failed": "failed"}
_PHASES = ("scheduled", "started")

LOOK_AGAIN = 5.0
SLACK = 2.0
"""Our copy may be wrong by this many seconds before it is set again: the service tells whole seconds only."""


class FeedReader:
    """`with FeedReader(client, say) as feed:` misses no record from then on. A thread reads; `next` is what it read.

    After a lost connection the client connects again and goes on where it stopped; here this is only reported, once.
    """

    def __init__(self, client: "OperatorClient", say: Say) -> None:
        self._feed = client.feed(
            on_lost=lambda _: say("connection lost, trying again"), on_found=lambda: say("connected again")
        )
        self._came: SimpleQueue[Record | DuenoticeError] = SimpleQueue()
        self._closed = False

    def __enter__(self) -> "FeedReader":
        self._feed.open()
        threading.Thread(target=self._run, name="feed", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True

    def next(self, seconds: float) -> "list[Record]":
        """The records that have arrived; waits at most that long for the first one."""
        came: list[Record] = []
        try:
            came.append(self._taken(seconds))
            while True:
                came.append(self._taken(0))
        except Empty:
            return came

    def _taken(self, seconds: float) -> "Record":
        found = self._came.get(timeout=max(0.0, seconds)) if seconds > 0 else self._came.get_nowait()
        if isinstance(found, DuenoticeError):
            raise found
        return found

    def _run(self) -> None:
        try:
            for record in self._feed:
                if self._closed:
                    return
                self._came.put(record)
        except DuenoticeError as error:
            self._came.put(error)


def fold(events: Events, record: "Record") -> "Event | None":
    """Take in a record. Returns the event to show, or None; the phase of an event that is over says how it ended."""
    from msgspec.structs import replace

    event_id = record.event_id or ""
    if record.action in OUTCOMES:
        gone = events.pop(event_id, None)
        return None if gone is None else replace(gone, phase=OUTCOMES[record.action])
    now = _as_of(record, events.get(event_id))
    if now is None or now == events.get(event_id):
        return None
    events[event_id] = now
    return now


def _as_of(record: "Record", known: "Event | None") -> "Event | None":
    """The event after a record; None when the record is not about an event, or is not new."""
    from msgspec.structs import replace

    if record.action == "event-approved" and known is not None:
        return replace(known, approved_by=str(record.details.by))
    event = record.details.event
    # We read the events after we opened the feed, so its first records may be older than what we read.
    is_older = event is not None and known is not None and _PHASES.index(event.phase) < _PHASES.index(known.phase)
    return None if is_older else event


class ServiceClock:
    """The service's clock: read now and then, and counted on here at its own speed.

    `now()` asks nobody between two reads; a countdown drawn with it runs as fast as the service's time.
    """

    def __init__(self, look: "Callable[[], Clock]", steady: Callable[[], float] = monotonic) -> None:
        self._look, self._steady = look, steady
        self._at, self._read, self._speed, self.name = datetime.min.replace(tzinfo=UTC), 0.0, 0.0, ""

    def now(self) -> datetime:
        """The service's time, in whole seconds."""
        if not self.name:
            self._set(self._look())
        elif self._steady() - self._read >= LOOK_AGAIN or self._speed == 0:
            with suppress(Unavailable):  # the feed reports the lost connection, and tries again
                self._set(self._look())
        return self._guess().replace(microsecond=0)

    def _guess(self) -> datetime:
        return self._at + timedelta(seconds=(self._steady() - self._read) * self._speed)

    def _set(self, told: "Clock") -> None:
        guess = self._guess()
        is_close = abs((told.now - guess).total_seconds()) <= SLACK * max(1.0, told.speed)
        keep = is_close and told.speed == self._speed and told.speed > 0
        self._at, self._read = (guess if keep else told.now), self._steady()
        self._speed, self.name = told.speed, told.clock
