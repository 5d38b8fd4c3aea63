"""Leads a client through the tour: makes things happen, waits in real time for what the client does, and takes notes.

The service's clock stands still unless the runner lets it go on, so that a notice lasts as long in real seconds as a
client needs, and uninteresting times take no time at all. `ClientWatch` is the client as it is seen from outside:
whether it is there, what it asks, and when it asks again.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from duenotice.clock import monotonic
from duenotice.domain import commands as c
from duenotice.domain.event import Cause, EventType, Phase, Source
from duenotice.errors import Refused
from duenotice.operator_api.calls import new_id
from duenotice.testkit.emulator import Emulator
from duenotice.testkit.fixture import FOREVER, RaisedEvent, ScheduledEvents
from duenotice.testkit.request_log import Exchange, RequestLog
from duenotice.testkit.verdicts.evidence import (
    Duty,
    Ending,
    FaultWindow,
    Kind,
    RunnerNotes,
    Tempo,
    approved_ids,
    document_of,
    read_at,
    version_of,
)
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

    def __init__(self, request_log: RequestLog, client: Client, tempo: Tempo) -> None:
        self.tempo = tempo
        self.notes = RunnerNotes()
        self.is_lost = False
        self.tell: Callable[[str], object] = lambda _: None
        """Is told of what takes long."""
        self._request_log = request_log
        self._client = client
        self._is_noted = False
        self._in_vain = 0

    # What it has done

    def exchanges(self, since: int = 0) -> list[Exchange]:
        """What it asked after the request with a number."""
        return [one for one in list(self._request_log.exchanges) if one.number > since]

    @property
    def waits(self) -> bool:
        """Whether it has asked us to answer when there is news, and there is none yet."""
        last = self.exchanges()[-1:]
        return bool(last) and last[0].is_poll and last[0].answered is None and "wait" in last[0].query

    @property
    def count(self) -> int:
        """The number of the last request."""
        exchanges = self._request_log.exchanges
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


class Runner(ClientWatch):
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
        super().__init__(emulator.request_log, client, tempo)
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

    def lead(self, trial: Callable[["Runner"], None]) -> str:
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
        self._emulator.look(lambda _: setattr(self._emulator.request_log, "on_answer", lambda _: None))
        for event in self.kit.events:
            live = self.kit._live(event.id)
            if live is None:
                continue
            try:
                if live.phase is Phase.SCHEDULED:
                    event.cancel()
                    continue
            except Refused:
                pass  # the client has approved it meanwhile
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
                self._emulator.request_log.on_answer = lambda _: None
                self._emulator.submit_soon(c.CancelEvent(event.id))

        self._emulator.look(lambda _: setattr(self._emulator.request_log, "on_answer", cancel))

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
