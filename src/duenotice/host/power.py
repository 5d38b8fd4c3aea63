"""What is done next to a domain: from how it is now, and what was noted. Pure.

An impact is an operation of such steps. Each begins with a look at the domain, so an operation that was interrupted
anywhere goes on where it was, and what is already so is not done again.
"""

from datetime import datetime, timedelta
from enum import Enum
from typing import NamedTuple

from duenotice.clock import MICROS
from duenotice.domain.event import EventType
from duenotice.host.hypervisor import DomainState, DomainStatus, Note, find_note

SETTLE = 3.0
"""Seconds between the note of a freeze and the pause, at the most; an older note is written again."""
_ANOTHER = "The other host has another domain of this name. Rename or undefine that one."


class Action(Enum):
    """A call to the hypervisor."""

    SUSPEND = "suspend"
    RESUME = "resume"
    PRESS = "press"
    DESTROY = "destroy"
    START = "start"
    UNDEFINE = "undefine"
    DEFINE_THERE = "define-there"
    START_THERE = "start-there"
    UNDEFINE_THERE = "undefine-there"
    MIGRATE = "migrate"


class Begin(NamedTuple):
    """Note that it begins; with a mark in the run that is on, if the operation must know that run again."""

    note: Note
    marks: bool = False


class WriteNote(NamedTuple):
    """Note how far it is."""

    note: Note


class LookAgain(NamedTuple):
    """Look again; `seconds` says when something else is to be done at the latest."""

    seconds: float | None = None


class IsOver(NamedTuple):
    """Nothing is left to do."""

    what: str


class CannotBe(NamedTuple):
    """It cannot be done, now or ever."""

    reason: str


Next = Action | Begin | WriteNote | LookAgain | IsOver | CannotBe


class PowerOperation(NamedTuple):
    """What is to be done to one domain, and what this process has seen of it.

    `duration` is the pause of a freeze in seconds, `grace` the time a guest gets after its power button was pressed.
    `there` is the domain at the `target`, if one is named. `pressed`: the button was. `refused` is why the target did
    not take it. `is_held`: its host is under maintenance, so it is not started before that is over. `steady` is `now`
    in microseconds since the `boot` of this machine.
    """

    event: str
    type: EventType
    here: DomainStatus
    now: datetime
    there: DomainStatus | None = None
    duration: float = 0.0
    grace: float = 60.0
    moves: bool = False
    undefines: bool = False
    pressed: bool = False
    refused: str = ""
    is_held: bool = False
    boot: str = ""
    steady: int = 0
    target: str = ""

    @property
    def note(self) -> Note | None:
        """Our note of this event, kept or in the run."""
        both = (*self.here.kept, *self.here.running) if self.here.is_transient else self.here.kept
        return find_note(both, self.event)

    @property
    def is_old_run(self) -> bool:
        """Whether the run that is on is the one that the impact began with."""
        mark = find_note(self.here.running, self.event)
        return mark is not None and mark.mark

    @property
    def meets_another(self) -> bool:
        """Whether the target has a domain of this name that is not this one: it is never touched."""
        there = "" if self.there is None else self.there.uuid
        return bool(there and self.here.uuid) and there != self.here.uuid

    def left(self, note: Note, whole: float) -> float:
        """Seconds until the end that was noted. The time of day counts only if this machine did not note it."""
        if self.is_ours(note):
            return (note.ends - self.steady) / MICROS
        return whole if note.until is None else (note.until - self.now).total_seconds()

    def is_ours(self, note: Note) -> bool:
        """Whether this machine has noted when it ends, and was not booted since."""
        return bool(self.boot) and note.boot == self.boot

    def ending(self, note: Note, seconds: float) -> Note:
        """The note with an end so long after now."""
        ends = self.steady + round(seconds * MICROS) if self.boot else 0
        return note._replace(until=self.now + timedelta(seconds=seconds), boot=self.boot, ends=ends)

    def noted(self, step: str, **fields: object) -> Note:
        """A new note."""
        note = Note(self.event, self.type.value, step, target=self.target, uuid=self.here.uuid)
        return note._replace(**fields)  # type: ignore[arg-type]


def next_step(operation: PowerOperation) -> Next:
    """The next step of an impact."""
    note = operation.note
    if note is not None and note.step == "done":
        return IsOver(note.what)
    if operation.meets_another and not operation.refused:
        if note is None:
            return CannotBe(_ANOTHER)
        operation = operation._replace(refused=_ANOTHER)
    if operation.type is EventType.FREEZE and operation.moves and operation.there is not None:
        return _migrate(operation, operation.there)
    return OPERATIONS[operation.type](operation)


def _freeze(operation: PowerOperation) -> Next:
    note, state = operation.note, operation.here.state
    if state is DomainState.GONE:
        return CannotBe("There is no such domain.")
    if state is DomainState.OFF:
        return _over(operation, "it was shut off, so there was nothing to pause")
    if note is None:
        if state is DomainState.PAUSED:
            return _over(operation, "somebody else had paused it, and it stays paused")
        return Begin(operation.ending(operation.noted("begun"), operation.duration))
    if note.step == "paused":
        return _paused(operation, note)
    if state is DomainState.PAUSED:
        return WriteNote(note._replace(step="paused"))
    if abs(operation.duration - operation.left(note, 0)) > SETTLE:  # it was killed before it paused
        return Begin(operation.ending(operation.noted("begun"), operation.duration))
    return Action.SUSPEND


def _paused(operation: PowerOperation, note: Note) -> Next:
    if operation.here.state is DomainState.RUNNING:
        return _over(operation, "paused and resumed")
    left = operation.left(note, 0)
    # An end that is further away than the whole pause comes from a clock that was set back since.
    if not 0 < left <= operation.duration + SETTLE:
        return Action.RESUME
    return LookAgain(left) if _counts(operation, note) else WriteNote(operation.ending(note, left))


def _counts(operation: PowerOperation, note: Note) -> bool:
    """Whether nothing better than its end is known; another machine, or an older boot, counts by another zero."""
    return operation.is_ours(note) or not operation.boot


def _reboot(operation: PowerOperation) -> Next:
    """A power cycle: unlike a reset, libvirt can tell afterwards whether it has happened."""
    note, state = operation.note, operation.here.state
    if state is DomainState.GONE:
        return CannotBe("There is no such domain.")
    if note is None:
        if state is DomainState.OFF and not operation.moves:
            return _over(operation, "it was shut off, so nothing was done")
        if operation.here.is_transient:
            return CannotBe("It is a transient domain: libvirt would forget it when it stops. Define it first.")
        starts = state is not DomainState.OFF
        return Begin(operation.ending(operation.noted("begun", starts=starts), operation.grace), marks=starts)
    if state is DomainState.OFF:
        return (
            _move(operation, operation.there)
            if operation.moves and operation.there is not None
            else _up_again(operation, note)
        )
    if operation.is_old_run:
        return _down(operation, note)
    return _fell_back(operation) if operation.refused else _over(operation, "shut down and started again")


def _up_again(operation: PowerOperation, note: Note) -> Next:
    if not note.starts:
        return _over(operation, "it was shut off, and stays so")
    return LookAgain() if operation.is_held else Action.START


def _down(operation: PowerOperation, note: Note) -> Next:
    """The guest gets its grace; one that is paused cannot use it."""
    left = operation.left(note, operation.grace)
    if operation.here.state is DomainState.PAUSED or left <= 0:
        return Action.DESTROY
    if left > operation.grace + SETTLE or not _counts(operation, note):  # also if a clock was set back: not for hours
        return WriteNote(operation.ending(note, min(left, operation.grace)))
    return LookAgain(left) if operation.pressed else Action.PRESS


def _move(operation: PowerOperation, there: DomainStatus) -> Next:
    """It is shut off here. It is started there before it is forgotten here: at no time it is nowhere."""
    note = operation.note
    assert note is not None
    if operation.refused:
        if there.state is DomainState.OFF and not operation.meets_another:
            return Action.UNDEFINE_THERE
        return Action.START if note.starts else _fell_back(operation)
    if there.state is DomainState.GONE:
        return Action.DEFINE_THERE
    if there.state is DomainState.OFF and note.starts:
        return Action.START_THERE
    return Action.UNDEFINE


def _fell_back(operation: PowerOperation) -> Next:
    return CannotBe(f"The other host did not take it, so it is back on its old one: {operation.refused}")


def _redeploy(operation: PowerOperation) -> Next:
    if (
        operation.here.state is DomainState.GONE
        and operation.there is not None
        and operation.there.state is not DomainState.GONE
    ):
        return IsOver("shut down, moved, and started on another host")
    return _reboot(operation)


def _remove(operation: PowerOperation) -> Next:
    note, state = operation.note, operation.here.state
    if state is DomainState.GONE:
        return IsOver("it is gone")
    if state is DomainState.OFF:
        return Action.UNDEFINE if operation.undefines else _over(operation, "shut down")
    if note is None:
        return Begin(operation.ending(operation.noted("begun"), operation.grace))
    return _down(operation, note)


def _migrate(operation: PowerOperation, there: DomainStatus) -> Next:
    """libvirt itself goes back if a migration fails half-way. Where it goes is noted, and the note goes along."""
    if operation.here.state in (DomainState.RUNNING, DomainState.PAUSED):
        if operation.note is None:  # if it shuts itself off meanwhile, it stays so
            return Begin(operation.noted("begun", starts=False), marks=True)
        return CannotBe(f"It was not migrated: {operation.refused}") if operation.refused else Action.MIGRATE
    if operation.here.state is DomainState.GONE and there.state is not DomainState.GONE:
        return IsOver("moved to another host")
    return _reboot(operation)


def _over(operation: PowerOperation, what: str) -> Next:
    """Noted before it is reported: a driver that is asked again finds that it is done."""
    return WriteNote(operation.noted("done", what=what))


OPERATIONS = {
    EventType.FREEZE: _freeze,
    EventType.REBOOT: _reboot,
    EventType.REDEPLOY: _redeploy,
    EventType.PREEMPT: _remove,
    EventType.TERMINATE: _remove,
}
