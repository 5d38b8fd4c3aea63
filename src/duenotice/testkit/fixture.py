"""What a test works with: a service with a fleet, VMs that events hit, and what the client did."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from msgspec import structs

from duenotice.clock import Instant, seconds_since_2020
from duenotice.domain import commands as c
from duenotice.domain import records as t
from duenotice.domain.event import Cause, Event, EventType, Phase
from duenotice.domain.fleet import Declaration, Fleet, Group, GroupKind, Vm
from duenotice.errors import Conflict, Malformed, NotFound
from duenotice.operator_api.calls import new_id
from duenotice.testkit.emulator import OPERATOR, Emulator
from duenotice.testkit.request_log import Exchange
from duenotice.wire.api_versions import API_VERSIONS, BY_NAME, STATUS_NAMES, TYPE_NAMES
from duenotice.wire.documents import encode_document
from duenotice.wire.fleet_file import read_fleet
from duenotice.wire.spans import LONGEST_SECONDS

DEFAULT_VM = "me"
"""What a client's VM is called wherever nobody gave it a name: in the fixture, in `run`, in `check` and in the demo."""

FOREVER = LONGEST_SECONDS


class Approval(NamedTuple):
    """Somebody approved an event."""

    event_id: str
    by: str
    at: datetime


class ScheduledEvents:
    """The fixture: all that a test can do with a service, or ask it."""

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator

    @property
    def url(self) -> str:
        """The endpoint, to use instead of http://169.254.169.254."""
        return self._emulator.url

    @property
    def now(self) -> datetime:
        """The time on the service's clock; it passes only when the test says so."""
        return self._instant.at

    @property
    def requests(self) -> list[Exchange]:
        """What clients sent, and the answers they got, oldest first."""
        return self._emulator.look(lambda _: list(self._emulator.request_log.exchanges))

    @property
    def approvals(self) -> list[Approval]:
        """The approvals by clients, each with its event and VM; not those by this test."""
        return [
            Approval(record.transition.event_id, record.transition.by.removeprefix("vm/"), record.at)
            for record in self._emulator.history()
            if isinstance(record.transition, t.EventApproved) and record.actor != OPERATOR
        ]

    @property
    def events(self) -> list["RaisedEvent"]:
        """All events that were raised, oldest first, also those that are over."""
        raised = (record.transition for record in self._emulator.history())
        return [RaisedEvent(self, change.event) for change in raised if isinstance(change, t.EventRaised)]

    @property
    def event(self) -> "RaisedEvent":
        """The event that was raised last."""
        if not (events := self.events):
            raise NotFound("No event was raised.", hint="Begin with vm().restart(), for example.")
        return events[-1]

    def fleet(self, *vms: str | Path, availability_set: str = "") -> "ScheduledEvents":
        """Replace the fleet: give names of VMs, one fleet file, or its text.

        Named VMs have the addresses 127.0.1.1, 127.0.1.2 and so on. They are standalone, or in the given set, each in
        an update domain of its own.
        """
        self._emulator.apply(_declared(vms, availability_set))
        return self

    def vm(self, name: str = "") -> "VmHandle":
        """A VM by name, or the only one there is."""
        names = self._emulator.look(lambda service: list(service.engine.state.fleet.vms))
        if not name and len(names) != 1:
            raise Conflict(f"There are {len(names)} VMs.", hint="Say which: vm('web-0').")
        if name and name not in names:
            raise NotFound(f"There is no VM named {name!r}.", hint=f"There are {', '.join(names[:10])}.")
        return VmHandle(self, name or names[0])

    def advance(self, by: timedelta | None = None, /, **spans: float) -> None:
        """Let time pass: `advance(minutes=15)`. All that is due has happened when this returns."""
        span = timedelta(**spans) if by is None else by
        if not isinstance(span, timedelta):
            raise Malformed(f"advance({span!r}) has no unit.", hint=f"Write advance(seconds={span!r}).")
        if span < timedelta():
            raise Malformed(f"Time cannot go back by {-span}.", hint="Give advance(…) a span that is not negative.")
        self._emulator.advance(span)

    def fault(self, answer: str, seconds: float = FOREVER, vm: str = "") -> None:
        """Answer wrongly, for this long on the manual clock: `fault("500", seconds=20)`; FAULTS lists all faults."""
        self.vm(vm).fault(answer, seconds)

    def no_fault(self, vm: str = "") -> None:
        """Answer correctly again."""
        self.vm(vm).no_fault()

    def jump(self) -> None:
        """Let incarnations jump ahead, as after a restore."""
        self.submit(c.LiftIncarnations(seconds_since_2020()))

    def document(self, vm: str = "", api_version: str = API_VERSIONS[-1].name) -> bytes:
        """The document that a VM would read; this does not count as a request."""
        name = self.vm(vm).name

        return self._emulator.look(
            lambda service: encode_document(
                service.publisher.open_page_of(service.engine.state.fleet.vms[name]).document, BY_NAME[api_version]
            )
        )

    def submit(self, command: c.Command) -> list[t.Record]:
        """Any command of the domain, for what has no method here."""
        return self._emulator.submit(command)

    @property
    def _instant(self) -> Instant:
        return self._emulator.look(lambda service: service.engine.clock.now())

    def _live(self, event_id: str) -> Event | None:
        return self._emulator.look(lambda service: service.engine.state.events.get(event_id))

    def _vm(self, name: str) -> Vm:
        return self._emulator.look(lambda service: service.engine.state.fleet.vms[name])

    def _listen(self, name: str) -> None:
        """As if the VM had asked already: a VM that does not listen is not told (F03)."""
        self.submit(c.EnableScope(name))

    def _make_spot(self, name: str) -> None:
        """Only spot VMs are evicted (G04)."""
        if not self._vm(name).spot:
            self.submit(c.ApplyFleet(self._emulator.look(lambda service: _with_spot(service.engine.state.fleet, name))))

    def _outcome(self, event_id: str) -> str:
        for record in reversed(self._emulator.history()):
            change = record.transition
            if getattr(change, "event_id", None) == event_id and type(change) in _OUTCOMES:
                return _OUTCOMES[type(change)]
        return "Unknown"


_OUTCOMES: dict[type, str] = {
    t.EventCompleted: "Completed",
    t.EventCancelled: "Cancelled",
    t.EventFailed: "Failed",
}


class VmHandle:
    """One VM; each verb raises an event and returns it."""

    def __init__(self, kit: ScheduledEvents, name: str) -> None:
        self._kit, self.name = kit, name

    @property
    def exists(self) -> bool:
        """Whether it is still there: a VM that was preempted or terminated is not."""
        return self._kit._emulator.look(lambda service: self.name in service.engine.state.fleet.vms)

    @property
    def event(self) -> "RaisedEvent":
        """The last event that was raised for it."""
        if not (events := [event for event in self._kit.events if self.name in event.resources]):
            raise NotFound(f"No event was raised for {self.name}.", hint="Begin with .restart(), for example.")
        return events[-1]

    def restart(self) -> "RaisedEvent":
        """Its user restarts it: Reboot, 15 minutes of notice."""
        return self._operate(EventType.REBOOT)

    def redeploy(self) -> "RaisedEvent":
        """Its user redeploys it: Redeploy, 10 minutes of notice."""
        return self._operate(EventType.REDEPLOY)

    def preempt(self) -> "RaisedEvent":
        """It is evicted: Preempt, 30 seconds of notice. It becomes a spot VM if it was not one."""
        self._kit._make_spot(self.name)
        return self._raise(c.EvictVm(new_id(), self.name))

    def freeze(self) -> "RaisedEvent":
        """Its host has maintenance: Freeze, 15 minutes of notice."""
        return self._schedule(EventType.FREEZE)

    def reboot(self) -> "RaisedEvent":
        """Its host is rebooted: Reboot, by the platform, 15 minutes of notice."""
        return self._schedule(EventType.REBOOT)

    def live_migrate(self) -> "RaisedEvent":
        """It is moved while it runs: Freeze, 15 minutes of notice."""
        return self._schedule(EventType.FREEZE, Cause.LIVE_MIGRATION)

    def terminate(self) -> "RaisedEvent":
        """It will be deleted: Terminate, 5 minutes of notice."""
        return self._schedule(EventType.TERMINATE)

    def fault(self, answer: str, seconds: float = FOREVER) -> None:
        """Answer it wrongly, for this long on the manual clock."""
        self._kit._emulator.fault(self.name, answer, seconds)

    def no_fault(self) -> None:
        """Answer it correctly again."""
        self._kit._emulator.lift(self.name)

    def _operate(self, event_type: EventType) -> "RaisedEvent":
        return self._raise(c.OperateVm(new_id(), self.name, event_type))

    def _schedule(self, event_type: EventType, cause: Cause = Cause.MAINTENANCE) -> "RaisedEvent":
        return self._raise(c.ScheduleEvent(new_id(), event_type, (self.name,), cause=cause))

    def _raise(self, command: c.Command) -> "RaisedEvent":
        self._kit._listen(self.name)
        changes = (record.transition for record in self._kit.submit(command))
        return next(RaisedEvent(self._kit, change.event) for change in changes if isinstance(change, t.EventRaised))


class RaisedEvent:
    """An event that was raised; its properties are as they are now."""

    def __init__(self, kit: ScheduledEvents, event: Event) -> None:
        self._kit, self._event = kit, event

    def __repr__(self) -> str:
        return f"<{self.type} {self.id} of {', '.join(self.resources)}: {self.status}>"

    @property
    def id(self) -> str:
        """Its EventId."""
        return self._event.id

    @property
    def type(self) -> str:
        """`Reboot` and the like."""
        return TYPE_NAMES[self._event.type]

    @property
    def resources(self) -> tuple[str, ...]:
        """The VMs hit."""
        return self._event.resources

    @property
    def not_before(self) -> datetime:
        """The earliest time when it starts by itself, without approval."""
        return self._now().not_before

    @property
    def status(self) -> str:
        """`Scheduled`, `Started`, then `Completed`, `Cancelled` or `Failed`: documents show only the first two."""
        live = self._kit._live(self.id)
        return self._kit._outcome(self.id) if live is None else STATUS_NAMES[live.phase]

    @property
    def approved_by(self) -> str:
        """The VM that approved it; empty when none has."""
        return next((approval.by for approval in self._kit.approvals if approval.event_id == self.id), "")

    def approve(self) -> None:
        """Approve it, on behalf of the client."""
        self._kit.submit(c.ApproveEvents((self.id,)))

    def cancel(self) -> None:
        """Take it back, as the operator; refused once it has started."""
        self._kit.submit(c.CancelEvent(self.id))

    def start(self) -> None:
        """Let time pass until it starts."""
        while (live := self._kit._live(self.id)) is not None and live.phase is Phase.SCHEDULED:
            # Another event may hold it back; then wait longer.
            self._kit.advance(max(live.not_before - self._kit.now, timedelta(milliseconds=1)))

    def finish(self) -> None:
        """Let it start, and let time pass until it is over."""
        self.start()
        while (live := self._kit._live(self.id)) is not None and live.impact_ends is not None:
            left = timedelta(microseconds=live.impact_ends - self._kit._instant.steady)
            self._kit.advance(max(left, timedelta(milliseconds=1)))

    def _now(self) -> Event:
        return self._kit._live(self.id) or self._event


def _declared(vms: tuple[str | Path, ...], availability_set: str) -> Declaration:
    if len(vms) == 1 and (isinstance(vms[0], Path) or "\n" in vms[0] or vms[0].endswith(".toml")):
        file = vms[0]
        text = file if isinstance(file, str) and "\n" in file else Path(file).read_text()
        return read_fleet(text)
    group = Group(GroupKind.AVAILABILITY_SET, availability_set, update_domains=max(1, len(vms)))
    key = group.key if availability_set else None
    named = tuple(
        Vm(str(name), f"127.0.1.{number}", group=key, update_domain=None if key is None else number - 1)
        for number, name in enumerate(vms, start=1)
    )
    return Declaration(f"test:{','.join(map(str, vms))}:{key}", groups=(group,) if key else (), vms=named)


def _with_spot(fleet: Fleet, name: str) -> Declaration:
    vms = tuple(structs.replace(vm, spot=True) if vm.name == name else vm for vm in fleet.vms.values())
    hosts, groups = tuple(fleet.hosts.values()), tuple(fleet.groups.values())
    return Declaration(f"{fleet.digest}+spot:{name}", fleet.site, hosts, groups, vms)
