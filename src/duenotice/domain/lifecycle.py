"""The whole life of an event as one table (D02, S7).

1. An event begins Scheduled, or Started when it has already happened (D04).
2. Scheduled becomes Started when approved or when its notice has run out; or it is cancelled.
3. Started is completed, or fails when its driver gives up; nobody can take back what is happening.
4. Completed, Cancelled and Failed are ends; a gone event never comes back and its id is not used again.
"""

from enum import Enum

from duenotice.domain.event import Phase
from duenotice.errors import Conflict


class Act(Enum):
    """What moves an event on."""

    SCHEDULE = "schedule"
    HAPPEN = "happen"
    START = "start"
    CANCEL = "cancel"
    COMPLETE = "complete"
    FAIL = "fail"


MOVES: dict[tuple[Phase | None, Act], Phase] = {
    (None, Act.SCHEDULE): Phase.SCHEDULED,
    (None, Act.HAPPEN): Phase.STARTED,
    (Phase.SCHEDULED, Act.START): Phase.STARTED,
    (Phase.SCHEDULED, Act.CANCEL): Phase.CANCELLED,
    (Phase.STARTED, Act.COMPLETE): Phase.COMPLETED,
    (Phase.STARTED, Act.FAIL): Phase.FAILED,
}


def move(phase: Phase | None, act: Act) -> Phase:
    """The phase that follows; an illegal move is refused and changes nothing."""
    try:
        return MOVES[phase, act]
    except KeyError:
        begun = "has not begun" if phase is None else f"is already {phase.value}"
        raise Conflict(f"Cannot {act.value} the event: it {begun}.", hint="Look at its state first.") from None
