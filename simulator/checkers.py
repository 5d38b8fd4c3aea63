"""One checker for each safety promise of the service: the sentence is its docstring, `see` fails when it is broken.

A checker is fed moments in order and depends on nothing else, so the state machine, the simulator and anything that
can write down a history share them.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from copy import deepcopy
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Protocol

from duenotice.clock import Instant
from duenotice.domain import commands as c
from duenotice.domain import records as t
from duenotice.domain.event import Cause, Consent, Event, EventType, Phase
from simulator.history import Answer, Committed, Moment, Outcome, World, parsed, scope_of
from simulator.shape import faults

LEAST_NOTICE = {
    EventType.FREEZE: 900,
    EventType.REBOOT: 900,
    EventType.REDEPLOY: 600,
    EventType.PREEMPT: 30,
    EventType.TERMINATE: 300,
    EventType.SPOT_REBALANCE_RECOMMENDATION: 30,
}
ADVICE = EventType.SPOT_REBALANCE_RECOMMENDATION
PLANNED = {Cause.MAINTENANCE, Cause.LIVE_MIGRATION, Cause.DEGRADED_HOST}
MOVES: dict[tuple[type, Phase], Phase] = {
    (t.EventPostponed, Phase.SCHEDULED): Phase.SCHEDULED,
    (t.EventStarted, Phase.SCHEDULED): Phase.STARTED,
    (t.EventCompleted, Phase.STARTED): Phase.COMPLETED,
    (t.EventFailed, Phase.STARTED): Phase.FAILED,
    (t.EventCancelled, Phase.SCHEDULED): Phase.CANCELLED,
}
STATUS = {Phase.SCHEDULED: "Scheduled", Phase.STARTED: "Started"}


class Checker(Protocol):
    """Looks at one moment after the other."""

    def see(self, moment: Moment) -> None:
        """Raise AssertionError when the promise is broken."""


class S1:
    """A Scheduled event starts only if approved, or when its notice has truly elapsed and now ≥ NotBefore.
    Late is allowed, early never. (What its owner has approved beforehand is approved, see M09.) Advice never starts."""

    def __init__(self) -> None:
        self._world = World()
        self._promised: dict[str, tuple[Instant, datetime]] = {}
        self._approved: set[str] = set()
        self._started: set[str] = set()

    def see(self, moment: Moment) -> None:
        for committed in moment.committed:
            self._follow(committed)
            self._world.see(committed.record.transition)
        for vm, event in moment.shown():
            if event["EventStatus"] == "Started":
                assert event["EventId"] in self._started, f"{vm} reads Started before {event['EventId']} has started"

    def _follow(self, committed: Committed) -> None:
        match committed.record.transition:
            case t.EventRaised(event) if event.phase is Phase.STARTED:
                at_once = event.cause is Cause.USER and self._world.owner_has_approved(event)
                assert at_once or event.cause is Cause.HOST_FAILURE, f"{event.id} was born started, and nobody asked"
                self._started.add(event.id)
            case t.EventRaised(event):
                self._promised[event.id] = committed.decided, event.not_before
                if event.approved_by:
                    fine = event.scope not in self._world.listening or self._world.owner_has_approved(event)
                    assert fine, f"{event.id} was born approved, yet VMs listen"
                    self._approved.add(event.id)
            case t.EventPostponed(event):
                self._promised[event.id] = committed.decided, event.not_before
            case t.EventApproved(event_id):
                self._approved.add(event_id)
            case t.EventStarted(event):
                assert event.type is not ADVICE, f"{event.id} is advice, and starts"
                self._started.add(event.id)
                if event.id not in self._approved:
                    self._check_elapsed(event.id, committed.decided)

    def _check_elapsed(self, event_id: str, started: Instant) -> None:
        told, promised = self._promised[event_id]
        notice, elapsed = promised - told.at, timedelta(microseconds=started.steady - told.steady)
        assert elapsed >= notice, f"{event_id} started after {elapsed} of {notice} of notice"
        assert started.at >= promised, f"{event_id} started before its NotBefore {promised}"


class C07:
    """A maintenance with the consent of hosts hits no VM of a host while a scope there, which it has told, has neither
    approved nor run out of notice."""

    def __init__(self) -> None:
        self._world = World()
        self._plans: set[str] = set()
        self._hosts: dict[str, tuple[str | None, str]] = {}
        self._silent: dict[str, tuple[Instant, datetime]] = {}

    def see(self, moment: Moment) -> None:
        for committed in moment.committed:
            self._follow(committed)
            self._world.see(committed.record.transition)

    def _follow(self, committed: Committed) -> None:
        match committed.record.transition:
            case t.MaintenanceStarted(plan) if plan.consent is Consent.HOST:
                self._plans.add(plan.id)
            case t.EventRaised(event) if event.maintenance in self._plans and event.phase is Phase.SCHEDULED:
                host = self._world.vms[event.resources[0]].host
                if host is not None:
                    self._hosts[event.id] = event.maintenance, host
                    if not event.approved_by:
                        self._silent[event.id] = committed.decided, event.not_before
            case t.EventPostponed(event) if event.id in self._silent:
                self._silent[event.id] = committed.decided, event.not_before
            case t.EventApproved(event_id) | t.EventCancelled(event_id):
                self._silent.pop(event_id, None)
            case t.EventStarted(event) if event.id in self._hosts:
                self._check_agreed(event, committed.decided)
                self._silent.pop(event.id, None)

    def _check_agreed(self, event: Event, started: Instant) -> None:
        for event_id, (told, promised) in self._silent.items():
            if self._hosts[event_id] == self._hosts[event.id]:
                elapsed = timedelta(microseconds=started.steady - told.steady)
                is_over = elapsed >= promised - told.at and started.at >= promised
                assert is_over, f"{event.id} starts while {event_id} on the same host has not approved"


class S2:
    """Published NotBefore ≥ commit time + minimum notice; it never moves earlier."""

    def __init__(self) -> None:
        self._world = World()
        self._allowed: dict[str, datetime] = {}

    def see(self, moment: Moment) -> None:
        for committed in moment.committed:
            match committed.record.transition:
                case t.EventRaised(event) if self._owes_nothing(event):
                    self._allowed[event.id] = event.not_before
                case t.EventRaised(event) if event.phase is Phase.SCHEDULED:
                    self._allowed[event.id] = committed.visible.at + self._least_notice(event)
            self._world.see(committed.record.transition)
        for vm, shown in moment.shown():
            if shown["NotBefore"]:
                self._check(vm, shown["EventId"], parsedate_to_datetime(shown["NotBefore"]))

    def _check(self, vm: str, event_id: str, not_before: datetime) -> None:
        earliest = self._allowed[event_id]
        assert not_before >= earliest, f"{vm} reads NotBefore {not_before} for {event_id}, allowed is {earliest}"
        self._allowed[event_id] = not_before

    def _owes_nothing(self, event: Event) -> bool:
        """No notice is owed to those who do not listen (F03), or who have said beforehand that they want none (M09)."""
        listens = event.scope in self._world.listening
        return self._world.owner_has_approved(event) if listens else bool(event.approved_by)

    def _least_notice(self, event: Event) -> timedelta:
        group = self._world.groups.get(self._world.vms[event.resources[0]].group or "")
        asked = group.terminate_notice if group and event.type is EventType.TERMINATE else None
        return timedelta(seconds=asked or LEAST_NOTICE[event.type])


class S3:
    """For one VM the incarnation never goes back: restart, failover, move to another scope, 24 h of silence,
    restore."""

    def __init__(self) -> None:
        self._highest: dict[str, int] = {}

    def see(self, moment: Moment) -> None:
        for (vm, _), body in moment.documents.items():
            incarnation = parsed(body)["DocumentIncarnation"]
            highest = self._highest.get(vm, 0)
            assert incarnation >= highest, f"{vm} has seen incarnation {highest} and now reads {incarnation}"
            self._highest[vm] = incarnation


class S4:
    """The incarnation changes if and only if the events change; same scope and incarnation, same bytes, on every
    node. (It may skip ahead when a VM comes to the scope or a backup is restored, see S3.)"""

    def __init__(self) -> None:
        self._world = World()
        self._bytes: dict[tuple[str, str, int], bytes] = {}
        self._incarnations: dict[str, int] = {}
        self._floor = 0
        self._changes: Counter[str] = Counter()
        self._arrivals: set[str] = set()

    def see(self, moment: Moment) -> None:
        for committed in moment.committed:
            self._count(committed.record.transition)
        for scope, incarnation in self._read(moment).items():
            self._check_step(scope, incarnation)

    def remember(self, other: "S4") -> None:
        """Hold what another one has read against the promise too."""
        self._bytes |= other._bytes

    def _count(self, transition: t.Transition) -> None:
        match transition:
            case t.EventRaised(event) | t.EventPostponed(event) | t.EventStarted(event) | t.EventNarrowed(event):
                self._changes[event.scope] += 1
            case t.EventCompleted(scope=scope) | t.EventCancelled(scope=scope) | t.EventFailed(scope=scope):
                self._changes[scope] += 1
            case t.EventMoved(event, from_scope):
                self._changes.update((event.scope, from_scope))
            case t.IncarnationsLifted(by):
                self._floor += by
                self._incarnations = {scope: known + by for scope, known in self._incarnations.items()}
            case t.VmsPut(vms):
                self._arrivals |= {scope_of(vm) for vm in vms if self._world.scope(vm.name) != scope_of(vm)}
        self._world.see(transition)

    def _read(self, moment: Moment) -> dict[str, int]:
        """The incarnation of each scope that somebody reads; the same one has the same bytes for ever."""
        incarnations: dict[str, int] = {}
        for (vm, version), body in moment.documents.items():
            scope = self._world.scope(vm)
            assert scope is not None, f"{vm} reads a document but is not in the fleet"
            incarnation = parsed(body)["DocumentIncarnation"]
            known = self._bytes.setdefault((scope, version, incarnation), body)
            assert known == body, f"{scope} at {incarnation} in {version} was {known!r} and is {body!r}"
            assert incarnations.setdefault(scope, incarnation) == incarnation, f"VMs of {scope} read different ones"
        return incarnations

    def _check_step(self, scope: str, incarnation: int) -> None:
        step = incarnation - self._incarnations.get(scope, self._floor)
        changes, arrived = self._changes.pop(scope, 0), scope in self._arrivals
        assert step == changes or arrived, f"{scope} went on by {step} incarnations, its events changed {changes} times"
        self._incarnations[scope] = incarnation
        self._arrivals.discard(scope)


class S5:
    """What was answered as done survives kill -9 and power loss."""

    def __init__(self) -> None:
        self._world = World()
        self._promised: dict[int, t.Record] = {}
        self._live: dict[str, str] = {}

    def see(self, moment: Moment) -> None:
        if moment.reread is not None:
            self._check_reread(moment.reread)
        for answer in moment.answers:
            self._promised |= {record.position: record for record in answer.records}
        for committed in moment.committed:
            self._follow(committed.record)
        shown = set(moment.shown_ids())
        for vm in {vm for vm, _ in moment.documents}:
            for event_id, scope in self._live.items():
                if scope == self._world.scope(vm):
                    assert (vm, event_id) in shown, f"{vm} no longer reads {event_id}, which nothing has ended"

    def _check_reread(self, reread: tuple[t.Record, ...]) -> None:
        """The new process came after the moment before, so everything answered until then must be there."""
        for position, record in self._promised.items():
            found = reread[position - 1] if position <= len(reread) else None
            assert found == record, f"record {position} was answered as done; the journal now has {found}"

    def _follow(self, record: t.Record) -> None:
        self._world.see(record.transition)
        match record.transition:
            case t.EventRaised(event) | t.EventMoved(event):
                self._live[event.id] = event.scope
            case t.EventCompleted(event_id) | t.EventCancelled(event_id) | t.EventFailed(event_id):
                self._live.pop(event_id, None)


class S6:
    """What was refused had no effect; what timed out took effect at most once."""

    def __init__(self) -> None:
        self._effects: dict[str, list[t.Record]] = defaultdict(list)
        self._settled: set[str] = set()
        self._unknown: set[str] = set()

    def see(self, moment: Moment) -> None:
        for committed in moment.committed:
            record = committed.record
            assert record.actor not in self._settled, f"{record.actor} was answered, yet {record} came after that"
            self._effects[record.actor].append(record)
        for answer in moment.answers:
            if answer.outcome is Outcome.UNKNOWN:
                self._unknown.add(answer.actor)
            else:
                self._settle(answer)
        for actor in self._unknown & {committed.record.actor for committed in moment.committed}:
            _check_once(actor, [record.transition for record in self._effects[actor]])

    def _settle(self, answer: Answer) -> None:
        effects = tuple(self._effects.pop(answer.actor, ()))
        self._settled.add(answer.actor)
        if answer.outcome is Outcome.REFUSED:
            assert not effects, f"{answer.actor} was refused but had the effects {effects}"
        else:
            assert effects == answer.records, f"{answer.actor} was told {answer.records}, but truly came {effects}"


def _check_once(actor: str, effects: list[t.Transition]) -> None:
    twice = [effect for number, effect in enumerate(effects) if effect in effects[:number]]
    assert not twice, f"nobody knows what came of {actor}, but this came of it twice: {twice}"


class S7:
    """Only Scheduled → Started → gone, Scheduled → gone, or born Started → gone; an id is never used again; a gone
    event never comes back."""

    def __init__(self) -> None:
        self._phases: dict[str, Phase] = {}

    def see(self, moment: Moment) -> None:
        for committed in moment.committed:
            self._follow(committed.record.transition)
        for vm, event in moment.shown():
            event_id, status = event["EventId"], event["EventStatus"]
            phase = self._phases.get(event_id)
            assert phase and STATUS.get(phase) == status, f"{vm} reads {event_id} as {status}, but it is {phase}"

    def _follow(self, transition: t.Transition) -> None:
        match transition:
            case t.EventRaised(event):
                assert event.id not in self._phases, f"the id {event.id} is used again"
                self._phases[event.id] = event.phase
            case t.EventMoved(event) | t.EventNarrowed(event):
                assert self._phases[event.id] is event.phase, f"{event.id} was {self._phases[event.id]} before it moved"
            case t.EventPostponed(event) | t.EventStarted(event):
                self._move(transition, event.id)
            case t.EventCompleted(event_id) | t.EventCancelled(event_id) | t.EventFailed(event_id):
                self._move(transition, event_id)

    def _move(self, transition: t.Transition, event_id: str) -> None:
        phase = self._phases[event_id]
        to = MOVES.get((type(transition), phase))
        assert to, f"{type(transition).__name__} while {event_id} is {phase.value}"
        self._phases[event_id] = to


class S8:
    """Each api-version shows exactly its fields, types and formats."""

    def __init__(self) -> None:
        self._world = World()
        self._fine: set[tuple[str, bool, bytes]] = set()

    def see(self, moment: Moment) -> None:
        for committed in moment.committed:
            self._world.see(committed.record.transition)
        for (vm, version), body in moment.documents.items():
            is_role = (self._world.scope(vm) or "").startswith("service/")
            if (version, is_role, body) not in self._fine:
                found = faults(body, version, is_role)
                assert not found, f"{vm} in {version} reads {body!r}: {found}"
                self._fine.add((version, is_role, body))


class S10:
    """Resources of an event lie in one update domain."""

    def __init__(self) -> None:
        self._world = World()

    def see(self, moment: Moment) -> None:
        for committed in moment.committed:
            match committed.record.transition:
                case t.EventRaised(event) | t.EventMoved(event) | t.EventNarrowed(event):
                    domains = {_domain(self._world, name) for name in event.resources if name in self._world.vms}
                    assert len(domains) == 1, f"{event.id} hits the update domains {domains}"
            self._world.see(committed.record.transition)


class S11:
    """Of one availability set at most one update domain is under maintenance at a time; or one fault domain, of work
    without a reboot that goes by those. (A failure asks nobody, and what a user does to a VM of theirs is no
    maintenance.)"""

    def __init__(self) -> None:
        self._world = World()
        self._domains: dict[str, tuple[str, int | None]] = {}
        self._hit: dict[str, tuple[str, int | None]] = {}

    def see(self, moment: Moment) -> None:
        for committed in moment.committed:
            self._follow(committed.record.transition)
            self._world.see(committed.record.transition)

    def _follow(self, transition: t.Transition) -> None:
        match transition:
            case t.EventRaised(event) | t.EventMoved(event) | t.EventNarrowed(event):
                self._domains[event.id] = _home(self._world, event)
                if event.fault_domain is not None:
                    self._domains[event.id] = self._by_fault_domain(event)
                if event.id in self._hit:
                    self._hit[event.id] = self._domains[event.id]
            case t.EventStarted(event) if event.cause in PLANNED:
                self._hit[event.id] = scope, domain = self._domains[event.id]
                both = [other for other in self._hit.values() if other[0] == scope and other[1] != domain]
                assert not both, f"{event.id} hits update domain {domain} of {scope} while {both} is under maintenance"
            case t.EventCompleted(event_id) | t.EventFailed(event_id):
                self._hit.pop(event_id, None)

    def _by_fault_domain(self, event: Event) -> tuple[str, int]:
        """A Freeze may go by fault domain instead (G01); ~ of it, so that it is no update domain."""
        assert event.type is EventType.FREEZE, f"{event.id} is a {event.type.value}, and goes by fault domain"
        return event.scope, ~(event.fault_domain or 0)


class S16:
    """No VM outside the scope sees or approves an event; foreign and unknown ids look alike."""

    def __init__(self) -> None:
        self._world = World()
        self._scopes: dict[str, str] = {}
        self._look: tuple[object, ...] | None = None

    def see(self, moment: Moment) -> None:
        asked_from = {answer.actor: self._caller_scope(answer) for answer in moment.answers}
        for committed in moment.committed:
            match committed.record.transition:
                case t.EventRaised(event) | t.EventMoved(event) | t.EventNarrowed(event):
                    self._scopes[event.id], _ = _home(self._world, event)
            self._world.see(committed.record.transition)
        for vm, event_id in moment.shown_ids():
            home = self._scopes[event_id]
            assert home == self._world.scope(vm), f"{vm} reads {event_id}, which belongs to {home}"
        for answer in moment.answers:
            self._check_approval(answer, asked_from[answer.actor])

    def _caller_scope(self, answer: Answer) -> str | None:
        is_vm = isinstance(answer.command, c.ApproveEvents) and answer.command.vm is not None
        return self._world.scope(answer.command.vm) if is_vm else None  # type: ignore[attr-defined]

    def _check_approval(self, answer: Answer, caller_scope: str | None) -> None:
        if caller_scope is None or not isinstance(answer.command, c.ApproveEvents):
            return
        for event_id in answer.command.event_ids if answer.outcome is Outcome.DONE else ():
            home = self._scopes.get(event_id)
            assert home == caller_scope, f"{answer.command.vm} approved {event_id}, which belongs to {home}"
        if answer.outcome is Outcome.REFUSED:
            self._check_look(answer, answer.command.event_ids)

    def _check_look(self, answer: Answer, event_ids: Iterable[str]) -> None:
        assert answer.error is not None, f"{answer.actor} was refused without a reason"
        message = answer.error.message
        for event_id in event_ids:
            message = message.replace(event_id, "…")
        look = (type(answer.error), message, answer.error.hint)
        self._look = self._look or look
        assert look == self._look, f"one refused approval looks like {look}, another like {self._look}"


class S17:
    """Approvals are idempotent; two at once are one. To approve advice does nothing."""

    def __init__(self) -> None:
        self._approved: set[str] = set()
        self._started: set[str] = set()
        self._gone: set[str] = set()
        self._advice: set[str] = set()

    def see(self, moment: Moment) -> None:
        for committed in moment.committed:
            self._follow(committed.record.transition)
        settled = self._approved | self._started | self._gone | self._advice
        for answer in moment.answers:
            if isinstance(answer.command, c.ApproveEvents) and answer.outcome is Outcome.DONE:
                lost = set(answer.command.event_ids) - settled
                assert not lost, f"{answer.actor} approved {lost} and was told so, but they still wait"

    def _follow(self, transition: t.Transition) -> None:
        match transition:
            case t.EventRaised(event):
                self._advice |= {event.id} if event.type is ADVICE else set()
                self._approved |= {event.id} if event.approved_by else set()
                self._started |= {event.id} if event.phase is Phase.STARTED else set()
            case t.EventApproved(event_id):
                assert event_id not in self._advice, f"{event_id} is advice, and is approved"
                again = event_id in self._approved | self._started | self._gone
                assert not again, f"{event_id} is approved a second time, or too late"
                self._approved.add(event_id)
            case t.EventStarted(event):
                assert event.id not in self._started, f"{event.id} starts a second time"
                self._started.add(event.id)
            case t.EventCompleted(event_id) | t.EventCancelled(event_id) | t.EventFailed(event_id):
                self._gone.add(event_id)


class S19:
    """Cancel, start and approve at once: one winner, everyone agrees."""

    def __init__(self) -> None:
        self._started: set[str] = set()
        self._cancelled: dict[str, str] = {}

    def see(self, moment: Moment) -> None:
        for committed in moment.committed:
            self._follow(committed.record)
        for answer in moment.answers:
            if isinstance(answer.command, c.CancelEvent):
                self._check_cancel(answer, answer.command.event_id)
        for vm, event in moment.shown():
            event_id = event["EventId"]
            assert event_id not in self._cancelled, f"{event_id} was cancelled, yet {vm} still reads it"
            started = event["EventStatus"] == "Started"
            assert started == (event_id in self._started), f"{vm} does not agree on whether {event_id} has started"

    def _follow(self, record: t.Record) -> None:
        match record.transition:
            case t.EventRaised(event) if event.phase is Phase.STARTED:
                self._started.add(event.id)
            case t.EventStarted(event):
                assert event.id not in self._cancelled, f"{event.id} was cancelled and starts nevertheless"
                self._started.add(event.id)
            case t.EventCancelled(event_id):
                assert event_id not in self._started, f"{event_id} has started and is cancelled nevertheless"
                assert event_id not in self._cancelled, f"{event_id} is cancelled twice"
                self._cancelled[event_id] = record.actor

    def _check_cancel(self, answer: Answer, event_id: str) -> None:
        winner = self._cancelled.get(event_id)
        if answer.outcome is Outcome.DONE:
            assert winner == answer.actor, f"{answer.actor} was told it cancelled {event_id}; the winner is {winner}"
        if answer.outcome is Outcome.REFUSED:
            assert winner != answer.actor, f"{answer.actor} was refused, yet its cancelling {event_id} won"


class S25:
    """Notice is time in which it could be read: time in which no node could answer does not count. And once changes can
    be stored again, documents say so, give or take 2 seconds."""

    def __init__(self) -> None:
        self._ends: dict[str, int] = {}
        self._was_away = False

    def see(self, moment: Moment) -> None:
        for absence in moment.absences:
            counted, away = absence.ended.steady - absence.begun.steady, absence.ended.at - absence.begun.at
            assert not counted, f"{timedelta(microseconds=counted)} of {away} away count as notice"
            self._was_away = True
        for committed in moment.committed:
            self._follow(committed)
        if self._was_away and not any(answer.outcome is Outcome.UNKNOWN for answer in moment.answers):
            self._was_away = False
            self._check_told(moment)

    def _follow(self, committed: Committed) -> None:
        match committed.record.transition:
            case t.EventRaised(event) | t.EventPostponed(event) if not event.approved_by:
                left = event.not_before - committed.decided.at
                self._ends[event.id] = committed.decided.steady + left // timedelta(microseconds=1)
            case t.EventApproved(event_id):
                self._ends.pop(event_id, None)

    def _check_told(self, moment: Moment) -> None:
        for vm, event in moment.shown():
            left = self._ends.get(event["EventId"], 0) - moment.now.steady
            if event["NotBefore"] and left > 0:
                ends = moment.now.at + timedelta(microseconds=left)
                told = parsedate_to_datetime(event["NotBefore"])
                late = ends - told
                assert late <= timedelta(seconds=2), f"{vm} reads NotBefore {told}, but its notice ends {late} later"


CHECKERS: tuple[type[Checker], ...] = (S1, C07, S2, S3, S4, S5, S6, S7, S8, S10, S11, S16, S17, S19, S25)


class Observer:
    """All checkers at once."""

    def __init__(self, kinds: Iterable[type[Checker]] = CHECKERS) -> None:
        self._checkers: dict[type[Checker], Checker] = {kind: kind() for kind in kinds}

    def see(self, moment: Moment) -> None:
        """Show the moment to each; a broken promise names itself."""
        for kind, checker in self._checkers.items():
            try:
                checker.see(moment)
            except AssertionError as broken:
                raise AssertionError(f"{kind.__name__}: {broken}") from broken

    @property
    def s4(self) -> S4:
        checker = self._checkers[S4]
        assert isinstance(checker, S4)
        return checker

    def copy(self) -> "Observer":
        """One that has seen the same."""
        return deepcopy(self)

    def after_restoring(self, backup: "Observer") -> "Observer":
        """What came after a backup is undone by restoring it; only what VMs have seen cannot be unseen (S3, S4)."""
        restored = backup.copy()
        restored._checkers[S3] = self._checkers[S3]
        restored.s4.remember(self.s4)
        return restored


def _domain(world: World, name: str) -> tuple[str, int | None]:
    return scope_of(world.vms[name]), world.vms[name].update_domain


def _home(world: World, event: Event) -> tuple[str, int | None]:
    """The scope and update domain of the VMs that an event hits; one that has left the fleet is in none."""
    return next(_domain(world, name) for name in event.resources if name in world.vms)
