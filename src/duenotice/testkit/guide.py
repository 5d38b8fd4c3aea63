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
from duenotice.testkit.verdicts.evidence import Duty, FaultWindow, Kind, Tempo, document_of
from duenotice.testkit.watch import LOOK_SECONDS, Client, ClientWatch, TrialEnded

GONE = "gone"
KINDS = (
    Kind(EventType.REBOOT, Source.PLATFORM),
    Kind(EventType.REBOOT, Source.USER),
    Kind(EventType.FREEZE, Source.PLATFORM),
    Kind(EventType.REDEPLOY, Source.PLATFORM),
    Kind(EventType.REDEPLOY, Source.USER),
)
"""The kinds of events after which a VM is still there."""

REMOVALS = (EventType.TERMINATE, EventType.PREEMPT)
"""The others, in this order: a VM that is evicted is a spot VM, and those never get Terminate (G05)."""

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
        self.notes.ends_unseen = client.start_again is None
        self.peers_file = peers_file
        self._emulator = emulator
        self.may_have_ended = False
        """Whether it was silent when it was right to end, and nobody could see whether it did."""
        self._born: dict[str, float] = {}
        self._kinds: dict[str, Kind] = {}

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
                self._end(event)

    # What happens

    def raise_one(self, kind: Kind | None = None, hits: tuple[str, ...] = ()) -> RaisedEvent:
        """Schedule an event of ours, or of these VMs; unless its kind is given, of one that the client approves."""
        return self._schedule(kind or self._next_kind(), *(hits or (self.vm,)))

    def raise_all(self, *vms: str) -> list[RaisedEvent]:
        """Schedule an event of each kind, of the same VMs."""
        return [self._schedule(kind, *vms) for kind in KINDS]

    def remove(self, vm: str, event_type: EventType) -> RaisedEvent:
        """Let a VM be evicted or deleted."""
        handle, since = self.kit.vm(vm), monotonic()
        event = handle.preempt() if event_type is EventType.PREEMPT else handle.terminate()
        return self._noted(event, since)

    @contextmanager
    def failed_hosts(self, *vms: str) -> Iterator[list[RaisedEvent]]:
        """The hosts of some VMs fail: these are hit already (D04)."""
        hosts = dict.fromkeys(self.kit._vm(vm).host for vm in vms)
        try:
            yield [event for host in hosts if host is not None for event in self._raise(c.FailHost(host, new_id()))]
        finally:
            for host in hosts:
                if host is not None:
                    self.kit.submit(c.RepairHost(host))

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
            self._end(event)
        for event, moment in zip(events, since, strict=True):
            self.gone(event, moment)

    @contextmanager
    def free_to_end(self) -> Iterator[None]:
        """It is right when it ends meanwhile; where nobody can see that, also when it asks nothing more."""
        try:
            yield
        except TrialEnded:
            if not self.notes.ends_unseen and self.is_there:
                raise
            self.may_have_ended = self.notes.ends_unseen
            self._clear()

    @property
    def is_approver(self) -> bool:
        """Whether it approves events of some kinds, and not only long ago; if not, nobody has to wait for it."""
        duties, approved = self.notes.duties, self._approved_kinds
        if not {self._kinds[event_id] for duty in duties for event_id in duty.event_ids}.issuperset(KINDS):
            return True
        alike = [duty for duty in duties if {self._kinds[event_id] for event_id in duty.event_ids} & approved]
        return not {event_id for duty in alike[-2:] for event_id in duty.event_ids}.isdisjoint(self.approved)

    @property
    def _approved_kinds(self) -> set[Kind]:
        return {self._kinds[event_id] for event_id in self.approved if event_id in self._kinds}

    def _next_kind(self) -> Kind:
        """A kind that it approves, because other events would show nothing; each in turn."""
        choice = [kind for kind in KINDS if kind in self._approved_kinds] or list(KINDS)
        return choice[len(self._kinds) % len(choice)]

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

    def _schedule(self, kind: Kind, *vms: str) -> RaisedEvent:
        (event,) = self._raise(c.ScheduleEvent(new_id(), kind.type, vms, cause=_CAUSES[kind.source]))
        return event

    def _raise(self, command: c.Command) -> list[RaisedEvent]:
        self.kit.submit(c.EnableScope(self.vm))
        since, before = monotonic(), {event.id for event in self.kit.events}
        self.kit.submit(command)
        return [self._noted(event, since) for event in self.kit.events if event.id not in before]

    def _noted(self, event: RaisedEvent, since: float) -> RaisedEvent:
        self._born[event.id] = since
        self._kinds[event.id] = Kind(event._now().type, event._now().source)
        return event

    def _end(self, event: RaisedEvent) -> None:
        """Let an event that has started be over. A VM that it would remove stays: the tour goes on with it."""
        live = self.kit._live(event.id)
        if live is not None and live.type in REMOVALS:
            self.kit.submit(c.ReportImpact(event.id, failure="The VM is needed."))
        else:
            event.finish()

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
