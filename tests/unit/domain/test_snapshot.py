"""A snapshot is the state: what is restored is what was folded (S3, S4)."""

from datetime import timedelta

from hypothesis import given

from duenotice.clock import Instant, Mark
from duenotice.domain import commands as c
from duenotice.domain import timers
from duenotice.domain.event import BY_USER, PLANNED, Phase
from duenotice.domain.fleet import scope_of
from duenotice.domain.plan import OPEN, Maintenance, Status, StepStatus
from duenotice.domain.policy import Policy
from duenotice.domain.records import EventStarted, RequestAnswered
from duenotice.domain.rules.decide import decide
from duenotice.domain.rules.due import next_due
from duenotice.domain.rules.maintenance import WINDOW_ENDED
from duenotice.domain.snapshot import restore, take
from duenotice.domain.state import State
from duenotice.domain.subscription import PushFormat
from duenotice.domain.token import Role
from tests.unit.domain.build import (
    DAY,
    NOW,
    SECOND,
    VMS,
    declaration,
    do,
    failed,
    id_of,
    listening,
    maintain,
    schedule,
    state_of,
    take_in,
    tick,
)
from tests.unit.domain.stories import POLICIES, STEPS, Step, run, window_of


def view(state: State, now: Instant) -> tuple[object, ...]:
    """All that anybody could ask of a state."""
    documents = {key: (state.document(key), scope.enabled) for key, scope in state.scopes.items()}
    moments = [now.steady + later for later in (0, 900 * SECOND, 10**9 * SECOND)]
    agendas = [set(timers.due(state.timers, state.events, state.blockers, moment)) for moment in moments]
    fleet = state.fleet
    places = (fleet.digest, fleet.site, fleet.hosts, fleet.groups, fleet.vms, fleet.last_applied, fleet.removed)
    marks = (state.position, state.at, state.mark, state.tombstones, state.tombstone_high_water, list(state.failures))
    plans = (list(state.maintenances.items()), state.unprocessed_outcomes, next_due(state, now.steady, now.at))
    return documents, agendas, places, marks, plans


@given(STEPS, POLICIES)
def test_what_is_restored_is_what_was_folded(steps: list[Step], policy: Policy) -> None:
    """After any decisions: the same documents, agenda, fleet, marks."""
    state = state_of()
    now = run(state, steps, policy)
    assert view(restore(take(state)), now) == view(state, now)


def test_every_field_of_a_snapshot_comes_back() -> None:
    """A field that a restart forgets would break a promise long after it: here each of them says something."""
    state = listening()
    schedule(state, "alone")
    do(state, c.ApplyFleet(declaration(*(vm for vm in VMS if vm.name != "zonal"), digest="2")))
    schedule(state, "spot", number=2)
    do(state, c.CancelEvent(id_of(2)))
    do(state, c.ApplyFleet(declaration(*(vm for vm in VMS if vm.name not in ("zonal", "spot")), digest="3")))
    for node, digest in (("a", "3"), ("b", "3"), ("c", "4")):
        do(state, c.ApplyFleet(declaration(*VMS[:2], digest=digest), node=node, text="text"))
    failed(state, "plain_0", 5)
    do(state, c.LiftIncarnations(1000))
    do(state, c.MarkClock(Mark(NOW.at, NOW.steady)))
    (step, *_) = maintain(state, "web-0", number=3).steps
    do(state, c.CancelEvent(step.event_id or ""))
    do(state, c.CreateToken("token", "edge", Role.FOLLOWER, "digest"))
    do(state, c.BeginSession("token", "digest", DAY))
    do(state, c.CreateSubscription(id_of(4), "https://r/", PushFormat.EVENTGRID, secret="s" * 16))
    do(state, c.ClaimPushes("process"))
    do(state, c.ReportHealth("r-1", "alone", "Resource.Hpc.Reboot", "odd", NOW.at, id_of(5)))
    take_in(state, [RequestAnswered("key", "fingerprint", NOW.at + timedelta(days=1), b"", NOW.steady + DAY)])
    taken = take(state)
    assert [name for name in taken.__struct_fields__ if not getattr(taken, name)] == []
    assert take(restore(taken)) == taken
    assert restore(taken).fleet.last_applied == state.fleet.last_applied, "their lines are stored once"


@given(STEPS, STEPS, POLICIES)
def test_a_restored_state_goes_on_like_the_one_it_was_taken_from(
    steps: list[Step], more: list[Step], policy: Policy
) -> None:
    """A restart makes no difference to anything that happens later."""
    folded = state_of()
    now = run(folded, steps, policy)
    restored = restore(take(folded))
    assert run(folded, more, policy, now) == run(restored, more, policy, now)
    assert take(folded) == take(restored)


@given(STEPS, POLICIES)
def test_the_first_entry_of_the_agenda_always_holds(steps: list[Step], policy: Policy) -> None:
    """The ticker sleeps until the first entry: it must be a true one, and none may be sooner."""
    state = state_of()
    run(state, steps, policy)
    moments = [timers.due_at(event, state.blockers_of(event.scope)) for event in state.events.values()]
    soonest = min((moment for moment in moments if moment is not None), default=None)
    assert (state.timers[0][0] if state.timers else None) == soonest


@given(STEPS, POLICIES)
def test_no_vm_ever_sees_its_incarnation_go_back_or_stand_for_two_contents(steps: list[Step], policy: Policy) -> None:
    """S3 and S4, through moves, departures and returns."""
    state, now = state_of(), NOW
    seen: dict[str, int] = {}
    contents: dict[tuple[str, int], object] = {}
    for step in steps:
        now = run(state, [step], policy, now)
        for vm in state.fleet.vms.values():
            document = state.document(scope_of(vm))
            assert document.incarnation >= seen.get(vm.name, 0)
            seen[vm.name] = document.incarnation
            shown = [(event.id, event.phase) for event in document.events]
            assert contents.setdefault((scope_of(vm), document.incarnation), shown) == shown


@given(STEPS, POLICIES)
def test_planned_work_never_starts_while_another_update_domain_of_its_scope_is_hit(
    steps: list[Step], policy: Policy
) -> None:
    """S11, whatever is asked for and however late anybody looks."""
    state, now = state_of(), NOW
    for step in steps:
        now = run(state, [step], policy, now)
        while changes := decide(state, c.Tick(), now, policy):
            for change in changes:
                if isinstance(change, EventStarted) and change.event.cause in PLANNED:
                    assert domains_hit(state, change.event.scope) <= {change.event.update_domain}
            do(state, c.Tick(), now, policy)


@given(STEPS, POLICIES)
def test_of_one_set_a_maintenance_has_one_update_domain_under_way_at_every_tick(
    steps: list[Step], policy: Policy
) -> None:
    """S11 and G01, across the placement groups of a scale set too, whatever else is asked for meanwhile."""
    state, now = state_of(), NOW
    for step in steps:
        now = run(state, [step], policy, now)
        while do(state, c.Tick(), now, policy):
            for plan in state.maintenances.values():
                turns = turns_under_way(plan)
                assert len(turns) == len({lane for lane, _ in turns})
        assert not state.unprocessed_outcomes


@given(STEPS, POLICIES)
def test_every_maintenance_comes_to_its_end_once_drivers_report_and_nobody_pauses(
    steps: list[Step], policy: Policy
) -> None:
    """Whoever vanished, moved, broke or was cancelled on the way."""
    state = state_of()
    now = run(state, steps, policy)
    for plan in list(state.maintenances.values()):
        if plan.status is Status.PAUSED:
            do(state, c.ResumeMaintenance(plan.id, window_of((1, 1), after=now, open_at_the_end=True)), now, policy)
    for _ in range(200):
        tick(state, now, policy)
        for event in list(state.events.values()):
            if event.phase is Phase.STARTED and event.impact_ends is None and event.id in state.events:
                do(state, c.ReportImpact(event.id), now, policy)
        tick(state, now, policy)
        due = next_due(state, now.steady, now.at)
        now = now.after(0 if due is None else due - now.steady)
    left = [plan for plan in state.maintenances.values() if plan.status in OPEN]
    assert [plan for plan in left if plan.status is not Status.PAUSED or plan.reason != WINDOW_ENDED] == []
    assert (state.unprocessed_outcomes, [plan.id for plan in state.maintenances.values() if turns_under_way(plan)]) == (
        {},
        [],
    )


def turns_under_way(plan: Maintenance) -> set[tuple[str, int]]:
    """The sets that a plan is hitting, each with its update domain."""
    return {(step.group, step.domain) for step in plan.steps if step.status is StepStatus.UNDER_WAY}


def domains_hit(state: State, scope: str) -> set[int | None]:
    """The update domains of a scope that the platform is hitting."""
    begun = [event for event in state.document(scope).events if event.phase is Phase.STARTED]
    return {event.update_domain for event in begun if event.cause not in BY_USER}


def test_a_snapshot_does_not_follow_the_state() -> None:
    state = listening()
    taken = take(state)
    schedule(state, "alone")
    tick(state, NOW.after(900 * SECOND))
    assert taken.events == ()
    assert restore(taken).document("vm/alone").incarnation == 0
