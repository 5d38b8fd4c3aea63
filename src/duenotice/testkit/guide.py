"""Leads a client through trials: makes things happen, waits in real time for what the client does, and takes notes.

The service's clock stands still unless the guide lets it go on, so that a notice lasts as long in real seconds as a
client needs, and uninteresting times take no time at all.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from duenotice.clock import monotonic
from duenotice.domain import commands as c
from duenotice.domain.event import Cause, EventType, Phase, Source
from duenotice.operator_api.calls import new_id
from duenotice.testkit.emulator import Emulator
from duenotice.testkit.kit import FOREVER, RaisedEvent, ScheduledEvents
from duenotice.testkit.overheard import Exchange
from duenotice.testkit.verdicts.evidence import Duty, FaultWindow, Tempo, document_of
from duenotice.testkit.watch import LOOK_SECONDS, Client, ClientWatch, TrialEnded

GONE = "gone"
_CAUSES = {Source.PLATFORM: Cause.MAINTENANCE, Source.USER: Cause.USER}


class Guide(ClientWatch):
    """One client, one VM, one service."""

    def __init__(
        self,
        emulator: Emulator,
        vm: str,
        peers: tuple[str, str],
        tempo: Tempo,
        client: Client,
        peers_file: Path | None = None,
    ) -> None:
        """`peers` are a VM that is hit together with ours, and one that never is."""
        super().__init__(emulator.overheard, client, tempo)
        self.kit = ScheduledEvents(emulator)
        self.vm, self.peer, self.neighbour = vm, *peers
        self.notes.has_peers_file = peers_file is not None
        self.peers_file = peers_file
        self._emulator = emulator
        self._born: dict[str, float] = {}
        self._sources: dict[str, Source] = {}

    def lead(self, trial: Callable[["Guide"], None]) -> str:
        """Lead it through a trial.

        Returns why it ended early, if it did; the next trial can begin in any case. Raises TourEnded when no client is
        left.
        """
        self.find_again()
        try:
            trial(self)
        except TrialEnded as end:
            self.is_lost = True
            self._clear()
            return str(end)
        return ""

    def _clear(self) -> None:
        """Clean up after a trial."""
        self._emulator.look(lambda _: setattr(self._emulator.overheard, "on_answer", lambda _: None))
        for event in self.kit.events:
            live = self.kit._live(event.id)
            if live is not None and live.phase is Phase.SCHEDULED:
                event.cancel()
            elif live is not None:
                event.finish()

    # What happens

    def reboot(self, *vms: str, source: Source | None = None) -> RaisedEvent:
        """Schedule a Reboot of some VMs, or of ours; by the platform and by its user in turn, unless given."""
        source = source or self._next_source()
        return self._raise(c.ScheduleEvent(new_id(), EventType.REBOOT, vms or (self.vm,), cause=_CAUSES[source]))

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
            self.notes.windows.append(FaultWindow(answer, begun, monotonic()))

    def cancel_when_shown(self, event: RaisedEvent) -> None:
        """Cancel an event as soon as it is shown, before anybody can approve it."""

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

    def answered_with(self, fault: str) -> None:
        """Let it meet a fault."""
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
        self.expect(
            lambda: self.waits or any(one.is_poll for one in self.exchanges(since)), "the client did not ask again"
        )

    def handled(self, rule: str, *events: RaisedEvent, share: float = 1.0) -> None:
        """Let it see events and handle them in a share of their notice; whether it did is noted for a rule."""
        for event in events:
            self.shown(event, "Scheduled")
        self._pass_notice(events, share)
        self.notes.duties.append(Duty(rule, tuple(event.id for event in events), monotonic()))

    def over(self, *events: RaisedEvent) -> None:
        """Let it see events start and end."""
        for event in events:
            event.start()
        since = [self.shown(event, "Started") for event in events]
        for event in events:
            event.finish()
        for event, moment in zip(events, since, strict=True):
            self.gone(event, moment)

    @property
    def is_approver(self) -> bool:
        """Whether it approves events, and not only long ago; if not, there is no need to wait for it."""
        duties = self.notes.duties
        handled = {self._sources[event_id] for duty in duties for event_id in duty.event_ids}
        lately = {event_id for duty in duties[-2:] for event_id in duty.event_ids}
        return handled != set(Source) or not lately.isdisjoint(self.approved)

    def _next_source(self) -> Source:
        """A source whose events it approves, because other events would show nothing; each in turn."""
        known = {self._sources[event_id] for event_id in self.approved if event_id in self._sources}
        choice = [source for source in Source if source in known] or list(Source)
        return choice[len(self._sources) % len(choice)]

    def _pass_notice(self, events: tuple[RaisedEvent, ...], share: float) -> None:
        seconds = self.tempo.notice if self.is_approver else 2 * LOOK_SECONDS
        ends, begun = monotonic() + seconds, self.kit.now
        whole = (max(event.not_before for event in events) - begun) * share
        while (left := ends - monotonic()) > 0 and not all(self._has_begun(event) for event in events):
            self.wait_a_little()
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
        self._sources[event.id] = event._now().source
        return event

    def _read(self, event: RaisedEvent, status: str, since: float) -> float:
        """The time of the answer counts: a held poll may have been asked long before."""

        def read() -> list[float]:
            found = (one.answered for one in self.exchanges() if _status(one, event) == status)
            return [answered for answered in found if answered is not None and answered >= since]

        self.expect(lambda: bool(read()), f"the client did not read that the {event.type} is {status}")
        return read()[0]


def _status(exchange: Exchange, event: RaisedEvent) -> str:
    """How an exchange showed an event."""
    document = document_of(exchange)
    if document is None:
        return ""
    return next((shown.status for shown in document.events if shown.event_id == event.id), GONE)
