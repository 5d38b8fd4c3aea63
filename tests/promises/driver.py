"""Drives a real engine and the model side by side, and looks at both after every step.

The engine runs on a loop that stands still between the steps; its journal outlives it.
"""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from typing import NamedTuple
from uuid import NAMESPACE_OID, uuid5

from hypothesis.stateful import RuleBasedStateMachine
from structlog.testing import capture_logs

from duenotice.clock import Instant, micros
from duenotice.domain import commands as c
from duenotice.domain.event import Cause
from duenotice.domain.fleet import EventsPolicy
from duenotice.domain.policy import Policy
from duenotice.domain.records import Record, ScopeDisabled
from duenotice.engine.engine import Engine, load
from duenotice.engine.publisher import Publisher
from duenotice.engine.ticker import Ticker
from duenotice.errors import Refused, Unavailable
from duenotice.metadata_api.responses import document_tail
from duenotice.wire.api_versions import EVERY_VERSION, TYPE_NAMES
from simulator.checkers import Observer
from simulator.history import NEWEST, Answer, Committed, Moment, Outcome, parsed
from simulator.shape import TYPES
from tests.promises.fleet import HOME, NAMES, To, declaration, on_known_host, place_of
from tests.promises.model import BY_USER, NOTICE, EventNow, Model, Place, Refusal, Wish
from tests.promises.rig import Fault, InMemory, Storage, WatchedJournal, WorldClock, end_process, nothing

COMMIT_ALLOWANCE = 1.0
USER_LIMIT = 4
POLICY = Policy(commit_allowance=micros(COMMIT_ALLOWANCE), user_operations_limit=USER_LIMIT, spot_rebalance=True)
KINDS = {name: kind for kind, name in TYPE_NAMES.items()}
FAR_APART = 100_000
"""Incarnations from one restore to the next; truly seconds, but here whole weeks pass in none."""
UNKNOWN_ID = "FFFFFFFF-0000-4000-8000-000000000000"


def read_all(publisher: Publisher) -> dict[tuple[str, str], bytes]:
    """What every VM is answered in every api-version."""
    return {key: body for name in publisher.state.fleet.vms for key, body in _read(publisher, name)}


def _read(publisher: Publisher, name: str) -> list[tuple[tuple[str, str], bytes]]:
    """What a VM is answered in every api-version, `ETag` checked (A10)."""
    page = publisher.open_page_of(publisher.state.fleet.vms[name])
    read = []
    for version in EVERY_VERSION:
        head, _, body = document_tail(page, version).partition(b"\r\n\r\n")
        assert head.endswith(b'ETag: "%d"' % parsed(body)["DocumentIncarnation"]), head
        read.append(((name, version.name), body))
    return read


class Ask(NamedTuple):
    """A command, and the same in the model's words."""

    command: c.Command
    follow: Callable[[Instant], None]


class Backup(NamedTuple):
    """What was known when the journal was copied."""

    model: Model
    declared: dict[str, Place]
    observer: Observer


class Driver(RuleBasedStateMachine):
    """One engine at a time beside the model; the rules are `test_machine`'s."""

    storage: type[Storage] = InMemory

    def __init__(self) -> None:
        super().__init__()
        self.model = Model(POLICY.commit_allowance, USER_LIMIT)
        self.before = self.model
        self.clock = WorldClock(self._time_passed)
        self.stored = self.storage()
        self.observer = Observer()
        self.runner = asyncio.Runner()
        self.given = 0
        self.restores = 0
        self.untold: set[str] = set()
        self.declared = dict(HOME)
        self.backup: Backup | None = None
        self.unseen: list[Committed] = []
        self.reread: tuple[Record, ...] | None = None
        self.documents: dict[tuple[str, str], bytes] = {}
        self.afterwards = ExitStack()
        self.afterwards.enter_context(capture_logs())
        self.afterwards.callback(self.stored.discard)

    def teardown(self) -> None:
        with self.afterwards:
            end_process(self.runner, getattr(self, "engine", None))

    # Life and death of an engine

    def _open(self, restored: bool = False) -> None:
        self.journal = WatchedJournal(self.stored.open(), self.clock)
        self.reread = tuple(self.journal.read(0))
        self.runner.run(self._start())
        self.documents = self._read_all()
        self.model.last_poll = dict.fromkeys(self.model.last_poll, self.clock.now().steady)
        mark = Ask(c.MarkClock(self.clock.mark()), lambda now: None)
        lift = Ask(c.LiftIncarnations(self.restores * FAR_APART), lambda now: None)
        self._do(*([lift] if restored else []), mark, self._make_up())

    async def _start(self) -> None:
        self.publisher = Publisher(asyncio.get_running_loop().call_soon)
        self.engine = Engine(self.journal, self.clock, POLICY, load(self.journal), self.publisher)
        self.ticker = Ticker(self.engine)
        self.engine.start()

    def _cut(self, away: float) -> None:
        """The process is gone in the middle of whatever it was doing; after a while another one takes its place."""
        self.clock.be_away(away)
        self.unseen += self.journal.committed
        self.stored.cut()
        self._end_process()
        self._open()

    def _end_process(self) -> None:
        end_process(self.runner, self.engine)
        self.runner = asyncio.Runner()

    def _back_up(self) -> None:
        self.stored.back_up()
        self.backup = Backup(self.model.copy(), dict(self.declared), self.observer.copy())

    def _restore(self, backup: "Backup") -> None:
        """All that came after the backup is lost; VMs alone remember."""
        self.restores += 1
        self.stored.restore()
        self._end_process()
        self.unseen = []
        self.model, self.declared = backup.model.copy(), dict(backup.declared)
        self.observer = self.observer.after_restoring(backup.observer)
        self._open(restored=True)

    # Doing things, both ways

    def _do(self, *asks: Ask) -> None:
        """Submit commands at once, let the model follow each, and look at what came of it."""
        now, fault, stall = self.clock.now(), self.journal.fault, self.journal.stall
        self.before = self.model.copy() if fault else self.model
        known, seen_at = set(self.model.events), now.after(micros(self.journal.commit_takes))
        self.model.postpone(self.untold, now)
        self.untold, self.model.owed = set(), set()
        expected = [self._follow(ask, now) for ask in asks]
        self.model.pass_time(now)
        self.journal.while_committing = self._check_nothing_shown_yet
        answers = self.runner.run(self._submit(asks))
        self.journal.while_committing = nothing
        owed = set(self.model.events) - known | self.model.owed
        if fault and not self.journal.fault:
            expected = [Outcome.UNKNOWN for _ in asks]
            self.untold = self._untold_after(fault, owed, seen_at)
            self._after_fault(fault)
        told = [answer.outcome for answer in answers]
        assert told == expected, f"{answers} should have been {expected}"
        if stall and not self.journal.stall:
            answers += self._after_stall(owed)
        elif not fault:
            self.model.postpone(owed, seen_at)
        self._look(answers)

    def _untold_after(self, fault: Fault, owed: set[str], seen_at: Instant) -> set[str]:
        """What nobody sees before the next commit: all of it, or what is short of its notice by now."""
        if fault is Fault.STORED_AND_LOST:
            return owed
        return {event.id for event in self.model.short_of_notice(owed, seen_at)} if fault.stores else set()

    def _follow(self, ask: Ask, now: Instant) -> Outcome:
        try:
            ask.follow(now)
        except Refusal:
            return Outcome.REFUSED
        return Outcome.DONE

    async def _submit(self, asks: tuple[Ask, ...]) -> list[Answer]:
        named = [(self._actor(), ask.command) for ask in asks]
        results = [self.engine.submit(command, actor) for actor, command in named]
        await asyncio.wait(results)
        return [answer_of(actor, command, result) for (actor, command), result in zip(named, results, strict=True)]

    def _after_fault(self, fault: Fault) -> None:
        """Whether it was stored only we know: the callers do not, and ask again."""
        if not fault.stores:
            self.model = self.before
        if fault.loses_engine:
            self._cut(self.journal.away)
        for name in NAMES:
            self._poll_again(name)

    def _after_stall(self, owed: set[str]) -> list[Answer]:
        """The engine makes good for the notice that a slow commit has cost, and then finds what is due by now."""
        self.model.postpone(owed, self.clock.now())
        self.model.pass_time(self.clock.now())
        return self.runner.run(self._submit((Ask(c.Tick(), lambda now: None),)))

    def _time_passed(self, now: Instant) -> None:
        """The ticker has let time pass and is about to tell the engine."""
        if self.journal.fault:
            self.before = self.model.copy()
        self.model.pass_time(now)

    def _actor(self) -> str:
        self.given += 1
        return f"caller/{self.given}"

    def _new_id(self) -> str:
        self.given += 1
        return str(uuid5(NAMESPACE_OID, str(self.given))).upper()

    # Looking

    def _look(self, answers: list[Answer]) -> None:
        self.unseen += self.journal.committed
        self.journal.committed = []
        self.documents = self._read_all()
        moment = Moment(
            self.clock.now(),
            tuple(map(self._as_seen, self.unseen)),
            tuple(answers),
            self.documents,
            self.reread,
            self.clock.take_absences(),
        )
        self.unseen, self.reread = [], None
        self.observer.see(moment)
        self._compare(moment)
        self._check_told(set(moment.shown_ids()))

    def _as_seen(self, committed: Committed) -> Committed:
        """With the moment from which on readers could see it."""
        shown = (at for position, at in self.journal.shown_at if position >= committed.record.position)
        return committed._replace(visible=next(shown, committed.visible))

    def _check_nothing_shown_yet(self) -> None:
        """What is not durable yet is not seen by anybody (S5)."""
        assert self._read_all() == self.documents, "readers are ahead of the journal"

    def _read_all(self) -> dict[tuple[str, str], bytes]:
        return read_all(self.publisher)

    def _compare(self, moment: Moment) -> None:
        """The model and the service agree on every VM: where it is, whether it listens, and what it reads."""
        known = self.publisher.state.fleet.vms
        here, there = {vm.name: vm.host for vm in known.values()}, {vm.name: vm.host for vm in self.model.vms.values()}
        assert here == there, f"VMs run on {here}, and should on {there}"
        for (name, version), body in moment.documents.items():
            scope = self.model.vms[name].place.scope
            listens = self.publisher.open_page_of(known[name]).enabled
            assert listens == (scope in self.model.last_poll), f"{name}: enabled is {listens}"
            expected = [_shown(event) for event in self.model.events_of(scope) if event.type in TYPES[version]]
            events = parsed(body)["Events"]
            if version == NEWEST:
                assert [_essence(event) for event in events] == expected, f"{name} reads {events}"
            else:
                assert [event["EventId"] for event in events] == [event[0] for event in expected], f"{name}: {body!r}"

    def _check_told(self, shown: set[tuple[str, str]]) -> None:
        """Who is going to be hit is told, wherever it went since."""
        for event in self.model.events.values():
            for name in () if event.started else event.resources:
                assert name not in self.model.vms or (name, event.id) in shown, f"{name} is not told of {event}"

    # Asks, each in both languages

    def _schedule(
        self, anchor: str, company: str, kind: str, cause: str, spare: float | None, duration: int | None
    ) -> Ask:
        event_id, names = self._new_id(), self._resources(anchor, company)
        least = timedelta(microseconds=NOTICE[kind], seconds=spare or 0)
        not_before = None if spare is None else self.clock.now().at + least
        command = c.ScheduleEvent(event_id, KINDS[kind], names, not_before, duration=duration, cause=Cause(cause))
        return Ask(command, lambda now: self.model.schedule(event_id, kind, names, cause, not_before, duration, now))

    def _operate(self, name: str, kind: str) -> Ask:
        event_id = self._new_id()
        command = c.OperateVm(event_id, name, KINDS[kind])
        return Ask(command, lambda now: self.model.operate(event_id, name, kind, now))

    def _wish(self, of: str, wish: Wish) -> Ask:
        command = c.SetEventsPolicy(of, EventsPolicy(wish.reboot, wish.redeploy, wish.all_down))
        return Ask(command, lambda now: self.model.wish(of, wish))

    def _approve(self, name: str | None, *event_ids: str) -> Ask:
        return Ask(c.ApproveEvents(event_ids, vm=name), lambda now: self.model.approve(event_ids, name))

    def _cancel(self, event_id: str) -> Ask:
        return Ask(c.CancelEvent(event_id), lambda now: self.model.cancel(event_id))

    def _enable(self, name: str) -> Ask:
        seen_at = micros(self.journal.stall or self.journal.commit_takes)
        return Ask(c.EnableScope(name), lambda now: self.model.enable(name, now.steady + seen_at))

    def _make_up(self) -> Ask:
        return Ask(c.MakeUpForDowntime(), lambda now: self.model.make_up_for_downtime(now))

    def _declare(self, name: str, to: To) -> None:
        self.declared.pop(name, None)
        if (place := place_of(name, to)) is not None:
            self.declared[name] = place

    def _fleet(self, names: list[str], terminate_notice: int | None) -> Ask:
        places = {vm: on_known_host(place, names) for vm, place in self.declared.items()}
        notices = {"scale-set/batch": terminate_notice}
        command = c.ApplyFleet(declaration(names, terminate_notice, places))
        return Ask(command, lambda now: self.model.apply_fleet(names, notices, places))

    def _advance(self, seconds: float) -> None:
        fault, slow = self.journal.fault, self.journal.commit_takes
        self.journal.commit_takes, self.journal.stall, self.journal.failed = 0.0, 0.0, ()
        self.journal.while_committing = nothing  # one advance may be many commits
        try:
            self.runner.run(self.ticker.advance(micros(seconds)))
            self._check_silence()
        except Unavailable:
            assert fault, "the engine gave up by itself"
        self.model.disable(self._turned_off())
        self.journal.commit_takes = slow
        if fault and not self.journal.fault:
            self._after_fault(fault)
        self._look([])

    def _suspend(self, seconds: float) -> None:
        """The ticker makes up for it first of all, and tries again if that fails."""
        self.clock.suspend(seconds)
        may_fail = self.journal.fault is not None
        self._do(self._make_up())
        if may_fail:
            self._do(self._make_up())

    def _turned_off(self) -> tuple[str, ...]:
        """The scopes that the ticker found silent."""
        records = [*(committed.record for committed in self.journal.committed), *self.journal.failed]
        return tuple(record.transition.scope for record in records if isinstance(record.transition, ScopeDisabled))

    def _check_silence(self) -> None:
        """Exactly who asked for nothing in 24 hours is turned off (F02); scopes without VMs are nobody's business."""
        inhabited = {vm.place.scope for vm in self.model.vms.values()}
        silent = self.model.silent(self.clock.now())
        assert inhabited.intersection(self._turned_off()) == inhabited.intersection(silent), f"silent are {silent}"

    def _poll_again(self, name: str) -> bool:
        """A poll of a scope that listens never reaches the engine; False when it must."""
        vm = self.publisher.state.fleet.vms.get(name)
        page = self.publisher.open_page_of(vm) if vm is not None else None
        if page is None or not page.enabled:
            return False
        page.last_poll = self.clock.now().steady
        self.model.poll(name, page.last_poll)
        return True

    # Choices

    def _pick(self, which: int) -> str:
        """Mostly a live event; sometimes one that is gone, or that never was."""
        live = list(self.model.events)
        if which == 9 or not live:
            return UNKNOWN_ID
        return self.model.last_ended if which == 8 else live[which % len(live)]

    def _insider(self, event_id: str, mate: int) -> str:
        event = self.model.events.get(event_id)
        scope = event.scope if event else self.model.gone.get(event_id, ("",))[0]
        inside = [vm.name for vm in self.model.vms.values() if vm.place.scope == scope]
        return inside[mate % len(inside)] if inside else NAMES[mate]

    def _resources(self, anchor: str, company: str) -> tuple[str, ...]:
        place = self.declared.get(anchor, Place(""))
        mates = [name for name, at in self.declared.items() if (at.scope, at.domain) == (place.scope, place.domain)]
        return {
            "alone": (anchor,),
            "domain": tuple(mates),
            "stranger": (anchor, "solo"),
            "twice": (anchor, anchor),
            "nobody": (),
        }[company]


def answer_of(actor: str, command: c.Command, result: "asyncio.Future[tuple[Record, ...]]") -> Answer:
    match result.exception():
        case None:
            return Answer(actor, command, Outcome.DONE, result.result())
        case Unavailable() as error:
            return Answer(actor, command, Outcome.UNKNOWN, error=error)
        case Refused() as error:
            return Answer(actor, command, Outcome.REFUSED, error=error)
        case error:
            raise error


def _shown(event: EventNow) -> tuple[object, ...]:
    """What a document says about an event, from the model's side."""
    source = "User" if event.cause in BY_USER else "Platform"
    not_before = "" if event.started else f"{event.not_before:%a, %d %b %Y %H:%M:%S} GMT"
    status = "Started" if event.started else "Scheduled"
    return (event.id, event.type, status, list(event.resources), not_before, source, event.duration)


def _essence(event: dict[str, object]) -> tuple[object, ...]:
    """The same, from the document's side."""
    keys = ("EventId", "EventType", "EventStatus", "Resources", "NotBefore", "EventSource", "DurationInSeconds")
    return tuple(event[key] for key in keys)
