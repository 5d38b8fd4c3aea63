"""An operator's plan: many VMs, cut into steps that go one update domain of a set at a time (G01, S11)."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from enum import Enum
from itertools import chain, islice
from operator import attrgetter, itemgetter

from msgspec import Struct

from duenotice.domain.event import MOST_RESOURCES, By, Cause, Consent, EventType
from duenotice.domain.fleet import Vm
from duenotice.domain.pieces import chunks, in_order
from duenotice.domain.scope import scope_of
from duenotice.domain.window import Window, WindowSpan


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

    `lane` is the set they stand in: of one lane only one `turn`, that is one update domain, is hit at a time. A plan
    may go by fault domain instead: then a turn is one of those, and the step says its `update_domain`. `tries` counts
    how often it was put back to wait again: each try has an event of its own.
    """

    lane: str
    turn: int
    scope: str
    resources: tuple[str, ...]
    host: str | None = None
    status: StepStatus = StepStatus.WAITING
    event_id: str | None = None
    ended: int | None = None
    reason: str = ""
    tries: int = 0
    update_domain: int | None = None


LANES_NAMED = 20
"""Lanes that a tally names."""


class Tally(Struct, frozen=True, omit_defaults=True):
    """The steps of a plan in numbers: how many, and of how many VMs, are in each status, in the order of `StepStatus`.

    `lanes` are the first of `lanes_in_all`, and `ended` is when the last step has ended, in steady time.
    """

    steps: tuple[int, ...]
    vms: tuple[int, ...]
    lanes: tuple[str, ...]
    lanes_in_all: int
    ended: int | None = None

    def count(self, status: StepStatus) -> int:
        """How many steps are in this status."""
        return dict(zip(StepStatus, self.steps, strict=True))[status]


def tally_of(steps: Iterable[Step]) -> Tally:
    """Looks at each step once: a million take a second."""
    counted: dict[StepStatus, int] = dict.fromkeys(StepStatus, 0)
    vms = counted.copy()
    lanes: dict[str, None] = {}
    ended: int | None = None
    for step in steps:
        counted[step.status] += 1
        vms[step.status] += len(step.resources)
        lanes[step.lane] = None
        if step.ended is not None:
            ended = step.ended if ended is None else max(ended, step.ended)
    return Tally(tuple(counted.values()), tuple(vms.values()), tuple(islice(lanes, LANES_NAMED)), len(lanes), ended)


class Maintenance(Struct, frozen=True, omit_defaults=True):
    """A plan with its steps; `settle` in microseconds, `at_once` steps at a time (0: no limit).

    Its steps hit only inside its `window`; `span` is the number of the span that is on, or comes next. `drains` is the
    host that it empties, `to` the one that it brings VMs back to. Plans of old journals do not know who asked for
    them, and when. Of one that is over perhaps only the `tally` is left of its steps.
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
"""A lane, a turn, a scope, a host and an update domain."""


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
            key = (vm.group, turn_of(vm, by), scope_of(vm), vm.host or "", vm.update_domain or 0)
            together.setdefault(key, []).append(vm.name)
    groups, singles = in_order(together.items(), key=itemgetter(0)), in_order(alone, key=attrgetter("name"))
    return tuple(
        chain(chain.from_iterable(_steps(item, by) for item in groups), (_step_alone(vm, by) for vm in singles))
    )


def turn_of(vm: Vm, by: By) -> int:
    """The number of the domain with which it is hit."""
    return (vm.fault_domain if by is By.FAULT_DOMAIN else vm.update_domain) or 0


def _steps(item: tuple[_Together, list[str]], by: By) -> Iterator[Step]:
    (lane, turn, scope, host, domain), names = item
    beside = domain if by is By.FAULT_DOMAIN else None
    return (Step(lane, turn, scope, some, host or None, update_domain=beside) for some in chunks(names, MOST_RESOURCES))


def _step_alone(vm: Vm, by: By) -> Step:
    """A lane of its own, behind those of all groups: `vm/` comes after the names of all kinds."""
    lane = scope_of(vm)
    return Step(lane, turn_of(vm, by), lane, (vm.name,), vm.host or None)
