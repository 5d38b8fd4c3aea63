"""Leads a client through trials: lets things happen, waits in real time for what the client does, and takes notes.

The service's clock stands still unless the guide lets it go on, so that a notice lasts as long in real seconds as a
client needs to see it, and what is dull takes no time at all.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from duenotice.clock import monotonic
from duenotice.domain import commands as c
from duenotice.domain.event import EventType, Phase
from duenotice.operator_api.bodies import new_id
from duenotice.testkit.emulator import Emulator
from duenotice.testkit.kit import FOREVER, RaisedEvent, ScheduledEvents
from duenotice.testkit.overheard import Exchange
from duenotice.testkit.verdicts.evidence import Notes, Tempo, Trial, Window, document_of

LOOK_SECONDS = 0.02
GONE = "gone"
STARTING_SECONDS = 60.0
"""Real seconds that a program may take until it first asks."""


class TourEnded(Exception):
    """There is nobody to lead any more; says why."""


class Guide:
    """One client, one VM, one service."""

    def __init__(
        self,
        emulator: Emulator,
        vm: str,
        peers: tuple[str, str],
        tempo: Tempo,
        is_there: Callable[[], bool] = lambda: True,
        peers_file: Path | None = None,
    ) -> None:
        """`peers` are a VM that is hit together with ours, and one that never is; `is_there` is asked all the time."""
        self.kit = ScheduledEvents(emulator)
        self.vm, self.peer, self.neighbour = vm, *peers
        self.tempo = tempo
        self.notes = Notes()
        self.peers_file = peers_file
        self._emulator = emulator
        self._is_there = is_there
        self._born: dict[str, float] = {}

    # What happens

    def reboot(self, *vms: str) -> RaisedEvent:
        """Schedule a Reboot of some VMs; of ours when none is named."""
        return self._raise(c.ScheduleEvent(new_id(), EventType.REBOOT, vms or (self.vm,)))

    def fail_host(self, host: str) -> RaisedEvent:
        """A host fails: its VM is hit already (D04)."""
        return self._raise(c.FailHost(host, new_id()))

    @contextmanager
    def fault(self, answer: str) -> Iterator[None]:
        """Answer our VM wrongly meanwhile."""
        begun = monotonic()
        self._emulator.fault(self.vm, answer, FOREVER)
        try:
            yield
        finally:
            self._emulator.lift(self.vm)
            self.notes.windows.append(Window(answer, begun, monotonic()))

    def cancel_when_shown(self, event: RaisedEvent) -> None:
        """Take an event back in the moment it is shown, before anybody can approve it."""

        def cancel(exchange: Exchange) -> None:
            if _status(exchange, event) == "Scheduled":
                self._emulator.overheard.on_answer = lambda _: None
                self._emulator.submit_soon(c.CancelEvent(event.id))

        self._emulator.look(lambda _: setattr(self._emulator.overheard, "on_answer", cancel))

    def peers_are_ready(self, event: RaisedEvent) -> None:
        """Let the others say that they are ready for an event."""
        assert self.peers_file is not None
        self.notes.ready[event.id] = monotonic()
        with self.peers_file.open("a") as file:
            file.write(f"{event.id}\n")

    # What the client does

    def first_request(self, seconds: float = STARTING_SECONDS) -> None:
        """Wait until it asks for the first time."""
        if not self._until(lambda: bool(self._exchanges()), seconds):
            raise TourEnded(f"it asked nothing in {seconds:g} s")

    def asked(self, which: Callable[[Exchange], bool], since: int) -> None:
        """Wait for a request like this that came after the one with a number."""
        self._expect(lambda: any(which(one) for one in self._exchanges(since)), "it did not ask again")

    def answered_with(self, fault: str) -> None:
        """Let it run into a fault."""
        since = self.count
        with self.fault(fault):
            self.asked(lambda one: one.method == "GET", since)

    def shown(self, event: RaisedEvent, status: str) -> float:
        """Wait until it was given a document with an event in this state; when that was."""
        return self._read(event, status, self._born.get(event.id, 0.0))

    def gone(self, event: RaisedEvent, since: float) -> None:
        """Wait until it was given a document without an event, after one that had it."""
        self._read(event, GONE, since)

    def linger(self) -> None:
        """Watch for a while, and for one poll at least."""
        since = self.count
        self.wait(self.tempo.linger)
        self.asked(lambda one: one.is_poll, since)

    def handled(self, rule: str, *events: RaisedEvent, share: float = 1.0) -> None:
        """Let it see events and handle them in a share of their notice; whether it did is noted for a rule."""
        for event in events:
            self.shown(event, "Scheduled")
        self._pass_notice(events, share)
        self.notes.trials.append(Trial(rule, tuple(event.id for event in events), monotonic()))

    def over(self, *events: RaisedEvent) -> None:
        """Let it see events start and end."""
        for event in events:
            event.start()
        since = [self.shown(event, "Started") for event in events]
        for event in events:
            event.finish()
        for event, moment in zip(events, since, strict=True):
            self.gone(event, moment)

    def wait(self, seconds: float) -> None:
        """Let real time pass, as long as it is there."""
        self._until(lambda: False, seconds)

    @property
    def count(self) -> int:
        """The number of the last request."""
        exchanges = self._emulator.overheard.exchanges
        return exchanges[-1].number if exchanges else 0

    @property
    def is_approver(self) -> bool:
        """Whether it approves events at all; if not, there is no need to wait for it."""
        handled = [trial for trial in self.notes.trials if trial.rule == "comes-back"]
        return not handled or any(one.is_approval for one in self._exchanges())

    def _pass_notice(self, events: tuple[RaisedEvent, ...], share: float) -> None:
        seconds = self.tempo.notice if self.is_approver else 2 * LOOK_SECONDS
        ends, begun = monotonic() + seconds, self.kit.now
        whole = (max(event.not_before for event in events) - begun) * share
        while (left := ends - monotonic()) > 0 and not all(self._has_begun(event) for event in events):
            self._wait_a_little()
            due = min(1.0, 1 - (left - LOOK_SECONDS) / seconds) * whole - (self.kit.now - begun)
            self.kit.advance(max(due, timedelta()))

    def _has_begun(self, event: RaisedEvent) -> bool:
        live = self.kit._live(event.id)
        return live is None or live.phase is not Phase.SCHEDULED

    def _raise(self, command: c.Command) -> RaisedEvent:
        self.kit.submit(c.EnableScope(self.vm))
        since, before = monotonic(), {event.id for event in self.kit.events}
        self.kit.submit(command)
        event = next(event for event in self.kit.events if event.id not in before)
        self._born[event.id] = since
        return event

    def _exchanges(self, since: int = 0) -> list[Exchange]:
        return [one for one in list(self._emulator.overheard.exchanges) if one.number > since]

    def _read(self, event: RaisedEvent, status: str, since: float) -> float:
        """Go by when it was answered: who waits for news may have asked long before."""

        def read() -> list[float]:
            found = (one.answered for one in self._exchanges() if _status(one, event) == status)
            return [answered for answered in found if answered is not None and answered >= since]

        self._expect(lambda: bool(read()), f"it did not read that the {event.type} is {status}")
        return read()[0]

    def _expect(self, condition: Callable[[], bool], otherwise: str) -> None:
        seconds = self.tempo.patience + self.tempo.linger
        if not self._until(condition, seconds):
            raise TourEnded(f"{otherwise} within {seconds:g} s")

    def _until(self, condition: Callable[[], bool], seconds: float) -> bool:
        ends = monotonic() + seconds
        while not condition():
            if monotonic() >= ends:
                return False
            self._wait_a_little()
        return True

    def _wait_a_little(self) -> None:
        if not self._is_there():
            raise TourEnded("it has ended")
        time.sleep(LOOK_SECONDS)


def _status(exchange: Exchange, event: RaisedEvent) -> str:
    """How an exchange showed an event."""
    document = document_of(exchange)
    if document is None:
        return ""
    return next((shown.status for shown in document.events if shown.event_id == event.id), GONE)
