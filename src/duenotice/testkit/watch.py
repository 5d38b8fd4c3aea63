"""A client as it is seen from outside, in real time: whether it is there, what it asks, and when it asks again."""

import time
from collections.abc import Callable
from typing import NamedTuple

from duenotice.clock import monotonic
from duenotice.domain.event import EventType
from duenotice.testkit.overheard import Exchange, Overheard
from duenotice.testkit.verdicts.evidence import Ending, GuideNotes, Tempo, approved_ids, read_at, version_of
from duenotice.wire.api_versions import BY_NAME

LOOK_SECONDS = 0.02
QUIET_SECONDS = 10.0
"""After this time somebody who waits wants to hear for what."""

MOST_IN_VAIN = 1
"""How often we go on after waiting for nothing: each time costs the full patience."""


class TrialEnded(Exception):
    """This trial cannot go on; says why."""


class TourEnded(Exception):
    """No client is left; says why."""


class Client(NamedTuple):
    """The client that is judged: whether it is still there, how it ended, and how to start it again if possible."""

    is_there: Callable[[], bool]
    exit_code: Callable[[], int | None] = lambda: None
    start_again: Callable[[], None] | None = None
    when_gone: str = "the client is gone"


class ClientWatch:
    """One client; what it does is noted."""

    def __init__(self, overheard: Overheard, client: Client, tempo: Tempo) -> None:
        self.tempo = tempo
        self.notes = GuideNotes()
        self.is_lost = False
        self.tell: Callable[[str], object] = lambda _: None
        """Is told of what takes long."""
        self._overheard = overheard
        self._client = client
        self._is_noted = False
        self._in_vain = 0

    # What it has done

    def exchanges(self, since: int = 0) -> list[Exchange]:
        """What it asked after the request with a number."""
        return [one for one in list(self._overheard.exchanges) if one.number > since]

    @property
    def waits(self) -> bool:
        """Whether it has asked us to answer when there is news, and there is none yet."""
        last = self.exchanges()[-1:]
        return bool(last) and last[0].is_poll and last[0].answered is None and "wait" in last[0].query

    @property
    def count(self) -> int:
        """The number of the last request."""
        exchanges = self._overheard.exchanges
        return exchanges[-1].number if exchanges else 0

    @property
    def approved(self) -> set[str]:
        """The events that it has approved."""
        taken = (one for one in self.exchanges() if one.is_approval and one.status == 200)
        return {event_id for one in taken for event_id in approved_ids(one)}

    def reads_of(self, event_type: EventType) -> bool:
        """Whether the api-version that it asks for shows such events (B10)."""
        asked = [BY_NAME[name] for one in self.exchanges() if one.is_poll and (name := version_of(one)) in BY_NAME]
        return not asked or event_type in asked[-1].types

    # Waiting for what it does

    def first_request(self, seconds: float = 0.0, since: int = 0) -> None:
        """Wait until it asks for the first time since it was started; starting may take it longer than asking again."""
        seconds = seconds or 2 * self.tempo.patience
        try:
            if self._until(lambda: bool(self.exchanges(since)), min(QUIET_SECONDS, seconds)):
                return
            if seconds > QUIET_SECONDS:
                self.tell(f"      Nothing has asked yet; there are {seconds:g} s for that.")
                if self._until(lambda: bool(self.exchanges(since)), seconds - QUIET_SECONDS):
                    return
        except TrialEnded as end:
            raise TourEnded(f"{end} before it asked") from None
        raise TourEnded(f"the client asked nothing in {seconds:g} s")

    def asked(self, which: Callable[[Exchange], bool], since: int) -> None:
        """Wait for a request like this that came after the one with a number."""
        self.expect(lambda: any(which(one) for one in self.exchanges(since)), "the client did not ask again")

    def wait(self, seconds: float) -> None:
        """Let real time pass, as long as it is there."""
        self._until(lambda: False, seconds)

    def expect(self, condition: Callable[[], bool], otherwise: str) -> None:
        """Wait for something, for as long as a client may be silent and a little more.

        A client that is silent already has less of that left: it is not waited for twice.
        """
        seconds = self.tempo.patience + self.tempo.linger
        if not self._until(condition, seconds, is_hopeless=lambda: self.silence >= seconds):
            raise TrialEnded(f"{otherwise} within {seconds:g} s")

    def _until(
        self, condition: Callable[[], bool], seconds: float, is_hopeless: Callable[[], bool] = lambda: False
    ) -> bool:
        ends = monotonic() + seconds
        while not condition():
            if monotonic() >= ends or is_hopeless():
                return False
            self.wait_a_little()
        return True

    def wait_a_little(self) -> None:
        """Wait a moment, if it is still there."""
        if not self._client.is_there():
            self.note_ending()
            code = self._client.exit_code()
            raise TrialEnded(self._client.when_gone if code is None else f"the client ended with code {code}")
        time.sleep(LOOK_SECONDS)

    # What is done when it is lost

    def find_again(self) -> None:
        """A program of ours that is silent or has ended is started again; another one may ask again by itself."""
        is_there = self._client.is_there()
        if not self.is_lost and (is_there or not self.count):
            return
        self._in_vain += is_there
        if self._in_vain > MOST_IN_VAIN:
            raise TourEnded("too often the client did not do what was expected")
        if self._client.start_again is None:
            self._wait_until_it_asks()
        elif not is_there or self.silence >= self.tempo.patience:
            self._start_again(self._client.start_again)
        self.is_lost = False

    @property
    def silence(self) -> float:
        """For how long it has asked nothing, and had nothing to wait for."""
        last = self.exchanges()[-1:]
        if not last or self.waits:
            return 0.0
        return monotonic() - read_at(last[0])

    @property
    def is_there(self) -> bool:
        """Whether it has not ended."""
        return self._client.is_there()

    def _wait_until_it_asks(self) -> None:
        since, seconds = self.count, self.tempo.patience + self.tempo.linger
        try:
            if self._until(lambda: self.waits or bool(self.exchanges(since)), seconds):
                return
        except TrialEnded as end:
            raise TourEnded(str(end)) from None
        raise TourEnded(f"the client did not ask again within {seconds:g} s")

    def _start_again(self, start_again: Callable[[], None]) -> None:
        if self._client.is_there():
            self.notes.stops.append(monotonic())
        self.note_ending()
        since = self.count
        start_again()
        self._is_noted = False
        self.first_request(since=since)

    def note_ending(self) -> None:
        """Write down that it has ended by itself, if it has."""
        code = self._client.exit_code()
        if code is not None and not self._is_noted:
            self._is_noted = True
            self.notes.endings.append(Ending(monotonic(), code))
