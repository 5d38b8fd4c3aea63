"""What VMs report about the health of their host: it becomes suspect, and operators decide (M17)."""

from typing import Any

import pytest

from duenotice.domain.commands import (
    ApplyFleet,
    DegradeHost,
    FailHost,
    HoldHost,
    RepairHost,
    ReportHealth,
)
from duenotice.domain.event import Cause
from duenotice.domain.fleet import MOST_REPORT_STEPS, Condition, HealthReport, Host
from duenotice.domain.policy import Policy
from duenotice.domain.records import HealthReported, HostsPut, Transition
from duenotice.domain.rules import hosts
from duenotice.domain.rules.hosts import LONGEST_PROPERTY, LONGEST_WORDS, MOST_OF_ONE_VM, MOST_PROPERTIES
from duenotice.domain.snapshot import restore, take
from duenotice.domain.state import State
from duenotice.errors import Conflict, NotFound, Refused
from tests.unit.domain.build import DAY, NOW, POLICY, SECOND, SEED, declaration, do, id_of, listening

IB = "Resource.Hpc.Unhealthy.MissingIB"


def command(name: str = "r-1", vm: str = "alone", category: str = IB, **more: Any) -> ReportHealth:
    return ReportHealth(name, vm, category, "no port", NOW.at, SEED, **more)


def reported(state: State, *given: str, policy: Policy = POLICY, **more: Any) -> list[Transition]:
    return do(state, command(*given, **more), policy=policy)


def condition(state: State, host: str = "host-1") -> Condition:
    return state.fleet.hosts[host].condition


def steps(state: State, name: str = "r-1") -> list[str]:
    return [condition for condition, _ in state.reports[name].steps]


@pytest.mark.parametrize(
    "category",
    [IB, "Resource.Hpc.Investigate.NVLink", "Resource.Hpc.Reboot", "Resource.Hpc.Unhealthy.ManualInvestigation"],
)
def test_the_host_of_the_vm_becomes_suspect_and_nothing_moves_there(category: str) -> None:
    state = listening()
    reported(state, category=category)
    assert (condition(state), state.fleet.healthy_hosts, state.events) == (Condition.SUSPECT, ("host-2", "host-3"), {})
    assert state.reports["r-1"] == HealthReport("r-1", "alone", "host-1", category, "no port", NOW.at, NOW.at)


def test_who_knows_its_host_better_names_it() -> None:
    state = listening()
    reported(state, host="host-2")
    assert (condition(state), condition(state, "host-2")) == (Condition.HEALTHY, Condition.SUSPECT)


def test_the_same_again_changes_nothing_and_another_of_that_name_is_refused() -> None:
    state = listening()
    reported(state)
    assert do(state, command(), NOW.after(SECOND)) == []
    with pytest.raises(Conflict, match="already a report R-1"):
        reported(state, "R-1", category="Resource.Hpc.Reboot")


def test_a_second_report_leaves_the_host_as_it_is() -> None:
    state = listening()
    reported(state)
    (change,) = reported(state, "r-2", "zonal")
    assert isinstance(change, HealthReported)


@pytest.mark.parametrize("act", [HoldHost("host-1"), FailHost("host-1", SEED), DegradeHost("host-1", DAY, SEED)])
def test_what_an_operator_has_decided_stays(act: HoldHost | FailHost | DegradeHost) -> None:
    state = listening()
    do(state, act)
    before = condition(state)
    reported(state, policy=Policy(degrade_unhealthy=True))
    assert condition(state) is before


class TestDegrading:
    """Only if a setting says so, and only what is unhealthy."""

    def test_an_unhealthy_host_is_degraded_and_its_vms_are_told(self) -> None:
        state = listening()
        reported(state, policy=Policy(degrade_unhealthy=True))
        assert condition(state) is Condition.DEGRADED
        assert {event.cause for event in state.events.values()} == {Cause.DEGRADED_HOST}
        assert steps(state) == ["degraded"]

    def test_a_suspect_one_too(self) -> None:
        state = listening()
        reported(state)
        reported(state, "r-2", policy=Policy(degrade_unhealthy=True))
        assert condition(state) is Condition.DEGRADED

    @pytest.mark.parametrize("category", ["Resource.Hpc.Investigate.NVLink", "Resource.Hpc.Reboot"])
    def test_others_are_only_suspect(self, category: str) -> None:
        state = listening()
        reported(state, category=category, policy=Policy(degrade_unhealthy=True))
        assert (condition(state), state.events) == (Condition.SUSPECT, {})


class TestWhatBecomesOfIt:
    def test_a_report_keeps_the_conditions_of_its_host(self) -> None:
        state = listening()
        reported(state)
        do(state, DegradeHost("host-1", DAY, SEED))
        do(state, RepairHost("host-1"))
        do(state, FailHost("host-1", id_of(7)))
        assert steps(state) == ["degraded", "healthy"]  # it was closed by then

    @pytest.mark.parametrize(("act", "last"), [(HoldHost("host-1"), "drained"), (FailHost("host-1", SEED), "failed")])
    def test_out_of_service_is_its_end(self, act: HoldHost | FailHost, last: str) -> None:
        state = listening()
        reported(state)
        do(state, act)
        do(state, RepairHost("host-1"))
        assert steps(state) == [last]

    def test_so_is_a_host_that_leaves_the_fleet(self) -> None:
        state = listening()
        reported(state)
        reported(state, "r-2", "spot", host="host-2")
        rest = [vm for vm in state.fleet.vms.values() if vm.host != "host-1"]
        do(state, ApplyFleet(declaration(*rest, digest="2", hosts=(Host("host-2"), Host("host-3")))))
        assert (steps(state), steps(state, "r-2")) == (["gone"], [])

    def test_steps_are_bounded_and_the_last_one_is_kept(self) -> None:
        report = HealthReport("r", "v", "h", IB, "", NOW.at, NOW.at)
        for number in range(100):
            report = report.with_step(f"c{number}", NOW.at)
        assert (len(report.steps), report.with_step("c19", NOW.at)) == (MOST_REPORT_STEPS, report)
        assert report.with_step("healthy", NOW.at).steps[-1] == ("healthy", NOW.at)


class TestWithdrawing:
    @pytest.mark.parametrize("word", ["Healthy", "Reset"])
    def test_a_vm_takes_back_what_it_has_said(self, word: str) -> None:
        state = listening()
        reported(state)
        changes = reported(state, "r-2", category=f"Resource.Hpc.{word}")
        assert isinstance(changes[1], HostsPut)
        assert (condition(state), steps(state), steps(state, "r-2")) == (Condition.HEALTHY, ["healthy"], ["healthy"])

    def test_what_others_have_said_stays(self) -> None:
        state = listening()
        reported(state)
        reported(state, "r-2", "zonal")
        reported(state, "r-3", category="Resource.Hpc.Healthy")
        assert (condition(state), steps(state), steps(state, "r-2")) == (Condition.SUSPECT, ["healthy"], [])

    def test_it_repairs_no_host_that_an_operator_has_degraded(self) -> None:
        state = listening()
        do(state, DegradeHost("host-1", DAY, SEED))
        reported(state, category="Resource.Hpc.Healthy")
        assert condition(state) is Condition.DEGRADED


class TestBounds:
    """S24: what VMs say costs a bounded room."""

    def test_a_vm_has_so_many_open_reports(self) -> None:
        state = listening()
        for number in range(MOST_OF_ONE_VM):
            reported(state, f"r-{number}")
        with pytest.raises(Refused, match="10 reports are open"):
            reported(state, "one-more")
        reported(state, "other", "zonal")
        reported(state, "healthy", category="Resource.Hpc.Healthy")  # it can always be taken back
        reported(state, "one-more")

    def test_all_together_have_so_many(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(hosts, "MOST_REPORTS", 2)
        state = listening()
        reported(state, "r-1")
        reported(state, "r-2", "zonal")
        with pytest.raises(Refused, match="2 reports are open"):
            reported(state, "r-3", "spot")

    def test_the_oldest_that_is_closed_goes_first(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("duenotice.domain.apply.MOST_REPORTS", 2)
        state = listening()
        reported(state, "open")
        reported(state, "closed", "spot", category="Resource.Hpc.Healthy")
        reported(state, "new", "zonal")
        assert list(state.reports) == ["open", "new"]

    @pytest.mark.parametrize(
        "more",
        [
            {"more": (("k", "v" * (LONGEST_PROPERTY + 1)),)},
            {"more": (("k" * (LONGEST_PROPERTY + 1), "v"),)},
            {"more": tuple((str(number), "v") for number in range(MOST_PROPERTIES + 1))},
        ],
    )
    def test_properties_are_bounded(self, more: dict[str, Any]) -> None:
        with pytest.raises(Refused, match="more properties"):
            reported(listening(), **more)

    def test_words_are_bounded(self) -> None:
        with pytest.raises(Refused, match="The description has 1001 characters"):
            do(listening(), ReportHealth("r", "alone", IB, "x" * (LONGEST_WORDS + 1), NOW.at, SEED))


@pytest.mark.parametrize(
    ("asked", "kind", "words"),
    [
        (command(vm="nobody"), NotFound, "no VM named 'nobody'"),
        (command(host="host-9"), NotFound, "no host named 'host-9'"),
        (command(vm="adrift"), Refused, "not known on which host adrift runs"),
    ],
)
def test_what_is_not_there_cannot_be_reported(asked: ReportHealth, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        do(listening(), asked)


def test_a_snapshot_has_reports_and_a_copy_has_its_own() -> None:
    state = listening()
    reported(state)
    assert take(restore(take(state))) == take(state)
    copy = state.copy()
    reported(state, "r-2")
    assert list(copy.reports) == ["r-1"]
