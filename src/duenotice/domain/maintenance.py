"""An operator's plan: many VMs, cut into steps that go one update domain of a set at a time (G01, S11)."""

from collections.abc import Iterable
from enum import Enum
from itertools import groupby

from msgspec import Struct

from duenotice.domain.event import Cause, EventType
from duenotice.domain.fleet import Vm
from duenotice.domain.scope import scope_of


class Status(Enum):
    """How a maintenance is."""

    RUNNING = "running"
    PAUSED = "paused"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


OPEN = frozenset({Status.RUNNING, Status.PAUSED})
"""A maintenance that is not over holds its sets: no other may begin on them."""


class StepStatus(Enum):
    """How a step is."""

    WAITING = "waiting"
    UNDER_WAY = "under-way"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"


OVER = frozenset({StepStatus.DONE, StepStatus.FAILED, StepStatus.SKIPPED})


class Step(Struct, frozen=True, omit_defaults=True):
    """VMs of one update domain that are hit together, by one event.

    `lane` is the set they stand in: of one lane only one `turn`, that is one update domain, is hit at a time.
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


class Maintenance(Struct, frozen=True, omit_defaults=True):
    """A plan with its steps; `settle` in microseconds, `at_once` steps at a time (0: no limit)."""

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

    def count(self, *statuses: StepStatus) -> int:
        """How many steps are in one of these."""
        return sum(step.status in statuses for step in self.steps)


def cut(vms: Iterable[Vm]) -> tuple[Step, ...]:
    """The steps of a plan: VMs of one host in one update domain go together, for the host is what is worked on."""
    ordered = sorted(vms, key=_together)
    return tuple(_step(list(vms)) for _, vms in groupby(ordered, key=_together))


def ready(plan: Maintenance, now: int) -> list[int]:
    """The steps that may begin now: the first turn of each lane that is not over, once the last has settled."""
    if plan.status is not Status.RUNNING:
        return []
    room = plan.at_once - plan.count(StepStatus.UNDER_WAY) if plan.at_once else len(plan.steps)
    turns = _turns(plan)
    settling = _settling(plan, turns, now)
    waiting = [
        number
        for number, step in enumerate(plan.steps)
        if step.status is StepStatus.WAITING and step.turn == turns[step.lane] and step.lane not in settling
    ]
    return waiting[: max(0, room)]


def looks(plan: Maintenance) -> list[int]:
    """When settle times end that a step may be waiting for, in steady time."""
    if plan.status is not Status.RUNNING or not plan.count(StepStatus.WAITING):
        return []
    return [step.ended + plan.settle for step in plan.steps if step.ended is not None and _was_hit(step)]


def _turns(plan: Maintenance) -> dict[str, int]:
    """For each lane the turn that is on."""
    turns: dict[str, int] = {}
    for step in plan.steps:
        if step.status not in OVER:
            turns[step.lane] = min(step.turn, turns.get(step.lane, step.turn))
    return turns


def _settling(plan: Maintenance, turns: dict[str, int], now: int) -> set[str]:
    """The lanes whose last turn ended only just now."""
    return {
        step.lane
        for step in plan.steps
        if step.ended is not None
        and _was_hit(step)
        and now < step.ended + plan.settle
        and step.turn < turns.get(step.lane, step.turn)
    }


def _was_hit(step: Step) -> bool:
    """Whether there is anything to settle after a step: where it was skipped nothing has happened."""
    return step.status is not StepStatus.SKIPPED


def _together(vm: Vm) -> tuple[str, int, str, str]:
    turn = 0 if vm.update_domain is None else vm.update_domain
    return vm.group or scope_of(vm), turn, scope_of(vm), vm.host or ""


def _step(vms: list[Vm]) -> Step:
    lane, turn, scope, host = _together(vms[0])
    return Step(lane, turn, scope, tuple(vm.name for vm in vms), host or None)
