"""What the state keeps twice is always what the rest of it adds up to, and the quick way is the plain way."""

from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from duenotice.clock import Instant
from duenotice.domain import records
from duenotice.domain.apply import apply
from duenotice.domain.plan import PlanProgress, StepStatus
from duenotice.domain.policy import Policy
from duenotice.domain.rules import due
from duenotice.domain.rules.maintenance import lets_begin
from duenotice.domain.snapshot import Snapshot, restore, take
from duenotice.domain.state import State
from tests.unit.domain import plain
from tests.unit.domain.build import NOW, listening, state_of
from tests.unit.domain.stories import POLICIES, STEPS, Step, run

Happenings = Callable[[State, Instant, Policy], Iterator[list[records.Transition]]]


def all_that_is_due(state: State, now: Instant, policy: Policy) -> Iterator[list[records.Transition]]:
    """What happens, whatever it happens to."""
    return (happening.changes for happening in due.due_actions(state, now, policy))


POLICIES_OF_ALL_KINDS = POLICIES | st.just(Policy(deletes_together=False))


def live(
    steps: list[Step], policy: Policy, due_actions: Happenings = all_that_is_due
) -> Iterator[tuple[State, Instant]]:
    """A story, with all that is due after each of its steps; seen after each."""
    for state in (state_of(), listening()):
        now = NOW
        for step in steps:
            now = run(state, [step], policy, now)
            for changes in due_actions(state, now, policy):
                for change in changes:
                    apply(state, change)
            yield state, now


def kept(state: State) -> dict[str, Any]:
    """All that is kept twice, in a form that can be compared."""
    return {
        "told": state.events_by_scope,
        "on": state.events_by_vm,
        "sizes": state.document_sizes,
        "holds": {
            scope: (dict(h.hits), h.unapproved_deletes, h.approved_deletes) for scope, h in state.blockers.items()
        },
        "healthy_hosts": state.fleet.healthy_hosts,
        "residents": state.scope_sizes,
        "under way": state.step_of_event,
        "lanes": {lane: set(plans) for lane, plans in state.plans_by_group.items()},
        "plans": {plan_id: progress_of(progress) for plan_id, progress in state.plans.items()},
    }


def progress_of(progress: PlanProgress) -> dict[str, Any]:
    """All that is known of a plan; heaps without what is true no more."""
    parts = {name: getattr(progress, name) for name in PlanProgress.__slots__}
    steps = progress.steps
    parts["_ready"] = sorted(number for number in progress._ready if steps[number].status is StepStatus.WAITING)
    parts["_moments"] = {entry for entry in progress._moments if progress._settling.get(entry[1]) == entry[0]}
    return parts


@given(STEPS, POLICIES_OF_ALL_KINDS)
def test_what_is_kept_twice_is_what_is_made_anew(steps: list[Step], policy: Policy) -> None:
    for state, _ in live(steps, policy):
        assert kept(state) == kept(restore(take(state)))


@given(STEPS, POLICIES_OF_ALL_KINDS)
def test_what_is_kept_twice_holds_also_when_nobody_has_looked_at_what_is_due(steps: list[Step], policy: Policy) -> None:
    state = state_of()
    run(state, steps, policy)
    assert kept(state) == kept(restore(take(state)))


def in_no_order(state: State) -> Snapshot:
    """The state as a value; the order of what happened in one instant may differ."""
    taken = take(state)
    parts = {name: getattr(taken, name) for name in taken.__struct_fields__}
    ordered = {name: tuple(sorted(part, key=repr)) for name, part in parts.items() if isinstance(part, tuple)}
    return structs.replace(taken, **ordered)


@given(STEPS, POLICIES_OF_ALL_KINDS)
def test_the_quick_way_to_what_is_due_is_the_plain_one(steps: list[Step], policy: Policy) -> None:
    """The same events start and end, the same steps begin, whoever looks and however."""
    pairs = zip(live(steps, policy), live(steps, policy, plain.due_actions), strict=True)
    for (quick, now), (slow, _) in pairs:
        assert in_no_order(quick) == in_no_order(slow)
        for progress in quick.plans.values():
            assert progress.ready(now.steady) == plain.ready(progress.whole(), now.steady)
            assert progress.ready(now.steady) == [] or not lets_begin(progress.plan, now, policy)
            assert progress.has_ready(now.steady) == bool(progress.ready(now.steady))
