"""One real agent in a world of its own, from one seed: a scripted service, and all faults of the table about agents.

python -m simulator.agents_world --seconds 60          # fresh seeds for a minute
python -m simulator.agents_world 4711 --trace          # one seed, with what happened
python -m simulator.agents_world 4711 --cut            # the shortest history that still fails
python -m simulator.agents_world 4711 --changing --cut # the same, where events change all the time
"""

import argparse
import os
import sys
from collections import Counter
from collections.abc import Collection, Sequence
from random import Random
from typing import Any, NamedTuple
from unittest.mock import patch

from duenotice.agent import ledger
from simulator.agents_checks import AgentChecker, Violation
from simulator.agents_faults import hit_by, pauses
from simulator.agents_machine import DAMAGE, AgentVm
from simulator.agents_service import ScriptedService, ToldEvent
from simulator.border import real_seconds, world_of
from simulator.faults import TABLE, Action, Faults
from simulator.loop import Stuck, VirtualLoop
from simulator.transcripts import DIGESTS_ONLY, Digests, Recording, Transcripts

BUSY, CALM = 900.0, 500.0
"""Seconds with faults, and seconds in which everything must come right."""
CHANGING = 200.0
"""Seconds in which events change, where nothing else goes wrong; four times as many where it does."""
HAS = frozenset({"agents", "script"})
LITTLE_LEDGER = 6_000
"""Bytes above which a ledger is compacted here, in half of the worlds."""


class AgentWorld:
    """What actions find around them."""

    def __init__(
        self, seed: int, loop: VirtualLoop, faults: Faults, trace: list[str] | None, recording: Recording
    ) -> None:
        self.transcripts = Transcripts(loop.time, recording)
        self.seed, self.loop, self.faults = seed, loop, faults
        dice = Random(f"{seed}/world")
        self.checker = AgentChecker(name="vm-0", trace=trace)
        self.service = ScriptedService(loop, "vm-0", self.checker)
        self.service.holds = dice.random() < 0.7
        self.service.on_start = self._impact
        named = dice.random() < 0.7
        self.vm = self.checker.vm = AgentVm(loop, "vm-0", self.service, self.checker, seed, self.transcripts, named)
        self.agents = [self.vm]

    def dice(self, name: str) -> Random:
        return Random(f"{self.seed}/{name}")

    def _impact(self, event: ToldEvent) -> None:
        dice = self.dice(f"impact/{event.id}")
        if "vm-0" in event.resources and not hit_by(event.type, self.vm, dice):
            pauses(self.vm, dice, event.lasts)

    def do(self, action: Action) -> None:
        kind = TABLE[action.kind]
        self.checker.say(f"-- {action.kind} (action {action.number})")
        if kind.do(self, self.dice(f"action/{action.number}")) is not False:  # type: ignore[arg-type]
            self.faults.count(action.kind)

    def calm(self) -> None:
        """All faults are over, and so are all events."""
        self.checker.say("-- calm")
        self.vm.heal()
        self.service.fault = ""
        for event_id in list(self.service.events):
            self.service.drop(event_id)


class AgentResult(NamedTuple):
    """What came of a world."""

    seed: int
    seconds: float
    violations: list[Violation]
    counts: Counter[str]
    polls: int
    trace: list[str]
    actions: list[Action]
    digests: Digests


def drawn(seed: int, seconds: float = BUSY, without: Collection[str] = ()) -> list[Action]:
    """The actions of a world, in order of time."""
    dice = Random(f"{seed}/actions")
    kinds = [kind for _, kind in sorted(TABLE.items()) if kind.needs and kind.needs <= HAS]
    moments = sorted(dice.uniform(1.0, seconds) for _ in range(dice.choice((10, 30, 60, 120))))
    names = dice.choices([kind.name for kind in kinds], [kind.weight for kind in kinds], k=len(moments))
    actions = [Action(number, at, name) for number, (at, name) in enumerate(zip(moments, names, strict=True))]
    return [action for action in actions if action.kind not in without]


def changes(seed: int) -> list[Action]:
    """Events that come and change while handlers are at work; if the seed is odd, other things go wrong, too."""
    dice, actions = Random(f"{seed}/changing"), list[Action]()
    kinds = ("event-scheduled", "event-changed", "event-changed", *(_troubles() if seed % 2 else ()))
    last = CHANGING * (4 if seed % 2 else 1)
    while not actions or actions[-1].at < last:
        at = (actions[-1].at if actions else 1.0) + dice.uniform(0.2, 6.0)
        kind = dice.choice(kinds)
        actions.append(Action(len(actions), at, dice.choice(kind) if isinstance(kind, tuple) else kind))
    return actions


def _troubles() -> list[str | tuple[str, ...]]:
    """What keeps an agent from approving and from recording, and one of all that can go wrong.

    Not a ledger that is damaged: whatever an agent did before does not count any more then.
    """
    faults = [kind for kind in TABLE.values() if kind.is_fault and kind.needs and kind.needs <= HAS]
    rest = tuple(sorted(kind.name for kind in faults if kind.name not in DAMAGE))
    return ["event-postponed", "event-cancelled", "answer-unavailable", "vm-disk-read-only", rest]


def play(
    seed: int, actions: Sequence[Action] | None = None, tracing: bool = False, recording: Recording = DIGESTS_ONLY
) -> AgentResult:
    """Play one world."""
    chosen = drawn(seed) if actions is None else list(actions)
    trace: list[str] | None = [] if tracing else None
    small = LITTLE_LEDGER if seed % 2 else ledger.COMPACT_ABOVE
    with world_of(seed) as loop, patch.object(ledger, "COMPACT_ABOVE", small):
        world = AgentWorld(seed, loop, Faults(), trace, recording)
        loop.call_later(0.1, world.vm.start)
        for action in chosen:
            loop.call_at(action.at, world.do, action)
        loop.call_at(BUSY, world.calm)
        loop.call_at(BUSY + CALM, loop.stop)
        try:
            loop.run_forever()
            world.checker.settle()
        except Stuck as error:
            world.checker.wrong("alive", str(error))
        for failure in loop.failures:
            if "Killed" not in failure:
                world.checker.wrong("alive", failure)
        world.vm.write_down_files()
    counts = world.faults.counts + Counter(world.vm.counts) + Counter(world.service.counts)
    checker, digests = world.checker, world.transcripts.digests
    return AgentResult(seed, BUSY + CALM, checker.violations, counts, checker.polls, trace or [], chosen, digests)


def cut_down(seed: int, actions: Sequence[Action], promise: str) -> list[Action]:
    """The shortest list of actions found that still breaks this promise."""
    kept, size = list(actions), max(1, len(actions) // 2)
    while size:
        at = 0
        while at < len(kept):
            fewer = kept[:at] + kept[at + size :]
            if any(each.promise == promise for each in play(seed, fewer).violations):
                kept = fewer
            else:
                at += size
        size //= 2
    return kept


def _report(result: AgentResult) -> None:
    say = sys.stdout.write
    for line in result.trace:
        say(line + "\n")
    for each in result.violations[:5]:
        say(f"seed {result.seed}  at {each.at:.3f}  {each.promise}: {each.what}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """One seed, or many until the time is over; 1 when a promise was broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seed", type=int, nargs="?")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--changing", action="store_true", help="events change all the time")
    parser.add_argument("--trace", action="store_true")
    parser.add_argument("--cut", action="store_true", help="cut a failing history down, and show its trace")
    parser.add_argument("--keep", metavar="1,2,3", help="only the actions with these numbers")
    parser.add_argument("--keep-going", action="store_true")
    given = parser.parse_args(arguments)
    if given.seed is not None:
        return _one(given)
    return _many(given)


def _actions(seed: int, given: Any) -> list[Action]:
    actions = changes(seed) if given.changing else drawn(seed)
    if given.keep is None:
        return actions
    numbers = {int(number) for number in given.keep.split(",") if number}
    return [action for action in actions if action.number in numbers]


def _one(given: Any) -> int:
    result = play(given.seed, _actions(given.seed, given), given.trace)
    if given.cut and result.violations:
        kept = cut_down(given.seed, result.actions, result.violations[0].promise)
        _report(play(given.seed, kept, tracing=True))
        _tell_shortest(kept, len(result.actions), given)
    else:
        _report(result)
    return int(bool(result.violations))


def _tell_shortest(kept: Sequence[Action], of: int, given: Any) -> None:
    say = sys.stdout.write
    say(f"\nIt still fails with {len(kept)} of {of} actions:\n")
    for action in kept:
        say(f"  #{action.number:<4} {action.at:9.1f} s  {action.kind:28} {TABLE[action.kind].says}\n")
    numbers = ",".join(str(action.number) for action in kept)
    kind = " --changing" if given.changing else ""
    say(f"\nReplay it:  python -m simulator.agents_world {given.seed}{kind} --keep {numbers or '-1'} --trace\n")


def _many(given: Any) -> int:
    begin, seed = real_seconds(), int.from_bytes(os.urandom(4), "big")
    worlds, bad, counts, polls = 0, 0, Counter[str](), 0
    while real_seconds() - begin < given.seconds:
        result = play(seed + worlds, _actions(seed + worlds, given))
        worlds, counts, polls = worlds + 1, counts + result.counts, polls + result.polls
        if result.violations:
            bad += 1
            _report(result)
            if not given.keep_going:
                break
    spent = real_seconds() - begin
    virtual = worlds * (BUSY + CALM)
    sys.stdout.write(
        f"{worlds} worlds, {virtual / 3600:.1f} virtual hours, {virtual / spent:.0f} virtual seconds a second, "
        f"{spent / max(1, polls) * 1e6:.0f} µs a poll, "
        f"{sum(counts.values())} faults of {len(counts)} kinds, {bad} bad\n"
    )
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
