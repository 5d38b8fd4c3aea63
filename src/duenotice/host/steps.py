"""What is done next to a domain: from how it is now, and what was noted. Pure.

An impact is a walk of such steps. Each begins with a look at the domain, so a walk that was interrupted anywhere goes
on where it was, and what is already so is not done again.
"""

from datetime import datetime, timedelta
from enum import Enum
from typing import NamedTuple

from duenotice.clock import MICROS
from duenotice.domain.event import EventType
from duenotice.host.notes import Note, find
from duenotice.host.ports import DomainSight, DomainState

SETTLE = 3.0
"""Seconds between the note of a freeze and the pause, at the most; an older note is written again."""
_ANOTHER = "The other host has another domain of this name. Rename or undefine that one."


class Do(Enum):
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
    """Note that it begins; with a mark in the run that is on, if the walk must know that run again."""

    note: Note
    marks: bool = False


class Keep(NamedTuple):
    """Note how far it is."""

    note: Note


class LookLater(NamedTuple):
    """Look again; `seconds` says when something else is to be done at the latest."""

    seconds: float | None = None


class IsOver(NamedTuple):
    """Nothing is left to do."""

    what: str


class CannotBe(NamedTuple):
    """It cannot be done, now or ever."""

    reason: str


Next = Do | Begin | Keep | LookLater | IsOver | CannotBe


class Walk(NamedTuple):
    """What is to be done to one domain, and what this process has seen of it.

    `duration` is the pause of a freeze in seconds, `grace` the time a guest gets after its power button was pressed.
    `there` is the domain at the `target`, if one is named. `pressed`: the button was. `refused` is why the target did
    not take it. `is_held`: its host is under maintenance, so it is not started before that is over. `steady` is `now`
    in microseconds since the `boot` of this machine.
    """

    event: str
    type: EventType
    here: DomainSight
    now: datetime
    there: DomainSight | None = None
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
        return find(both, self.event)

    @property
    def is_old_run(self) -> bool:
        """Whether the run that is on is the one that the impact began with."""
        mark = find(self.here.running, self.event)
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


def next_step(walk: Walk) -> Next:
    """The next step of an impact."""
    note = walk.note
    if note is not None and note.step == "done":
        return IsOver(note.what)
    if walk.meets_another and not walk.refused:
        if note is None:
            return CannotBe(_ANOTHER)
        walk = walk._replace(refused=_ANOTHER)
    if walk.type is EventType.FREEZE and walk.moves and walk.there is not None:
        return _migrate(walk, walk.there)
    return WALKS[walk.type](walk)


def _freeze(walk: Walk) -> Next:
    note, state = walk.note, walk.here.state
    if state is DomainState.GONE:
        return CannotBe("There is no such domain.")
    if state is DomainState.OFF:
        return _over(walk, "it was shut off, so there was nothing to pause")
    if note is None:
        if state is DomainState.PAUSED:
            return _over(walk, "somebody else had paused it, and it stays paused")
        return Begin(walk.ending(walk.noted("begun"), walk.duration))
    if note.step == "paused":
        return _paused(walk, note)
    if state is DomainState.PAUSED:
        return Keep(note._replace(step="paused"))
    if abs(walk.duration - walk.left(note, 0)) > SETTLE:  # it was killed before it paused
        return Begin(walk.ending(walk.noted("begun"), walk.duration))
    return Do.SUSPEND


def _paused(walk: Walk, note: Note) -> Next:
    if walk.here.state is DomainState.RUNNING:
        return _over(walk, "paused and resumed")
    left = walk.left(note, 0)
    # An end that is further away than the whole pause comes from a clock that was set back since.
    if not 0 < left <= walk.duration + SETTLE:
        return Do.RESUME
    return LookLater(left) if _counts(walk, note) else Keep(walk.ending(note, left))


def _counts(walk: Walk, note: Note) -> bool:
    """Whether nothing better than its end is known; another machine, or an older boot, counts by another zero."""
    return walk.is_ours(note) or not walk.boot


def _reboot(walk: Walk) -> Next:
    """A power cycle: unlike a reset, libvirt can tell afterwards whether it has happened."""
    note, state = walk.note, walk.here.state
    if state is DomainState.GONE:
        return CannotBe("There is no such domain.")
    if note is None:
        if state is DomainState.OFF and not walk.moves:
            return _over(walk, "it was shut off, so nothing was done")
        if walk.here.is_transient:
            return CannotBe("It is a transient domain: libvirt would forget it when it stops. Define it first.")
        starts = state is not DomainState.OFF
        return Begin(walk.ending(walk.noted("begun", starts=starts), walk.grace), marks=starts)
    if state is DomainState.OFF:
        return _move(walk, walk.there) if walk.moves and walk.there is not None else _up_again(walk, note)
    if walk.is_old_run:
        return _down(walk, note)
    return _fell_back(walk) if walk.refused else _over(walk, "shut down and started again")


def _up_again(walk: Walk, note: Note) -> Next:
    if not note.starts:
        return _over(walk, "it was shut off, and stays so")
    return LookLater() if walk.is_held else Do.START


def _down(walk: Walk, note: Note) -> Next:
    """The guest gets its grace; one that is paused cannot use it."""
    left = walk.left(note, walk.grace)
    if walk.here.state is DomainState.PAUSED or left <= 0:
        return Do.DESTROY
    if left > walk.grace + SETTLE or not _counts(walk, note):  # also if a clock was set back: not for hours
        return Keep(walk.ending(note, min(left, walk.grace)))
    return LookLater(left) if walk.pressed else Do.PRESS


def _move(walk: Walk, there: DomainSight) -> Next:
    """It is shut off here. It is started there before it is forgotten here: at no time it is nowhere."""
    note = walk.note
    assert note is not None
    if walk.refused:
        if there.state is DomainState.OFF and not walk.meets_another:
            return Do.UNDEFINE_THERE
        return Do.START if note.starts else _fell_back(walk)
    if there.state is DomainState.GONE:
        return Do.DEFINE_THERE
    if there.state is DomainState.OFF and note.starts:
        return Do.START_THERE
    return Do.UNDEFINE


def _fell_back(walk: Walk) -> Next:
    return CannotBe(f"The other host did not take it, so it is back on its old one: {walk.refused}")


def _redeploy(walk: Walk) -> Next:
    if walk.here.state is DomainState.GONE and walk.there is not None and walk.there.state is not DomainState.GONE:
        return IsOver("shut down, moved, and started on another host")
    return _reboot(walk)


def _remove(walk: Walk) -> Next:
    note, state = walk.note, walk.here.state
    if state is DomainState.GONE:
        return IsOver("it is gone")
    if state is DomainState.OFF:
        return Do.UNDEFINE if walk.undefines else _over(walk, "shut down")
    if note is None:
        return Begin(walk.ending(walk.noted("begun"), walk.grace))
    return _down(walk, note)


def _migrate(walk: Walk, there: DomainSight) -> Next:
    """libvirt itself goes back if a migration fails half-way. Where it goes is noted, and the note goes along."""
    if walk.here.state in (DomainState.RUNNING, DomainState.PAUSED):
        if walk.note is None:  # if it shuts itself off meanwhile, it stays so
            return Begin(walk.noted("begun", starts=False), marks=True)
        return CannotBe(f"It was not migrated: {walk.refused}") if walk.refused else Do.MIGRATE
    if walk.here.state is DomainState.GONE and there.state is not DomainState.GONE:
        return IsOver("moved to another host")
    return _reboot(walk)


def _over(walk: Walk, what: str) -> Next:
    """Noted before it is reported: a driver that is asked again finds that it is done."""
    return Keep(walk.noted("done", what=what))


WALKS = {
    EventType.FREEZE: _freeze,
    EventType.REBOOT: _reboot,
    EventType.REDEPLOY: _redeploy,
    EventType.PREEMPT: _remove,
    EventType.TERMINATE: _remove,
}
