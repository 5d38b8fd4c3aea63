"""A maintenance: VMs cut into steps, and how far it is (G01, S11).

A plan may have a million steps. `PlanProgress` changes in place and copies only what changes, so that one step costs
the same in a plan of any size.
"""

import heapq
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from enum import Enum
from itertools import chain, islice, pairwise
from operator import attrgetter, itemgetter

from msgspec import Struct, structs

from duenotice.domain.bulk import ascending, chunks, in_order, up_to
from duenotice.domain.event import MOST_RESOURCES, By, Cause, Consent, EventType
from duenotice.domain.fleet import Vm, scope_of
from duenotice.domain.window import Window, WindowSpan
from duenotice.errors import InvariantBroken


class Status(Enum):
    """The status of a maintenance."""

    RUNNING = "running"
    PAUSED = "paused"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


MOST = 1_000_000_000
"""The largest count that a plan takes: more than any fleet has, and less than what Python counts in one step."""
OPEN = frozenset({Status.RUNNING, Status.PAUSED})
"""A maintenance that is not over holds its sets: no other may begin on them."""


class StepStatus(Enum):
    """How far a step is; those in `OVER` do not change any more."""

    WAITING = "waiting"
    UNDER_WAY = "under-way"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"


class Step(Struct, frozen=True, omit_defaults=True, gc=False):
    """VMs of one update domain that are hit together, by one event.

    `group` is the group they stand in: of one group only one `domain`, that is one update domain, is hit at a time. A
    plan may go by fault domain instead: then a domain is one of those, and the step says its `update_domain`. `tries`
    counts how often it was put back to wait again: each try has an event of its own.
    """

    group: str
    domain: int
    scope: str
    resources: tuple[str, ...]
    host: str | None = None
    status: StepStatus = StepStatus.WAITING
    event_id: str | None = None
    ended: int | None = None
    reason: str = ""
    tries: int = 0
    update_domain: int | None = None


GROUPS_NAMED = 20
"""Lanes that a tally names."""


class Tally(Struct, frozen=True, omit_defaults=True):
    """The steps of a plan in numbers: how many, and of how many VMs, are in each status, in the order of `StepStatus`.

    `groups` are the first of `groups_in_all`, and `ended` is when the last step has ended, in steady time.
    """

    steps: tuple[int, ...]
    vms: tuple[int, ...]
    groups: tuple[str, ...]
    groups_in_all: int
    ended: int | None = None

    def count(self, status: StepStatus) -> int:
        """How many steps are in this status."""
        return dict(zip(StepStatus, self.steps, strict=True))[status]


def tally_of(steps: Iterable[Step]) -> Tally:
    """Looks at each step once: a million take a second."""
    counted: dict[StepStatus, int] = dict.fromkeys(StepStatus, 0)
    vms = counted.copy()
    groups: dict[str, None] = {}
    ended: int | None = None
    for step in steps:
        counted[step.status] += 1
        vms[step.status] += len(step.resources)
        groups[step.group] = None
        if step.ended is not None:
            ended = step.ended if ended is None else max(ended, step.ended)
    return Tally(tuple(counted.values()), tuple(vms.values()), tuple(islice(groups, GROUPS_NAMED)), len(groups), ended)


class Maintenance(Struct, frozen=True, omit_defaults=True):
    """A plan with its steps; `settle` in microseconds, `at_once` steps at a time (0: no limit).

    Its steps hit only inside its `window`; `span` is the number of the span that is on, or comes next. `drains` is the
    host that it empties, `to` the one that it brings VMs back to. Of one that is over perhaps only the `tally` is left
    of its steps.
    """

    id: str
    type: EventType
    cause: Cause
    steps: tuple[Step, ...]
    description: str | None = None
    settle: int = 0
    at_once: int = 0
    failures_allowed: int = 0
    status: Status = Status.RUNNING
    reason: str = ""
    window: Window | None = None
    span: int = 0
    title: str = ""
    author: str = ""
    asked_at: datetime | None = None
    over_at: datetime | None = None
    drains: str | None = None
    to: str | None = None
    tally: Tally | None = None
    consent: Consent = Consent.SCOPE
    by: By = By.UPDATE_DOMAIN

    @property
    def present_span(self) -> WindowSpan | None:
        """The span that is on, or comes next; None without a window, and when all are over."""
        if self.window is None or self.span >= len(self.window.spans):
            return None
        return self.window.spans[self.span]

    @property
    def is_out_of_window(self) -> bool:
        """Whether all of its window is over."""
        return self.window is not None and self.present_span is None

    def count(self, *statuses: StepStatus) -> int:
        """How many steps are in one of these."""
        return sum(step.status in statuses for step in self.steps)


_Together = tuple[str, int, str, str, int]
"""A group, a domain, a scope, a host and an update domain."""


def cut(vms: Iterable[Vm], by: By = By.UPDATE_DOMAIN) -> tuple[Step, ...]:
    """The steps of a plan: VMs of one host in one update domain go together, because the work is on the host.

    There are more steps if they are more than one event may hit.
    """
    together: dict[_Together, list[str]] = {}
    alone: list[Vm] = []
    for vm in vms:
        if vm.group is None:
            alone.append(vm)
        else:
            key = (vm.group, domain_by(vm, by), scope_of(vm), vm.host or "", vm.update_domain or 0)
            together.setdefault(key, []).append(vm.name)
    many, singles = in_order(together.items(), key=itemgetter(0)), in_order(alone, key=attrgetter("name"))
    return tuple(chain(chain.from_iterable(_steps(item, by) for item in many), (_step_alone(vm, by) for vm in singles)))


def domain_by(vm: Vm, by: By) -> int:
    """The number of the domain with which it is hit."""
    return (vm.fault_domain if by is By.FAULT_DOMAIN else vm.update_domain) or 0


def _steps(item: tuple[_Together, list[str]], by: By) -> Iterator[Step]:
    (group, domain, scope, host, update_domain), names = item
    beside = update_domain if by is By.FAULT_DOMAIN else None
    return (
        Step(group, domain, scope, some, host or None, update_domain=beside) for some in chunks(names, MOST_RESOURCES)
    )


def _step_alone(vm: Vm, by: By) -> Step:
    """A group of its own, behind those of all groups: `vm/` comes after the names of all kinds."""
    group = scope_of(vm)
    return Step(group, domain_by(vm, by), group, (vm.name,), vm.host or None)


WAITING, UNDER_WAY = StepStatus.WAITING, StepStatus.UNDER_WAY
_CAN_WAIT_AGAIN = frozenset({UNDER_WAY, StepStatus.FAILED, StepStatus.SKIPPED})


class PlanProgress:
    """A maintenance with its steps as they are now; `plan` is what does not change with a step.

    Of each group one domain is on. Its waiting steps are in `_ready`; or the group is in `_settling`, with the moment
    from which on they may begin. It is taken out when one of them has begun, or when any step has ended after that
    moment.
    """

    __slots__ = (
        "_begins",
        "_counts",
        "_ends",
        "_firsts",
        "_groups",
        "_hit_groups",
        "_hit_until",
        "_latest",
        "_left",
        "_moments",
        "_ready",
        "_settling",
        "_vms",
        "ended",
        "plan",
        "steps",
    )

    def __init__(self, plan: Maintenance) -> None:
        self.plan = structs.replace(plan, steps=())
        self.steps = list(plan.steps)
        tally = tally_of(plan.steps) if plan.tally is None else plan.tally
        self._counts = dict(zip(StepStatus, tally.steps, strict=True))
        self._vms = dict(zip(StepStatus, tally.vms, strict=True))
        self._groups, self.ended = (tally.groups, tally.groups_in_all), tally.ended
        self._latest: int | None = None
        self._close()
        if self.is_open:
            self._find_groups()

    @property
    def is_open(self) -> bool:
        """Whether it is not over."""
        return self.plan.status in OPEN

    @property
    def waiting(self) -> int:
        """How many steps wait."""
        return self._counts[WAITING]

    @property
    def running_count(self) -> int:
        """How many steps are under way."""
        return self._counts[UNDER_WAY]

    @property
    def failed(self) -> int:
        """How many steps have failed."""
        return self._counts[StepStatus.FAILED]

    def tally(self) -> Tally:
        """Its steps in numbers, at once."""
        return Tally(tuple(self._counts.values()), tuple(self._vms.values()), *self._groups, self.ended)

    def summary(self) -> Maintenance:
        """What is kept of a plan that is over when its steps are not."""
        return structs.replace(self.plan, tally=self.tally())

    def whole(self) -> Maintenance:
        """The maintenance with its steps, as one value."""
        return structs.replace(self.plan, steps=tuple(self.steps))

    def copy(self) -> "PlanProgress":
        """A copy; what can never change again is shared."""
        if not self.is_open and not self.running_count:
            return self
        copy = PlanProgress.__new__(PlanProgress)
        for name in self.__slots__:
            value = getattr(self, name)
            setattr(copy, name, value.copy() if isinstance(value, list | dict) else value)
        copy._begins, copy._ends, copy._left = self._begins[:], self._ends[:], self._left[:]
        return copy

    def groups(self) -> Iterator[str]:
        """The names of its groups."""
        return (self.steps[first].group for first in _firsts(self.steps)[:-1])

    def has_ready(self, now: int) -> bool:
        """Whether any step may begin now, found without looking at many."""
        if self.plan.status is not Status.RUNNING or 0 < self.plan.at_once <= self.running_count:
            return False
        return bool(self._ready) or any(
            self._settling.get(group) == moment for moment, group in up_to(self._moments, now)
        )

    def running(self) -> Iterator[tuple[int, Step]]:
        """The steps under way, with their numbers."""
        numbered = enumerate(self.steps) if self.running_count else ()
        return ((number, step) for number, step in numbered if step.status is UNDER_WAY)

    def ready(self, now: int) -> list[int]:
        """The steps that may begin now: the first domain of each group that is not over, once the last has settled."""
        if self.plan.status is not Status.RUNNING:
            return []
        limit = self.plan.at_once
        room = min(self.waiting, max(0, limit - self.running_count)) if limit else self.waiting
        least = ascending(self._ready) if room < len(self._ready) else sorted(self._ready)
        early = islice((number for number in least if self._waits(number)), room)
        settled = [group for moment, group in up_to(self._moments, now) if self._settling.get(group) == moment]
        late = (number for group in settled for number in self._waiting_of(group))
        return sorted({*early, *late})[:room]

    def next_look(self, after: int) -> int | None:
        """When the next group has settled, later than this."""
        if self.plan.status is not Status.RUNNING:
            return None
        later = (entry for entry in ascending(self._moments) if entry[0] > after)
        return next((moment for moment, group in later if self._settling.get(group) == moment), None)

    def still_hits(self, group: str) -> bool:
        """Whether a plan that is over has a step under way in a group."""
        return group in self._hit_groups

    def change_status(self, status: Status, reason: str, over_at: datetime, window: Window | None = None) -> None:
        """It is paused, goes on, or is over; then no step will begin any more."""
        self.plan = with_window(structs.replace(self.plan, status=status, reason=reason), window)
        if not self.is_open:
            self.plan = structs.replace(self.plan, over_at=over_at)
            self._close()

    def move_to(self, span: int) -> None:
        """The span with this number of its window is the next."""
        self.plan = structs.replace(self.plan, span=span)

    def put_back(self, numbers: Iterable[int], **fields: object) -> Maintenance:
        """The plan with these fields, in which these steps wait again; this costs as much as a new plan."""
        again = set(numbers)
        if any(self._status(number) not in _CAN_WAIT_AGAIN for number in again):
            raise InvariantBroken(f"Steps of {self.plan.id} cannot wait again.", hint="Please report this.")
        steps = tuple(_again(step) if number in again else step for number, step in enumerate(self.steps))
        return structs.replace(self.plan, steps=steps, **fields)

    def say(self, number: int, reason: str) -> None:
        """Add to what a step tells of itself."""
        step = self.steps[number]
        self.steps[number] = structs.replace(step, reason=_joined(step.reason, reason))

    def begin(self, number: int, event_id: str, reason: str) -> None:
        """A step has its event."""
        if not self.is_open or self._status(number) is not WAITING:
            raise InvariantBroken(f"Step {number} of {self.plan.id} cannot begin.", hint="Please report this.")
        step = self.steps[number]
        self.steps[number] = structs.replace(step, status=UNDER_WAY, event_id=event_id, reason=reason)
        self._count(step, UNDER_WAY)
        self._unsettle(self._group(number))

    def end(self, number: int, status: StepStatus, ended: int, reason: str) -> None:
        """A step is over, one that was under way or one that waited and was left out."""
        before = self._status(number)
        if before is not UNDER_WAY and not (self.is_open and before is WAITING):
            raise InvariantBroken(f"Step {number} of {self.plan.id} cannot end.", hint="Please report this.")
        step = self.steps[number]
        self.steps[number] = structs.replace(step, status=status, ended=ended, reason=_joined(step.reason, reason))
        self._count(step, status)
        self.ended = ended if self.ended is None else max(self.ended, ended)
        if self.is_open:
            self._end_in_group(self._group(number), number)
        else:
            self._end_after_all(step.group)

    def _count(self, before: Step, status: StepStatus) -> None:
        self._counts[before.status] -= 1
        self._counts[status] += 1
        self._vms[before.status] -= len(before.resources)
        self._vms[status] += len(before.resources)

    def _status(self, number: int) -> StepStatus | None:
        return self.steps[number].status if 0 <= number < len(self.steps) else None

    def _end_after_all(self, group: str) -> None:
        self._hit_groups[group] -= 1
        if not self._hit_groups[group]:
            del self._hit_groups[group]

    def _end_in_group(self, group: int, number: int) -> None:
        self._unsettle(group)
        self._note_end(group, self.steps[number])
        if self._begins[group] <= number < self._ends[group]:
            self._left[group] -= 1
            if not self._left[group]:
                self._next_domain(group)
        self._let_settle()

    def _let_settle(self) -> None:
        """Take out the groups that have settled by now, and stale entries."""
        while self._moments:
            moment, group = self._moments[0]
            is_true = self._settling.get(group) == moment
            if is_true and not self._has_come(moment):
                return
            heapq.heappop(self._moments)
            if is_true:
                self._unsettle(group)

    def _has_come(self, moment: int) -> bool:
        return self._latest is not None and moment <= self._latest

    def _note_end(self, group: int, step: Step) -> None:
        """Keep the latest end of all steps, and of each group the latest end of a step that was not skipped."""
        if step.ended is None:
            return
        self._latest = step.ended if self._latest is None else max(self._latest, step.ended)
        if step.status is not StepStatus.SKIPPED:
            self._hit_until[group] = max(step.ended, self._hit_until.get(group, step.ended))

    def _next_domain(self, group: int) -> None:
        """Move a group to its first domain that is not over."""
        steps, begin, last = self.steps, self._ends[group], self._firsts[group + 1]
        while begin < last:
            end = begin + 1
            while end < last and steps[end].domain == steps[begin].domain:
                end += 1
            left = sum(_is_left(steps[number]) for number in range(begin, end))
            if left:
                self._begins[group], self._ends[group], self._left[group] = begin, end, left
                self._offer(group)
                return
            begin = end
        self._begins[group], self._ends[group], self._left[group] = last, last, 0
        self._hit_until.pop(group, None)

    def _offer(self, group: int) -> None:
        """Its steps may begin at once, or when the group has settled."""
        moment = self._hit_until.get(group)
        has_begun = any(not self._waits(number) for number in range(self._begins[group], self._ends[group]))
        if moment is None or has_begun or self._has_come(moment + self.plan.settle):
            self._put_ready(group)
        else:
            self._settling[group] = moment + self.plan.settle
            heapq.heappush(self._moments, (moment + self.plan.settle, group))

    def _unsettle(self, group: int) -> None:
        if self._settling.pop(group, None) is not None:
            self._put_ready(group)
        while self._ready and not self._waits(self._ready[0]):
            heapq.heappop(self._ready)

    def _put_ready(self, group: int) -> None:
        for number in self._waiting_of(group):
            heapq.heappush(self._ready, number)

    def _waiting_of(self, group: int) -> list[int]:
        return [number for number in range(self._begins[group], self._ends[group]) if self._waits(number)]

    def _waits(self, number: int) -> bool:
        return self.steps[number].status is WAITING

    def _group(self, number: int) -> int:
        return bisect_right(self._firsts, number) - 1

    def _close(self) -> None:
        """Keep only what matters when no step begins any more."""
        self._hit_groups = Counter(step.group for _, step in self.running())
        self._firsts = self._begins = self._ends = self._left = array("l")
        self._latest = None
        self._hit_until: dict[int, int] = {}
        self._settling: dict[int, int] = {}
        self._moments: list[tuple[int, int]] = []
        self._ready: list[int] = []

    def _find_groups(self) -> None:
        self._hit_groups = Counter()
        self._firsts = _firsts(self.steps)
        self._begins, self._ends, self._left = self._firsts[:-1], self._firsts[:-1], self._firsts[:-1]
        if self.waiting == len(self.steps):
            self._open_all()
            return
        for number, step in enumerate(self.steps):
            self._note_end(self._group(number), step)
        for group in range(len(self._begins)):
            self._next_domain(group)

    def _open_all(self) -> None:
        """Nothing has begun: the first domain of each group is ready. A new plan of a million groups is made here."""
        steps, ready = self.steps, self._ready
        for group, (begin, last) in enumerate(pairwise(self._firsts)):
            end = begin + 1
            while end < last and steps[end].domain == steps[begin].domain:
                end += 1
            self._ends[group], self._left[group] = end, end - begin
            ready.extend(range(begin, end))  # in order, and so a heap


def _firsts(steps: Sequence[Step]) -> "array[int]":
    """The first step of each group, and the number of steps at the end."""
    firsts, group = array("l"), None
    for number, step in enumerate(steps):
        if step.group != group:
            firsts.append(number)
            group = step.group
    firsts.append(len(steps))
    return firsts


def with_window(plan: Maintenance, window: Window | None) -> Maintenance:
    """The plan with this window instead of the one it had; None keeps that."""
    return plan if window is None else structs.replace(plan, window=window, span=0)


def _again(step: Step) -> Step:
    return structs.replace(step, status=WAITING, event_id=None, ended=None, tries=step.tries + 1)


def _joined(*reasons: str) -> str:
    return " ".join(filter(None, reasons))


def _is_left(step: Step) -> bool:
    return step.status is WAITING or step.status is UNDER_WAY
