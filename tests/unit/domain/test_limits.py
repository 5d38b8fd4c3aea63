"""Live events of a scope, VMs of an event and bytes of a document are limited, whoever makes them (S24)."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duenotice.domain import commands as c
from duenotice.domain.event import LONGEST_DESCRIPTION, MOST_RESOURCES, EventType, Phase, size_of
from duenotice.domain.fleet import Declaration, Group, GroupKind, Host, Vm
from duenotice.domain.plan import Status, StepStatus
from duenotice.domain.policy import Policy
from duenotice.domain.rules.limits import DOCUMENT_FRAME
from duenotice.domain.rules.maintenance import NO_ROOM
from duenotice.domain.snapshot import take
from duenotice.domain.state import State
from duenotice.errors import Refused
from duenotice.wire.api_versions import API_VERSIONS
from duenotice.wire.documents import encode_document
from tests.unit.domain.build import BATCH, HOUR, NOW, SEED, WEB, declaration, do, id_of, listening, schedule, tick

TWO = Policy(events_per_scope=2)
WEBS = ("web-0", "web-1", "web-2", "web-3")


def reboot(number: int, *vms: str, description: str | None = None) -> c.ScheduleEvent:
    return c.ScheduleEvent(id_of(number), EventType.REBOOT, vms, description=description)


def full(*vms: str) -> State:
    """All listen, and the scope of each of these has two events."""
    state = listening()
    for number, name in enumerate(vms):
        schedule(state, name, number=100 + 2 * number)
        schedule(state, name, number=101 + 2 * number)
    return state


def big(number: int) -> State:
    """So many VMs of one set on one host, in one update domain."""
    group = Group(GroupKind.AVAILABILITY_SET, "big", update_domains=1)
    vms = (Vm(f"big-{n}", f"10.7.{n // 256}.{n % 256}", group.key, update_domain=0, host="h") for n in range(number))
    state = State()
    do(state, c.ApplyFleet(Declaration("big", hosts=(Host("h"), Host("i")), groups=(group,), vms=tuple(vms))))
    do(state, c.EnableScope("big-0"))
    return state


def refused(state: State, command: c.Command, policy: Policy = TWO) -> Refused:
    before = take(state)
    with pytest.raises(Refused) as refusal:
        do(state, command, policy=policy)
    assert take(state) == before
    return refusal.value


class TestEventsOfAScope:
    """A refusal says how many there would be, and which setting allows more."""

    @pytest.mark.parametrize(
        ("vm", "command"),
        [
            ("alone", reboot(1, "alone")),
            ("alone", c.OperateVm(id_of(1), "alone", EventType.REDEPLOY)),
            ("spot", c.EvictVm(id_of(1), "spot")),
            ("spot", c.DegradeHost("host-3", HOUR, SEED)),
            ("spot", c.FailHost("host-3", SEED)),
            ("batch_0", c.DeleteInstances("batch", ("batch_0",), SEED)),
            ("batch_0", c.ScaleSet("batch", SEED, 0)),
            ("batch_0", c.ChangeScaleSet("batch", SEED, 0)),
            ("batch_0", c.OperateInstances("batch", ("batch_0",), EventType.REBOOT, SEED)),
        ],
    )
    def test_one_more_is_refused_whoever_asks(self, vm: str, command: c.Command) -> None:
        refusal = refused(full(vm), command)
        assert re.search(r"would have [34] live events; events_per_scope is 2\.", refusal.message)
        assert "higher limit" in refusal.hint

    def test_the_last_one_allowed_is_taken(self) -> None:
        state = listening()
        do(state, reboot(1, "alone"), policy=TWO)
        do(state, reboot(2, "alone"), policy=TWO)
        assert len(state.events) == 2

    def test_other_scopes_have_room_of_their_own(self) -> None:
        state = full("alone")
        do(state, reboot(1, "zonal"), policy=TWO)
        assert len(state.events) == 3

    def test_an_event_that_is_gone_makes_room(self) -> None:
        state = full("alone")
        do(state, c.CancelEvent(id_of(100)))
        do(state, reboot(1, "alone"), policy=TWO)
        assert len(state.events) == 2

    def test_what_takes_the_place_of_another_needs_no_room(self) -> None:
        """A risk that grows: one event is cancelled, and one is raised."""
        state, one = listening(), Policy(events_per_scope=1)
        for hours in (2, 1):
            do(state, c.DegradeHost("host-3", hours * HOUR, id_of(hours)), policy=one)
        assert [event.resources for event in state.events.values()] == [("spot",)]

    def test_what_a_lower_limit_finds_stays_and_may_end(self) -> None:
        state, one = full("alone"), Policy(events_per_scope=1)
        do(state, c.CancelEvent(id_of(100)), policy=one)
        assert len(state.events) == 1

    def test_a_fleet_file_cannot_gather_more_in_one_scope(self) -> None:
        """Each VM takes its events along to the scope that it comes to."""
        state = full("alone", "zonal")
        vms = tuple(Vm(name, f"10.0.0.{n}", WEB.key, update_domain=0) for n, name in enumerate(("alone", "zonal"), 1))
        command = c.ApplyFleet(declaration(*vms, digest="gathered"), may_be_empty=True)
        assert "4 live events" in refused(state, command).message
        do(state, command, policy=Policy(events_per_scope=4))
        assert len(state.events_in(WEB.key)) == 4

    def test_a_failure_in_two_scopes_is_refused_as_a_whole(self) -> None:
        refused(full("zonal"), c.FailHost("host-1", SEED))


class TestPlans:
    """A plan makes room itself, when its steps end."""

    def test_its_steps_wait_for_those_before_them(self) -> None:
        state, one = listening(), Policy(events_per_scope=1)
        do(state, c.StartMaintenance(SEED, EventType.REBOOT, ("batch_0", "batch_1")), policy=one)
        now = NOW
        seen = set[int]()
        for _ in range(8):
            tick(state, now, one)
            seen.add(len(state.events_in(f"{BATCH.key}/0")))
            now = now.after(HOUR // 4)
        assert (state.maintenances[SEED].status, max(seen)) == (Status.DONE, 1)

    def test_it_pauses_when_others_have_filled_the_scope_and_goes_on_when_resumed(self) -> None:
        state = full("alone")
        do(state, c.StartMaintenance(SEED, EventType.REBOOT, ("alone",)), policy=TWO)
        tick(state, NOW, TWO)
        plan = state.maintenances[SEED]
        assert (plan.status, plan.steps[0].status) == (Status.PAUSED, StepStatus.WAITING)
        assert plan.reason == f"vm/alone would have 3 live events; events_per_scope is 2. {NO_ROOM}"
        do(state, c.CancelEvent(id_of(100)))
        do(state, c.ResumeMaintenance(SEED), policy=TWO)
        tick(state, NOW, TWO)
        assert state.maintenances[SEED].steps[0].status is StepStatus.UNDER_WAY

    def test_its_other_steps_go_on(self) -> None:
        state = full("alone")
        do(state, c.StartMaintenance(SEED, EventType.REBOOT, ("alone", "zonal")), policy=TWO)
        tick(state, NOW, TWO)
        plan = state.maintenances[SEED]
        assert plan.status is Status.RUNNING
        assert [step.resources for step in plan.steps if step.status is StepStatus.UNDER_WAY] == [("zonal",)]


class TestResources:
    """No event hits more than a thousand VMs."""

    def test_an_operator_may_name_a_thousand(self) -> None:
        state = big(MOST_RESOURCES + 1)
        names = tuple(state.fleet.vms)
        assert "1,001 VMs" in refused(state, reboot(1, *names), Policy()).message
        do(state, reboot(1, *names[:-1]))
        assert len(state.events[id_of(1)].resources) == MOST_RESOURCES

    @pytest.mark.parametrize(
        "command",
        [c.StartMaintenance(SEED, EventType.REBOOT, tuple(f"big-{n}" for n in range(2500))), c.FailHost("h", SEED)],
    )
    def test_more_of_them_get_several_events(self, command: c.Command) -> None:
        state = big(2500)
        do(state, command)
        tick(state)
        assert [len(event.resources) for event in state.events.values()] == [1000, 1000, 500]
        assert len({name for event in state.events.values() for name in event.resources}) == 2500


class TestBytesOfADocument:
    """They are added up before the event is raised, and are never more than what is counted."""

    def test_a_document_that_would_be_too_large_is_refused(self) -> None:
        state, policy = listening(), Policy(document_bytes=10_000)
        long = "\x01" * LONGEST_DESCRIPTION  # six bytes each in JSON
        do(state, reboot(1, "alone", description=long), policy=policy)
        refusal = refused(state, reboot(2, "alone", description=long), policy)
        assert refusal.message.startswith("The document of vm/alone would have 12,")
        assert "document_kib allows 10,000" in refusal.message
        do(state, reboot(2, "alone"), policy=policy)

    def test_what_leaves_makes_room(self) -> None:
        state, policy = listening(), Policy(document_bytes=10_000)
        for number in (1, 2, 3):
            do(state, reboot(number, "alone", description="\x01" * LONGEST_DESCRIPTION), policy=policy)
            do(state, c.CancelEvent(id_of(number)))
        assert state.document_sizes == {}

    @given(st.text(max_size=40), st.sets(st.sampled_from(WEBS[::2]), min_size=1), st.sampled_from([*EventType][:3]))
    def test_what_is_counted_is_close_to_the_largest_document(
        self, description: str, vms: set[str], event_type: EventType
    ) -> None:
        state = listening()
        for number in range(4):
            do(state, c.ScheduleEvent(id_of(number), event_type, tuple(vms), description=description))
        tick(state, NOW.after(HOUR))
        document = state.document(WEB.key)
        assert {event.phase for event in document.events} <= {Phase.SCHEDULED, Phase.STARTED}
        counted = DOCUMENT_FRAME + state.document_sizes.get(WEB.key, 0)
        written = max(len(encode_document(document, version)) for version in API_VERSIONS)
        assert written <= counted <= written + DOCUMENT_FRAME + 100 * len(document.events)
        assert counted == DOCUMENT_FRAME + sum(map(size_of, document.events))
