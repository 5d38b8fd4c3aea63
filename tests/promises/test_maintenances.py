"""Maintenances begin, pause, fail and go on while VMs vanish, hosts fail, drivers give up and processes die.

No promise breaks at any publication, and once faults stop every maintenance ends.
`DUENOTICE_EXAMPLES=2000 .venv/bin/pytest tests/promises/test_maintenances.py` looks longer.
"""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule
from msgspec import structs

from duenotice.clock import micros
from duenotice.domain import commands as c
from duenotice.domain.event import Cause, Consent, EventType, Phase
from simulator.history import Outcome
from tests.promises.fleet import HOME, HOSTS, NAMES
from tests.promises.rig import Fault, OnDisk
from tests.promises.rollout import Rollout
from tests.promises.test_machine import EXAMPLES, examples
from tests.unit.domain.stories import window_of

WEB = tuple(name for name, place in HOME.items() if place.scope == "set/web")
BATCH = tuple(name for name, place in HOME.items() if place.scope.startswith("scale-set"))
SHOP = tuple(name for name, place in HOME.items() if place.scope == "service/shop")

selections = st.one_of(
    st.sampled_from([WEB, WEB, BATCH, SHOP, tuple(NAMES)]),
    st.sampled_from(HOSTS).map(lambda host: tuple(name for name, place in HOME.items() if place.host == host)),
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=6).map(tuple),
)
names = st.sampled_from(NAMES)
picks = st.integers(0, 9)
gaps = st.sampled_from([1, 300, 3600, 86_400])


class Maintenances(Rollout):
    """On a journal in memory."""

    @initialize(listeners=st.sampled_from([NAMES, NAMES[:5], []]), driven=st.booleans())
    def begin(self, listeners: list[str], driven: bool) -> None:
        self.policy = structs.replace(self.policy, simulated_impact=not driven)
        self._open()
        self._apply_fleet()
        for name in listeners:
            self._do(c.EnableScope(name))

    # What operators do.

    @rule(
        vms=selections,
        kind=st.sampled_from([EventType.FREEZE, EventType.REBOOT, EventType.REDEPLOY]),
        cause=st.sampled_from([Cause.MAINTENANCE, Cause.LIVE_MIGRATION]),
        settle=st.sampled_from([0, 0, 60, 3600]),
        at_once=st.sampled_from([0, 0, 1, 2]),
        failures=st.sampled_from([0, 1, 9]),
        window=st.none() | st.lists(st.tuples(gaps, gaps), min_size=1, max_size=3),
        consent=st.sampled_from(Consent),
    )
    def start(
        self,
        vms: tuple[str, ...],
        kind: EventType,
        cause: Cause,
        settle: int,
        at_once: int,
        failures: int,
        window: list[tuple[int, int]] | None,
        consent: Consent,
    ) -> None:
        at_once = 0 if consent is Consent.HOST else at_once
        fields = {
            "cause": cause,
            "consent": consent,
            "settle": micros(settle),
            "at_once": at_once,
            "failures_allowed": failures,
        }
        fields["window"] = window_of(*window, after=self.clock.now()) if window else None
        self._do(c.StartMaintenance(self._new_id(), kind, vms, **fields))  # type: ignore[arg-type]

    @rule(host=st.sampled_from(HOSTS), which=picks)
    def all_of_a_host_are_asked_and_one_approves(self, host: str, which: int) -> None:
        """C07: the others are still asked; perhaps nobody of them listens, or the host has nobody."""
        plan_id = self._new_id()
        on_host = tuple(vm.name for vm in self.publisher.state.fleet.on_host(host))
        self._do(c.StartMaintenance(plan_id, EventType.REBOOT, on_host, consent=Consent.HOST))
        asked = [event for event in self._events(Phase.SCHEDULED) if event.maintenance == plan_id]
        if asked:
            self._do(c.ApproveEvents((asked[which % len(asked)].id,)))

    @rule(which=picks)
    def pause(self, which: int) -> None:
        self._do(c.PauseMaintenance(self._plan(which)))

    @rule(which=picks)
    def resume(self, which: int) -> None:
        self._do(c.ResumeMaintenance(self._plan(which)))

    @rule(which=picks)
    def retry(self, which: int) -> None:
        self._do(c.RetryMaintenance(self._plan(which)))

    @rule(which=picks)
    def cancel(self, which: int) -> None:
        self._do(c.CancelMaintenance(self._plan(which)))

    @rule(name=names, kind=st.sampled_from([EventType.FREEZE, EventType.REBOOT]))
    def schedule_beside(self, name: str, kind: EventType) -> None:
        """An event of the operator's own, in the way of a plan or not."""
        self._do(c.ScheduleEvent(self._new_id(), kind, (name,)))

    @rule(which=picks)
    def cancel_event(self, which: int) -> None:
        for event in self._events(Phase.SCHEDULED)[which : which + 1]:
            self._do(c.CancelEvent(event.id))

    # What VMs and their users do.

    @rule(which=picks, several=st.booleans())
    def approve(self, which: int, several: bool) -> None:
        waiting = self._events(Phase.SCHEDULED)[which : which + (5 if several else 1)]
        if waiting:
            self._do(c.ApproveEvents(tuple(event.id for event in waiting)))

    @rule(name=names)
    def poll(self, name: str) -> None:
        self._do(c.EnableScope(name))

    @rule(name=names, kind=st.sampled_from([EventType.REBOOT, EventType.REDEPLOY, EventType.TERMINATE]))
    def operate(self, name: str, kind: EventType) -> None:
        self._do(c.OperateVm(self._new_id(), name, kind))

    @rule(gone=st.lists(names, min_size=1, max_size=4))
    def vanish(self, gone: list[str]) -> None:
        self._vanish(gone)

    @rule(which=picks)
    def vanish_who_is_hit(self, which: int) -> None:
        for event in list(self.publisher.state.events.values())[which : which + 1]:
            self._vanish(event.resources)

    @rule()
    def come_back(self) -> None:
        self.gone.clear()
        self._apply_fleet()

    # What hosts and drivers do.

    @rule(host=st.sampled_from(HOSTS))
    def fail_host(self, host: str) -> None:
        self._do(c.FailHost(host, self._new_id()))

    @rule(host=st.sampled_from(HOSTS), notice=st.sampled_from([600, 86_400]))
    def degrade_host(self, host: str, notice: int) -> None:
        self._do(c.DegradeHost(host, micros(notice), self._new_id()))

    @rule(host=st.sampled_from(HOSTS))
    def repair_host(self, host: str) -> None:
        self._do(c.RepairHost(host))

    @rule(which=picks, failure=st.sampled_from(["", "", "The hypervisor said no."]))
    def report(self, which: int, failure: str) -> None:
        for event in self._events(Phase.STARTED)[which : which + 1]:
            self._do(c.ReportImpact(event.id, failure))

    @rule(failure=st.sampled_from(["", "The hypervisor said no."]))
    def report_all(self, failure: str) -> None:
        started = self._events(Phase.STARTED)
        if started:
            self._do(*(c.ReportImpact(event.id, failure) for event in started))

    # What time does, and what goes wrong.

    @rule(seconds=st.sampled_from([1, 60, 300, 600, 900, 902, 3600, 86_400]))
    def advance(self, seconds: int) -> None:
        self._advance(seconds)

    @rule(seconds=st.sampled_from([60, 3600]))
    def suspend(self, seconds: int) -> None:
        self.clock.suspend(seconds)
        (answer,) = self._do(c.MakeUpForDowntime())
        if answer.outcome is Outcome.UNKNOWN:
            self._do(c.MakeUpForDowntime())

    @rule(fault=st.sampled_from(Fault), away=st.sampled_from([0.0, 60.0, 3600.0]))
    def next_commit_fails(self, fault: Fault, away: float) -> None:
        self.journal.fault, self.journal.away = fault, away

    @rule(seconds=st.sampled_from([5.0, 1000.0]))
    def next_commit_stalls(self, seconds: float) -> None:
        self.journal.stall = seconds

    @rule(away=st.sampled_from([0.0, 3600.0]))
    def crash(self, away: float) -> None:
        self._cut(away)


class MaintenancesOnDisk(Maintenances):
    """The same, on SQLite."""

    storage = OnDisk


TestInMemory = Maintenances.TestCase
TestInMemory.settings = examples(20)
TestOnDisk = MaintenancesOnDisk.TestCase
TestOnDisk.settings = examples(8)

pytestmark = pytest.mark.timeout(0 if EXAMPLES else 1200)  # a failure takes minutes to be made small
