"""What happens because time passes: starts and ends (C05, D02, G01, S1, S11)."""

import heapq
from collections.abc import Container, Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

from duenotice.clock import Instant
from duenotice.domain import commands as c
from duenotice.domain import records as t
from duenotice.domain import timers
from duenotice.domain.event import Act, Event, Phase
from duenotice.domain.policy import Policy
from duenotice.domain.rules.lifecycle import complete
from duenotice.domain.rules.maintenance import ended, is_due, missed, next_moment, next_steps
from duenotice.domain.rules.timing import held_back, may_start, started
from duenotice.domain.state import State
from duenotice.domain.timers import alike, blockers_of


class RuleFailed(Exception):
    """A rule failed at what is due for an event or a plan; the argument is what `DueAction.of` would be."""


PLAN = "the plan "
"""Stands before the id of a plan, where the failed part has to be named."""
PLANS = "all plans"
"""Stands for all plans."""


class DueAction(NamedTuple):
    """One thing that is due. `of` is the id of the event that it happens to, or names the plan."""

    of: str
    changes: list[t.Transition]


def due_actions(
    state: State, now: Instant, policy: Policy, without: Container[str] = frozenset()
) -> Iterator[DueAction]:
    """All that is due by now, one thing after another; apply each, and nothing else, before you ask for the next.

    Of the events that may go on it is always the one that was due first, by the state as it is then; plans go on when
    no event is left. What has to wait is looked at once, and again when what it waits for has changed. Those in
    `without` are left out: a rule has failed there before, and the others must not wait for it.
    """
    queue = _Queue(state, now, policy, without)
    goes_on = True
    while goes_on:
        yield from queue.emptied()
        goes_on = False
        for of, changes in _of_plans(state, now, policy, without):
            goes_on = True
            yield from queue.and_what_follows(of, changes)


def _of_plans(state: State, now: Instant, policy: Policy, without: Container[str]) -> Iterator[DueAction]:
    """What is due of all plans: steps that have ended, then what each plan does about it."""
    if PLANS in without:
        return
    for step in ended(state, now):
        if (of := PLAN + step.maintenance_id) not in without:
            yield DueAction(of, [step])
    for progress in [progress for progress in state.plans.values() if progress.is_open]:
        if (of := PLAN + progress.plan.id) not in without:
            try:
                yield from (DueAction(of, changes) for changes in next_steps(state, progress, now, policy))
            except Exception as error:
                raise RuleFailed(of) from error


def tick(state: State, command: c.Tick, now: Instant, policy: Policy) -> list[t.Transition]:
    """The next thing that is due; `due_actions` gives all of them at less cost."""
    return next((action.changes for action in due_actions(state, now, policy)), [])


def next_due(state: State, after: int, at: datetime | None = None) -> int | None:
    """When something is next due by itself, in steady time; None when nothing is.

    `at` is the time of day of `after`: with it windows count too, as they come on an undisturbed clock.
    """
    moments = [timers.next_after(state.timers, state.events, state.blockers, after)]
    moments += [progress.next_look(after) for progress in state.plans.values()]
    if at is not None:
        moments += [next_moment(progress, Instant(at, after)) for progress in state.plans.values()]
    return min((moment for moment in moments if moment is not None), default=None)


def window_is_due(state: State, now: Instant, policy: Policy) -> bool:
    """Whether the time of day lets a plan go on; it may have jumped there."""
    return any(is_due(progress, now, policy) for progress in state.plans.values())


class _Queue:
    """The events that are due by now and were not looked at since something has changed for them."""

    def __init__(self, state: State, now: Instant, policy: Policy, without: Container[str]) -> None:
        self._state, self._now, self._policy, self._without = state, now, policy, without
        self._entries: list[timers.Entry] = []
        for entry in timers.due(state.timers, state.events, state.blockers, now.steady):
            heapq.heappush(self._entries, entry)  # one by one: `heapify` would stop all other threads
        if not policy.deletes_together:  # the timers expect that they wait for each other
            waiting = (
                key
                for key, blockers in state.blockers.items()
                if blockers.approved_deletes and blockers.unapproved_deletes
            )
            self._put(event_id for key in waiting for event_id in state.events_by_scope.of(key))

    def emptied(self) -> Iterator[DueAction]:
        """What happens to these events, until nothing more does."""
        while self._entries:
            due, event_id = heapq.heappop(self._entries)
            event = self._state.events.get(event_id)
            if event is not None and event_id not in self._without and self._due_at(event) == due:
                yield from self._happened(event)

    def _happened(self, event: Event) -> Iterator[DueAction]:
        try:
            changes = _step(self._state, event, self._now, self._policy)
        except Exception as error:
            raise RuleFailed(event.id) from error
        if changes:
            yield from self.and_what_follows(event.id, changes)

    def and_what_follows(self, of: str, changes: list[t.Transition]) -> Iterator[DueAction]:
        """Yield these changes, and then look again at the events that may now go on."""
        touched = [(*about, self._state.blockers_of(about[1])) for change in changes if (about := _about(change))]
        shared = {key: self._state.blockers.get(key) for event_id, *_ in touched if (key := self._shares(event_id))}
        yield DueAction(of, changes)
        for key, before in shared.items():
            if self._state.blockers.get(key) != before:
                self._put(self._state.consenting.of(key))
        for event_id, scope, blockers in touched:
            if scope in self._state.events_by_scope:
                is_as_before = alike(blockers, self._state.blockers_of(scope))
                self._put((event_id,) if is_as_before else self._state.events_by_scope.of(scope))

    def _shares(self, event_id: str) -> str | None:
        event = self._state.events.get(event_id)
        return None if event is None else event.shares

    def _put(self, event_ids: Iterable[str]) -> None:
        for event_id in event_ids:
            event = self._state.events.get(event_id)
            due = None if event is None else self._due_at(event)
            if due is not None and due <= self._now.steady:
                heapq.heappush(self._entries, (due, event_id))

    def _due_at(self, event: Event) -> int | None:
        return timers.due_at(event, blockers_of(self._state.blockers, event), self._policy.deletes_together)


def _about(change: t.Transition) -> tuple[str, str] | None:
    """The event that a change is about, and its scope."""
    if isinstance(change, t.EventRaised | t.EventStarted):
        return change.event.id, change.event.scope
    return (change.event_id, change.scope) if isinstance(change, t.EventCompleted | t.EventCancelled) else None


def _step(state: State, event: Event, now: Instant, policy: Policy) -> list[t.Transition]:
    if event.phase is Phase.STARTED:
        return complete(state, event)
    if event.opening is not None and event.opening.is_over(now):
        return missed(state, event, now)
    if may_start(event, now) and not held_back(state, event, now, policy):
        begun = started(event, Act.START, now, policy)
        if begun.impact_ends is None and not any(name in state.fleet.vms for name in event.resources):
            begun = begun.with_(impact_ends=now.steady)  # no VM is hit, so no driver will report it
        return [t.EventStarted(begun)]
    return []
