"""Worlds from fresh seeds, which are printed: no promise is broken, and a seed is the same world each time."""

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from duenotice.engine.engine import Engine
from simulator import runs
from simulator.__main__ import told as told_action
from simulator.border import real_seconds
from simulator.faults import TABLE, Action
from simulator.runs import SHAPES, Outcome, cut_down, lived, run, shape_of
from simulator.tiers import short_world
from simulator.transcripts import Digests
from simulator.world import Shape
from tests.support.seed import SEED

SHORT = 0.1
"""Virtual hours that things happen in; the end of a world, when all comes to rest, is an hour or more besides."""
ENOUGH = 2.0
"""Seconds of the processor's time for fresh worlds."""
SMALL = Shape(nodes=2, vms=3, seconds=120, actions=8, lease=60.0, agents=1)


def told(outcome: Outcome) -> str:
    return f"python -m simulator --seed {outcome.seed} --hours {SHORT}: {outcome.violations}"


def test_no_promise_is_broken_in_fresh_worlds() -> None:
    """As many as fit into some seconds, but at least one."""
    sys.stdout.write(f"DUENOTICE_SEED={SEED}\n")
    seed, until = SEED, real_seconds() + ENOUGH
    while seed == SEED or real_seconds() < until:
        outcome = run(seed, SHORT)
        assert not outcome.violations, told(outcome)
        seed += 1


def test_no_promise_is_broken_with_several_nodes() -> None:
    sys.stdout.write(f"DUENOTICE_SEED={SEED}\n")
    outcome = run(SEED, shape=Shape(nodes=3, vms=5, seconds=600, actions=15, lease=60.0))
    assert not outcome.violations, outcome.violations


def test_the_same_seed_gives_the_same_history_byte_for_byte() -> None:
    """Also in another process, where sets of texts have another order."""
    sys.stdout.write(f"DUENOTICE_SEED={SEED}\n")
    again = (
        f"from simulator.runs import run; from simulator.world import Shape; print(run({SEED}, shape={SMALL}).digests)"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": "."}
    here = Path(__file__).parents[2]
    ran = subprocess.run([sys.executable, "-c", again], cwd=here, env=environment, capture_output=True, text=True)
    first, second = run(SEED, shape=SMALL), run(SEED, shape=SMALL)
    assert f"{first.digests}" == f"{second.digests}" == ran.stdout.strip(), ran.stderr


def test_a_world_gives_back_all_that_was_in_it() -> None:
    """A soak plays thousands in one process: what each left behind would make the next one slower."""
    before = engines()
    short_world(7, 3, "command")
    assert engines() == before


def engines() -> int:
    """How many are in memory."""
    gc.collect()
    return sum(isinstance(each, Engine) for each in gc.get_objects())


def test_there_are_many_faults_and_each_can_be_left_out() -> None:
    faults = {kind.name for kind in TABLE.values() if kind.is_fault}
    assert len(faults) >= 30
    outcome = run(SEED, shape=SMALL, without=faults)
    assert not faults & set(outcome.faults)


def test_a_world_that_breaks_a_promise_is_cut_down_to_what_breaks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong act is planted: it says that a promise is broken, if a backup was made before."""
    made: list[str] = []

    def plant(world: object, dice: object) -> None:
        made.append("plan")
        if made[-2:] == ["pause", "plan"]:
            world.broken("S0: planted")  # type: ignore[attr-defined]

    monkeypatch.setitem(TABLE, "plan", TABLE["plan"]._replace(do=plant))
    monkeypatch.setitem(TABLE, "pause", TABLE["pause"]._replace(do=lambda *_: made.append("pause")))
    shape = Shape(nodes=1, vms=3, seconds=300, actions=0)
    actions = [Action(number, 10.0 * number, kind) for number, kind in enumerate(["plan", "repair", "pause", "plan"])]
    kept, outcome = cut_down(1, shape, actions=actions)
    assert [action.number for action in kept] == [2, 3]
    assert "S0: planted" in outcome.violations[0]


def test_an_action_of_the_shortest_history_is_told_with_the_moment_that_its_trace_has(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Else nobody finds it in the trace."""
    action = Action(3, 7.3, "plan")
    lived(1, Shape(nodes=1, vms=3, seconds=10, actions=0), [action], trace=True)
    (line,) = (line for line in capsys.readouterr().out.splitlines() if " #3 " in line)
    assert told_action(action).split()[:2] == ["#3", f"{float(line.split()[0]):.1f}"]


def test_a_seed_has_one_shape() -> None:
    assert shape_of(SEED) == shape_of(SEED)
    assert not lived(SEED, Shape(nodes=2, vms=3, seconds=60, actions=0, lease=6.0), ()).violations


@pytest.mark.parametrize("kind", [(1, "", 0), (3, "webhook", 0), (3, "command", 2), (1, "", 2)])
def test_what_a_small_world_prints_replays_it(kind: tuple[int, str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """The command names a shape that is known, and it is the same world."""
    lives: list[tuple[int, Shape | None]] = []

    def noted(seed: int, *_: object, shape: Shape | None = None) -> Outcome:
        lives.append((seed, shape))
        return Outcome(seed, 0.0, 0.0, 0, {}, 0, 0, {}, (), Digests())

    monkeypatch.setattr(runs, "run", noted)
    name = short_world(7, *kind).replay.removeprefix("python -m simulator --seed 7 --shape ")
    assert lives == [(7, SHAPES[name](7))]
