"""Plays a scenario against a running service, on its clock; reports on the way and ends with a verdict.

A step that fails ends the play. What was raised stays as it is, for a person to look at, and the verdict names
it; `clean` takes back what can be taken back. A play that passes leaves what its steps leave.
"""

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import suppress
from datetime import datetime

from msgspec import Struct

from duenotice.client.operator.client import OperatorClient
from duenotice.errors import Malformed, NotFound, Refused
from duenotice.scenarios.casting import Candidates, cast
from duenotice.scenarios.expect import ClockDriver, Missed, Watcher
from duenotice.scenarios.kinds import RoleName
from duenotice.scenarios.scenario import Scenario, ScenarioStep
from duenotice.scenarios.verbs import STILL_THERE, TAKE_BACK, Stage, Undo, act

PASSED, FAILED, REFUSED = "passed", "failed", "refused"


class Cast(Struct, frozen=True):
    """Every role has somebody."""

    clock: str
    names: dict[str, str]
    at: datetime


class Begun(Struct, frozen=True):
    """A step begins."""

    step: int
    text: str
    note: str
    at: datetime


class Waiting(Struct, frozen=True):
    """A step waits, at the longest until then."""

    step: int
    at: datetime
    until: datetime


class Ended(Struct, frozen=True):
    """A step is over; `seen` is its result, or what was there instead."""

    step: int
    text: str
    ok: bool
    seen: str
    at: datetime


class PlayVerdict(Struct, frozen=True):
    """How it ended. `problem` and `hint` say why it did not pass, `left` what was raised and is still there."""

    name: str
    outcome: str
    cast: dict[str, str]
    clock: str
    began: datetime
    ended: datetime
    steps: tuple[Ended, ...]
    problem: str = ""
    hint: str = ""
    left: tuple[str, ...] = ()


Progress = Cast | Begun | Waiting | Ended | PlayVerdict


def play(
    scenario: Scenario,
    client: OperatorClient,
    told: Mapping[str, str],
    sleep: Callable[[float], object],
    clean: bool = False,
    lenient: bool = False,
) -> Iterator[Progress]:
    """Play it with the given cast, else with VMs that fit; the last item is the verdict.

    A `lenient` play goes on when a step fails: a real client may have approved before the scenario did.
    """
    player = _Player(scenario, client, sleep, lenient)
    try:
        yield from player.play(told)
        yield player.verdict(PASSED)
    except Missed as miss:
        yield player.verdict(FAILED, str(miss), left=player.left(clean))
    except (Refused, Malformed) as error:
        yield player.verdict(REFUSED, error.message, error.hint, player.left(clean))


class _Player:
    """One play from its first step to its last."""

    def __init__(
        self, scenario: Scenario, client: OperatorClient, sleep: Callable[[float], object], lenient: bool
    ) -> None:
        self._lenient = lenient
        self._scenario = scenario
        self._clock = ClockDriver(client, sleep)
        self._began = self._clock.moment
        self._stage = Stage(client, lambda: self._clock.moment.now)
        self._ended: list[Ended] = []
        self._looker = next((RoleName(role.name) for role in scenario.cast if role.is_vm), RoleName())

    @property
    def _names(self) -> dict[str, str]:
        return {role: pick.name for role, pick in self._stage.picks.items()}

    def play(self, told: Mapping[str, str]) -> Iterator[Progress]:
        """All steps in order; an error ends it."""
        self._stage.picks = cast(self._scenario.cast, Candidates.of(self._stage.client), told)
        yield Cast(self._began.clock, self._names, self._began.now)
        for number, step in enumerate(self._scenario.steps, start=1):
            yield from self._step(number, step)

    def verdict(self, outcome: str, problem: str = "", hint: str = "", left: tuple[str, ...] = ()) -> PlayVerdict:
        """How it ended."""
        return PlayVerdict(
            name=self._scenario.name,
            outcome=outcome,
            cast=self._names,
            clock=self._began.clock,
            began=self._began.now,
            ended=self._clock.moment.now,
            steps=tuple(self._ended),
            problem=problem,
            hint=hint,
            left=left,
        )

    def left(self, clean: bool) -> tuple[str, ...]:
        """What was raised and is still there, with or without cleaning; what has started runs to its end."""
        undone = {undo for undo in reversed(self._stage.undo) if clean and self._took_back(undo)}
        return tuple(undo.what for undo in self._stage.undo if undo not in undone and self._is_live(undo))

    def _took_back(self, undo: Undo) -> bool:
        with suppress(Refused):
            TAKE_BACK[undo.kind](self._stage.client, undo.name)
            return True
        return False

    def _is_live(self, undo: Undo) -> bool:
        """Whether it is still there."""
        with suppress(NotFound):
            return undo.kind not in STILL_THERE or STILL_THERE[undo.kind](self._stage.client, undo.name)
        return False

    def _step(self, number: int, step: ScenarioStep) -> Iterator[Progress]:
        text = step.tell(self._names)
        self._clock.look()
        yield Begun(number, text, step.note, self._clock.moment.now)
        try:
            seen = yield from self._done(number, step)
        except (Missed, Refused, Malformed) as problem:
            yield self._end(number, text, False, str(problem))
            if self._lenient:
                return
            raise
        yield self._end(number, text, True, seen)

    def _end(self, number: int, text: str, ok: bool, seen: str) -> Ended:
        self._ended.append(Ended(number, text, ok, seen, self._clock.moment.now))
        return self._ended[-1]

    def _done(self, number: int, step: ScenarioStep) -> Generator[Progress, None, str]:
        if step.verb == "wait":
            yield from self._wait(number, step.value.seconds)
            return ""
        if step.verb == "expect":
            return (yield from self._expect(number, step))
        return act(self._stage, step)

    def _wait(self, number: int, seconds: float) -> Iterator[Progress]:
        end = self._clock.moment.after(seconds)
        while (left := self._clock.moment.until(end)) > 0:
            yield Waiting(number, self._clock.moment.now, end)
            self._clock.let_pass(left)

    def _expect(self, number: int, step: ScenarioStep) -> Generator[Progress, None, str]:
        watching = Watcher(self._stage, self._clock, step, self._looker).watch()
        while True:
            try:
                until = next(watching)
            except StopIteration as end:
                if step.name and end.value.event is not None:
                    self._stage.named[step.name] = end.value.event.event_id
                return str(end.value.seen)
            yield Waiting(number, self._clock.moment.now, until)
