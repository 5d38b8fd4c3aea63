"""Everything that can happen to an engine, in any order, on each journal: no promise breaks and the model agrees.

`DUENOTICE_EXAMPLES=5000 .venv/bin/pytest tests/promises/test_machine.py` looks longer.
"""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from duenotice.clock import micros, seconds
from duenotice.domain import commands as c
from simulator.history import Outcome
from tests.promises.driver import COMMIT_ALLOWANCE, KINDS, Ask, Driver
from tests.promises.fleet import ELSEWHERE, HOME, HOSTS, NAMES, To
from tests.promises.model import ADVICE, Wish
from tests.promises.rig import Fault, OnDisk

CAUSES = ("maintenance", "live-migration", "user")
STRANGER = "no-such-vm"
HOUR, DAY = 3600, 86_400
SPANS = [0, 1, 29, 30, 31, 299, 300, 301, 599, 600, 601, 899, 900, 901, 902, HOUR, DAY, 7 * DAY]

vms = st.sampled_from([*NAMES, STRANGER])
hosts = st.sampled_from([*HOSTS, "no-such-host"])
places = st.sampled_from(["home", "gone", "alone", *ELSEWHERE])
picks = st.integers(0, 9)
owned = st.sampled_from(["vm/solo", "vm/web-0", "set/web", "scale-set/batch", "service/shop", "vm/no-such-vm"])
wishes = st.builds(Wish, *[st.sampled_from([None, True, False])] * 3)


class Promises(Driver):
    """On a journal in memory."""

    # What operators, users and the platform do.

    @initialize(listeners=st.sampled_from([NAMES, NAMES[:5], []]))
    def begin(self, listeners: list[str]) -> None:
        self._open()
        self._do(self._fleet(HOSTS, 300))
        for name in listeners:
            self._do(self._enable(name))

    @rule(
        anchor=vms,
        company=st.sampled_from(["alone", "alone", "domain", "domain", "stranger", "twice", "nobody"]),
        kind=st.sampled_from(list(KINDS)),
        cause=st.sampled_from(CAUSES),
        spare=st.sampled_from([None, None, None, -HOUR, -1, 0, 0.5, 1, 2, 60, 8 * DAY, 400 * DAY]),
        duration=st.sampled_from([None, None, 0, 30, -2]),
    )
    def schedule(
        self, anchor: str, company: str, kind: str, cause: str, spare: float | None, duration: int | None
    ) -> None:
        self._do(self._schedule(anchor, company, kind, cause, spare, duration))

    @rule(name=vms, kind=st.sampled_from(["Reboot", "Redeploy", "Terminate"]))
    def operate(self, name: str, kind: str) -> None:
        self._do(self._operate(name, kind))

    @rule(which=picks, kind=st.sampled_from(["Reboot", "Redeploy", "Terminate"]))
    def operate_on_who_is_hit(self, which: int, kind: str) -> None:
        event = self.model.events.get(self._pick(which))
        self._do(self._operate(event.resources[0] if event else STRANGER, kind))

    @rule(of=owned, wish=wishes)
    def owner_approves_beforehand(self, of: str, wish: Wish) -> None:
        self._do(self._wish(of, wish))

    @rule(
        name=st.sampled_from(["solo", "web-0"]),
        own=wishes,
        of_set=wishes,
        is_down=st.booleans(),
        kind=st.sampled_from(["Reboot", "Redeploy"]),
        cause=st.sampled_from(["user", "maintenance"]),
    )
    def something_comes_that_may_be_approved_beforehand(
        self, name: str, own: Wish, of_set: Wish, is_down: bool, kind: str, cause: str
    ) -> None:
        self._do(self._wish(f"vm/{name}", own))
        self._do(self._wish("set/web", of_set))
        if is_down:
            first = self._schedule(name, "alone", "Reboot", "maintenance", None, None)
            self._do(first)
            self._do(self._approve(None, first.command.event_id))  # type: ignore[attr-defined]
        self._do(self._schedule(name, "alone", kind, cause, None, None))

    @rule(name=vms)
    def evict(self, name: str) -> None:
        event_id = self._new_id()
        self._do(Ask(c.EvictVm(event_id, name), lambda now: self.model.evict(event_id, name, now)))

    @rule(host=hosts, notice=st.sampled_from([600, DAY, 7 * DAY, 599, 7 * DAY + 1]))
    def degrade(self, host: str, notice: int) -> None:
        seed, span = self._new_id(), micros(notice)
        self._do(Ask(c.DegradeHost(host, span, seed), lambda now: self.model.degrade(host, span, seed, now)))

    @rule(host=hosts)
    def fail(self, host: str) -> None:
        seed = self._new_id()
        self._do(Ask(c.FailHost(host, seed), lambda now: self.model.fail(host, seed, now)))

    @rule(host=hosts)
    def repair(self, host: str) -> None:
        self._do(Ask(c.RepairHost(host), lambda now: self.model.repair(host)))

    @rule(which=picks)
    def report_impact(self, which: int) -> None:
        event_id = self._pick(which)
        self._do(Ask(c.ReportImpact(event_id), lambda now: self.model.report_impact(event_id)))

    @rule(
        name=st.sampled_from(NAMES),
        to=places,
        count=st.sampled_from([3, 3, 2]),
        terminate_notice=st.sampled_from([300, 900, None]),
    )
    def change_fleet(self, name: str, to: To, count: int, terminate_notice: int | None) -> None:
        self._declare(name, to)
        self._do(self._fleet(HOSTS[:count], terminate_notice))

    @rule(scope=st.sampled_from(["set/web", "service/shop", "scale-set/batch"]), to=st.sampled_from(["gone", "home"]))
    def whole_group(self, scope: str, to: To) -> None:
        """A group leaves the fleet with all of its VMs, or is back under the same name."""
        for name in [name for name, place in HOME.items() if place.scope.startswith(scope)]:
            self._declare(name, to)
        self._do(self._fleet(HOSTS, 300))

    @rule(which=picks, to=places)
    def move_who_is_hit(self, which: int, to: To) -> None:
        event = self.model.events.get(self._pick(which))
        for name in event.resources if event else ():
            self._declare(name, to)
        self._do(self._fleet(HOSTS, 300))

    @rule(name=st.sampled_from(NAMES), delete_first=st.booleans())
    def delete_while_declaring(self, name: str, delete_first: bool) -> None:
        """A VM is deleted and, in the same breath, the fleet file still wants it."""
        asks = [self._operate(name, "Terminate"), self._fleet(HOSTS, 300)]
        self._do(*(asks if delete_first else reversed(asks)))

    # What VMs do.

    @rule(name=st.sampled_from(NAMES))
    def poll(self, name: str) -> None:
        if not self._poll_again(name):
            self._do(self._enable(name))

    @rule(name=vms, which=st.lists(picks, min_size=1, max_size=3))
    def approve(self, name: str, which: list[int]) -> None:
        self._do(self._approve(name, *map(self._pick, which)))

    @rule(which=picks, mate=picks)
    def approve_from_inside(self, which: int, mate: int) -> None:
        event_id = self._pick(which)
        self._do(self._approve(self._insider(event_id, mate), event_id))

    @rule(which=st.lists(picks, min_size=1, max_size=3))
    def approve_as_operator(self, which: list[int]) -> None:
        self._do(self._approve(None, *map(self._pick, which)))

    @rule(which=picks)
    def cancel(self, which: int) -> None:
        self._do(self._cancel(self._pick(which)))

    @rule(
        which=picks, order=st.permutations(["cancel", "approve", "operator", "cancel", "approve"]), ripe=st.booleans()
    )
    def rush(self, which: int, order: list[str], ripe: bool) -> None:
        """All at one event at once, perhaps in the very moment it is due (S19)."""
        event_id = self._pick(which)
        if ripe and event_id in self.model.events and self.model.events[event_id].type != ADVICE:
            self.clock.slip(seconds(self.model.events[event_id].due - self.clock.now().steady))
        asks = {
            "cancel": lambda: self._cancel(event_id),
            "approve": lambda: self._approve(self._insider(event_id, which), event_id),
            "operator": lambda: self._approve(None, event_id),
        }
        self._do(*[asks[act]() for act in order])

    @rule(
        name=vms, anchor=vms, which=picks, order=st.permutations(["operate", "schedule", "approve", "enable", "cancel"])
    )
    def several(self, name: str, anchor: str, which: int, order: list[str]) -> None:
        """Commands that have nothing to do with each other share a commit."""
        asks = {
            "operate": lambda: self._operate(name, "Reboot"),
            "schedule": lambda: self._schedule(anchor, "domain", "Freeze", "maintenance", None, None),
            "approve": lambda: self._approve(name, self._pick(which)),
            "enable": lambda: self._enable(name),
            "cancel": lambda: self._cancel(self._pick(which)),
        }
        self._do(*[asks[act]() for act in order])

    @rule(which=st.sets(st.sampled_from([place.scope for place in HOME.values()])))
    def fall_silent(self, which: set[str]) -> None:
        scopes = tuple(sorted(which))
        self._do(Ask(c.DisableScopes(scopes), lambda now: self.model.disable(scopes)))

    # What time does.

    @rule(seconds=st.sampled_from(SPANS))
    def advance(self, seconds: int) -> None:
        self._advance(seconds)

    @rule(which=picks, spare=st.sampled_from([-1, 0, 0, 1]), set_by=st.sampled_from([0, 0, -HOUR, HOUR]))
    def advance_to(self, which: int, spare: int, set_by: int) -> None:
        """To the moment something is due, or just beside it; perhaps somebody sets the wall clock meanwhile."""
        self.clock.set_wall(set_by)
        event = self.model.events.get(self._pick(which))
        if event is not None and event.type != ADVICE:
            self._advance(max(0.0, seconds(event.due - self.clock.now().steady) + spare))

    @rule(seconds=st.sampled_from(SPANS))
    def suspend(self, seconds: int) -> None:
        """The machine sleeps, or the process is stopped: what waits for its notice has the rest still ahead (S25)."""
        self._suspend(seconds)

    @rule(seconds=st.sampled_from([-25 * HOUR, -HOUR, -1, 1, 900, HOUR, 25 * HOUR]))
    def set_wall_clock(self, seconds: int) -> None:
        self.clock.set_wall(seconds)
        self._do(Ask(c.Tick(), lambda now: None))

    # What goes wrong.

    @rule(seconds=st.sampled_from([0, 0.3, COMMIT_ALLOWANCE]))
    def commits_take(self, seconds: float) -> None:
        self.journal.commit_takes = seconds

    @rule(seconds=st.sampled_from([1.5, 5, 1000]))
    def next_commit_stalls(self, seconds: float) -> None:
        """For longer than is allowed for."""
        self.journal.fault, self.journal.stall = None, seconds

    @rule(fault=st.sampled_from(Fault), away=st.sampled_from([0, 0, 60, HOUR]))
    def next_commit_fails(self, fault: Fault, away: float) -> None:
        """If that is the end of the process, the next one comes after a while."""
        self.journal.fault, self.journal.away = fault, away
        if fault.loses_engine:
            self.journal.stall = 0.0

    @rule(away=st.sampled_from([0, 0, 2, 60, HOUR]))
    def crash(self, away: float) -> None:
        self._cut(away)

    @rule(away=st.sampled_from([0, 0, 2, 60, HOUR]))
    def stop_and_start(self, away: float) -> None:
        self.journal.fault, self.journal.stall = None, 0.0
        self.model.pass_time(self.clock.now())
        self.journal.while_committing = self._check_nothing_shown_yet
        self.runner.run(self.engine.stop())
        self.unseen += self.journal.committed
        self.clock.be_away(away)
        self._open()

    @rule()
    def back_up(self) -> None:
        self._back_up()

    @precondition(lambda self: self.backup is not None)
    @rule()
    def restore(self) -> None:
        if self.backup is not None:
            self._restore(self.backup)


class PromisesOnDisk(Promises):
    """The same, on SQLite."""

    storage = OnDisk


EXAMPLES = int(os.environ.get("DUENOTICE_EXAMPLES", "0"))


def examples(count: int) -> settings:
    """So many, or as many as asked for."""
    unhurried = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
    return settings(max_examples=EXAMPLES or count, stateful_step_count=40, suppress_health_check=unhurried)


TestInMemory = Promises.TestCase
TestInMemory.settings = examples(20)
TestOnDisk = PromisesOnDisk.TestCase
TestOnDisk.settings = examples(3)


@pytest.fixture(params=[Promises, PromisesOnDisk])
def machine(request: pytest.FixtureRequest) -> Iterator[Promises]:
    """One case, whose steps a test takes by itself."""
    made: Promises = request.param()
    made.begin(listeners=NAMES)
    yield made
    made.teardown()


def test_an_event_that_is_gone_is_forgotten_after_a_day_by_both_faces_of_time_and_not_by_one(machine: Promises) -> None:
    """C03, S34: after an absence the time of day is a week later, and steady time is not."""
    event_id = taken_back(machine)
    machine.suspend(seconds=7 * DAY)
    machine.crash(away=HOUR)
    assert approved(machine, event_id) is Outcome.DONE
    machine.advance(seconds=DAY)
    assert approved(machine, event_id) is Outcome.REFUSED


def test_an_event_that_is_gone_is_remembered_while_the_time_of_day_is_set_back(machine: Promises) -> None:
    """The same the other way round: steady time alone is a day later."""
    event_id = taken_back(machine)
    machine.set_wall_clock(seconds=-HOUR)
    machine.advance(seconds=DAY)
    assert approved(machine, event_id) is Outcome.DONE
    machine.advance(seconds=HOUR)
    assert approved(machine, event_id) is Outcome.REFUSED


def taken_back(machine: Promises) -> str:
    """The id of an event of `solo` that was cancelled."""
    machine.schedule("solo", "alone", "Reboot", "maintenance", spare=None, duration=None)
    machine.cancel(which=0)
    return machine.model.last_ended


def approved(machine: Promises, event_id: str) -> Outcome:
    """What `solo` is told when it approves an event; the model says the same, or the step fails."""
    ask = machine._approve("solo", event_id)
    machine._do(ask)
    (answer,) = machine.runner.run(machine._submit((ask,)))
    return answer.outcome


def test_a_case_leaves_no_thread_and_no_open_file_behind_however_its_processes_ended() -> None:
    """Thousands of cases are run to make a failing one small; what each leaves behind makes the later ones fail."""
    threads, files = set(threading.enumerate()), open_files()
    machine = PromisesOnDisk()
    machine.begin(listeners=NAMES)
    machine.crash(away=0)
    machine.back_up()
    machine.stop_and_start(away=0)
    machine.restore()
    machine.next_commit_fails(Fault.STORED_AND_LOST, away=0)
    machine.evict("spot")
    machine.teardown()
    for thread in set(threading.enumerate()) - threads:
        thread.join(timeout=10)
        assert not thread.is_alive(), thread
    assert open_files() <= files


def open_files() -> int:
    return len(list(Path("/dev/fd").iterdir()))


pytestmark = pytest.mark.timeout(0 if EXAMPLES else 1200)  # a failure takes minutes to be made small
