"""How far a plan is: which of its steps may begin, kept so that a step costs the same in a large plan.

Steps stand as `maintenance.cut` gives them: a lane in one piece, its turns one after another. Only `apply` changes it.
"""

import heapq
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice, pairwise

from msgspec import structs

from duenotice.domain.heaps import ascending, up_to
from duenotice.domain.maintenance import OPEN, Maintenance, Status, Step, StepStatus, Tally, tally_of
from duenotice.domain.window import Window
from duenotice.errors import InvariantBroken

WAITING, UNDER_WAY = StepStatus.WAITING, StepStatus.UNDER_WAY
_CAN_WAIT_AGAIN = frozenset({UNDER_WAY, StepStatus.FAILED, StepStatus.SKIPPED})


class Progress:
    """A maintenance with its steps as they are now; `plan` is what does not change with a step.

    Of each lane one turn is on. Its waiting steps are in `_ready`; or the lane is in `_settling`, with the moment from
    which on they may begin. It is taken out when one of them has begun, or when any step has ended after that moment.
    """

    __slots__ = (
        "_begins",
        "_counts",
        "_ends",
        "_firsts",
        "_hit_lanes",
        "_hit_until",
        "_lanes",
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
        self._lanes, self.ended = (tally.lanes, tally.lanes_in_all), tally.ended
        self._latest: int | None = None
        self._close()
        if self.is_open:
            self._find_lanes()

    @property
    def is_open(self) -> bool:
        """Whether it is not over."""
        return self.plan.status in OPEN

    @property
    def waiting(self) -> int:
        """How many steps wait."""
        return self._counts[WAITING]

    @property
    def under_way(self) -> int:
        """How many steps are under way."""
        return self._counts[UNDER_WAY]

    @property
    def failed(self) -> int:
        """How many steps have failed."""
        return self._counts[StepStatus.FAILED]

    def tally(self) -> Tally:
        """Its steps in numbers, at once."""
        return Tally(tuple(self._counts.values()), tuple(self._vms.values()), *self._lanes, self.ended)

    def summary(self) -> Maintenance:
        """What is kept of a plan that is over when its steps are not."""
        return structs.replace(self.plan, tally=self.tally())

    def whole(self) -> Maintenance:
        """The maintenance with its steps, as one value."""
        return structs.replace(self.plan, steps=tuple(self.steps))

    def copy(self) -> "Progress":
        """A copy; what can never change again is shared."""
        if not self.is_open and not self.under_way:
            return self
        copy = Progress.__new__(Progress)
        for name in self.__slots__:
            value = getattr(self, name)
            setattr(copy, name, value.copy() if isinstance(value, list | dict) else value)
        copy._begins, copy._ends, copy._left = self._begins[:], self._ends[:], self._left[:]
        return copy

    def lanes(self) -> Iterator[str]:
        """The names of its lanes."""
        return (self.steps[first].lane for first in _firsts(self.steps)[:-1])

    def has_ready(self, now: int) -> bool:
        """Whether any step may begin now, found without looking at many."""
        if self.plan.status is not Status.RUNNING or 0 < self.plan.at_once <= self.under_way:
            return False
        return bool(self._ready) or any(
            self._settling.get(lane) == moment for moment, lane in up_to(self._moments, now)
        )

    def being_hit(self) -> Iterator[tuple[int, Step]]:
        """The steps under way, with their numbers."""
        numbered = enumerate(self.steps) if self.under_way else ()
        return ((number, step) for number, step in numbered if step.status is UNDER_WAY)

    def ready(self, now: int) -> list[int]:
        """The steps that may begin now: the first turn of each lane that is not over, once the last has settled."""
        if self.plan.status is not Status.RUNNING:
            return []
        limit = self.plan.at_once
        room = min(self.waiting, max(0, limit - self.under_way)) if limit else self.waiting
        least = ascending(self._ready) if room < len(self._ready) else sorted(self._ready)
        early = islice((number for number in least if self._waits(number)), room)
        settled = [lane for moment, lane in up_to(self._moments, now) if self._settling.get(lane) == moment]
        late = (number for lane in settled for number in self._waiting_of(lane))
        return sorted({*early, *late})[:room]

    def next_look(self, after: int) -> int | None:
        """When the next lane has settled, later than this."""
        if self.plan.status is not Status.RUNNING:
            return None
        later = (entry for entry in ascending(self._moments) if entry[0] > after)
        return next((moment for moment, lane in later if self._settling.get(lane) == moment), None)

    def still_hits(self, lane: str) -> bool:
        """Whether a plan that is over has a step under way in a lane."""
        return lane in self._hit_lanes

    def turn(self, status: Status, reason: str, over_at: datetime, window: Window | None = None) -> None:
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
        self._unsettle(self._lane(number))

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
            self._end_in_lane(self._lane(number), number)
        else:
            self._end_after_all(step.lane)

    def _count(self, before: Step, status: StepStatus) -> None:
        self._counts[before.status] -= 1
        self._counts[status] += 1
        self._vms[before.status] -= len(before.resources)
        self._vms[status] += len(before.resources)

    def _status(self, number: int) -> StepStatus | None:
        return self.steps[number].status if 0 <= number < len(self.steps) else None

    def _end_after_all(self, lane: str) -> None:
        self._hit_lanes[lane] -= 1
        if not self._hit_lanes[lane]:
            del self._hit_lanes[lane]

    def _end_in_lane(self, lane: int, number: int) -> None:
        self._unsettle(lane)
        self._note_end(lane, self.steps[number])
        if self._begins[lane] <= number < self._ends[lane]:
            self._left[lane] -= 1
            if not self._left[lane]:
                self._next_turn(lane)
        self._let_settle()

    def _let_settle(self) -> None:
        """Take out the lanes that have settled by now, and stale entries."""
        while self._moments:
            moment, lane = self._moments[0]
            is_true = self._settling.get(lane) == moment
            if is_true and not self._has_come(moment):
                return
            heapq.heappop(self._moments)
            if is_true:
                self._unsettle(lane)

    def _has_come(self, moment: int) -> bool:
        return self._latest is not None and moment <= self._latest

    def _note_end(self, lane: int, step: Step) -> None:
        """Keep the latest end of all steps, and of each lane the latest end of a step that was not skipped."""
        if step.ended is None:
            return
        self._latest = step.ended if self._latest is None else max(self._latest, step.ended)
        if step.status is not StepStatus.SKIPPED:
            self._hit_until[lane] = max(step.ended, self._hit_until.get(lane, step.ended))

    def _next_turn(self, lane: int) -> None:
        """Move a lane to its first turn that is not over."""
        steps, begin, last = self.steps, self._ends[lane], self._firsts[lane + 1]
        while begin < last:
            end = begin + 1
            while end < last and steps[end].turn == steps[begin].turn:
                end += 1
            left = sum(_is_left(steps[number]) for number in range(begin, end))
            if left:
                self._begins[lane], self._ends[lane], self._left[lane] = begin, end, left
                self._offer(lane)
                return
            begin = end
        self._begins[lane], self._ends[lane], self._left[lane] = last, last, 0
        self._hit_until.pop(lane, None)

    def _offer(self, lane: int) -> None:
        """Its steps may begin at once, or when the lane has settled."""
        moment = self._hit_until.get(lane)
        has_begun = any(not self._waits(number) for number in range(self._begins[lane], self._ends[lane]))
        if moment is None or has_begun or self._has_come(moment + self.plan.settle):
            self._put_ready(lane)
        else:
            self._settling[lane] = moment + self.plan.settle
            heapq.heappush(self._moments, (moment + self.plan.settle, lane))

    def _unsettle(self, lane: int) -> None:
        if self._settling.pop(lane, None) is not None:
            self._put_ready(lane)
        while self._ready and not self._waits(self._ready[0]):
            heapq.heappop(self._ready)

    def _put_ready(self, lane: int) -> None:
        for number in self._waiting_of(lane):
            heapq.heappush(self._ready, number)

    def _waiting_of(self, lane: int) -> list[int]:
        return [number for number in range(self._begins[lane], self._ends[lane]) if self._waits(number)]

    def _waits(self, number: int) -> bool:
        return self.steps[number].status is WAITING

    def _lane(self, number: int) -> int:
        return bisect_right(self._firsts, number) - 1

    def _close(self) -> None:
        """Keep only what matters when no step begins any more."""
        self._hit_lanes = Counter(step.lane for _, step in self.being_hit())
        self._firsts = self._begins = self._ends = self._left = array("l")
        self._latest = None
        self._hit_until: dict[int, int] = {}
        self._settling: dict[int, int] = {}
        self._moments: list[tuple[int, int]] = []
        self._ready: list[int] = []

    def _find_lanes(self) -> None:
        self._hit_lanes = Counter()
        self._firsts = _firsts(self.steps)
        self._begins, self._ends, self._left = self._firsts[:-1], self._firsts[:-1], self._firsts[:-1]
        if self.waiting == len(self.steps):
            self._open_all()
            return
        for number, step in enumerate(self.steps):
            self._note_end(self._lane(number), step)
        for lane in range(len(self._begins)):
            self._next_turn(lane)

    def _open_all(self) -> None:
        """Nothing has begun: the first turn of each lane is ready. A new plan of a million lanes is made here."""
        steps, ready = self.steps, self._ready
        for lane, (begin, last) in enumerate(pairwise(self._firsts)):
            end = begin + 1
            while end < last and steps[end].turn == steps[begin].turn:
                end += 1
            self._ends[lane], self._left[lane] = end, end - begin
            ready.extend(range(begin, end))  # in order, and so a heap


def _firsts(steps: Sequence[Step]) -> "array[int]":
    """The first step of each lane, and the number of steps at the end."""
    firsts, lane = array("l"), None
    for number, step in enumerate(steps):
        if step.lane != lane:
            firsts.append(number)
            lane = step.lane
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
