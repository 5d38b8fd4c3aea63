"""Hears the notifications of PostgreSQL, in a thread with a connection of its own (N08)."""

import threading
from collections.abc import Callable
from contextlib import suppress

import psycopg

from duenotice.engine.members import Appended, Applied, Changed, Hid, Hold, MemberBeat, News, Shown
from duenotice.errors import DuenoticeError
from duenotice.journal.postgres_line import Line

Hear = Callable[[News], None]

_LISTEN = "LISTEN duenotice"
_LOOK_UP_EVERY = 0.5
"""Seconds between looks whether somebody has closed us, and before a lost connection is made again."""


def news_of(payload: str) -> News | None:
    """What a notification says; None when it is not one of ours: anybody may notify."""
    match payload.split(" ", 2):
        case ["changed"]:
            return Changed()
        case ["appended", position] if position.isdecimal():
            return Appended(int(position))
        case ["shown", position] if position.isdecimal():
            return Shown(int(position))
        case ["hid", position, life] if position.isdecimal():
            return Hid(life, int(position))
        case ["hold", position] if position.isdecimal():
            return Hold(int(position))
        case ["applied", position, life] if position.isdecimal():
            return Applied(life, int(position))
        case ["beat", beat, life] if beat.isdecimal():
            return MemberBeat(life, int(beat))
    return None


class Ear:
    """Begins to listen when somebody wants to hear; whatever was lost with a connection is told as `Changed`."""

    def __init__(self, url: str) -> None:
        self._line = Line(url)
        self._hear: list[Hear] = []
        self._ended = threading.Event()
        self._listening = threading.Event()
        self._thread = threading.Thread(target=self._run, name="postgres-ear", daemon=True)
        self._thread.start()
        self._listening.wait(_LOOK_UP_EVERY * 10)

    def add(self, hear: Hear) -> Callable[[], None]:
        """Tell this listener too; call what is returned to stop that."""
        self._hear.append(hear)

        def remove() -> None:
            with suppress(ValueError):
                self._hear.remove(hear)

        return remove

    def close(self) -> None:
        """Stop listening."""
        self._ended.set()
        self._thread.join()
        self._line.close()

    def _run(self) -> None:
        while not self._ended.is_set():
            with suppress(DuenoticeError, psycopg.Error):
                self._listen()
            self._ended.wait(_LOOK_UP_EVERY)

    def _listen(self) -> None:
        connection = self._line.connection()
        connection.execute(_LISTEN)
        if self._listening.is_set():
            self._tell(Changed())
        self._listening.set()
        while not self._ended.is_set():
            for notification in connection.notifies(timeout=_LOOK_UP_EVERY):
                if (news := news_of(notification.payload)) is not None:
                    self._tell(news)

    def _tell(self, news: News) -> None:
        for hear in list(self._hear):
            hear(news)
