"""Plants known bugs into a scratch copy of our sources, one by one, and sees whether the simulator notices each.

python -m simulator.planted                     # all of them, a table at the end
python -m simulator.planted --only two-lengths  # one
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from simulator.tiers import TIERS

ROOT = Path(__file__).parents[1]
CATALOGUE = Path(__file__).with_name("planted.toml")
SECONDS = 60.0
"""For each bug."""
BASELINE_SECONDS = 10.0
"""For each tier without a bug, before all others."""
PATIENCE = 60.0
"""Seconds more until a process counts as one that hangs; a world that has begun is played to its end."""
FIRST_SEED = 1


class Planted(NamedTuple):
    """One wrong change: `old` in `file` becomes `new`; `tier` is the part of the simulator that has to notice."""

    name: str
    tier: str
    file: str
    promise: str
    origin: str
    old: str
    new: str


class Verdict(NamedTuple):
    """What came of it: what was noticed after how many seeds and seconds; empty when it was not."""

    name: str
    noticed: str
    seeds: int
    seconds: float


def catalogue() -> list[Planted]:
    """All of them."""
    return [Planted(**row) for row in tomllib.loads(CATALOGUE.read_text())["planted"]]


def wrong(source: str, planted: Planted) -> str:
    """The text of a file with the bug in it."""
    if source.count(planted.old) != 1:
        raise ValueError(f"{planted.name}: its old text is {source.count(planted.old)} times in {planted.file}")
    return source.replace(planted.old, planted.new)


@contextmanager
def scratch(planted: Planted | None) -> Iterator[Path]:
    """A copy of our package with the bug in it; without one, as it is."""
    with tempfile.TemporaryDirectory(prefix="duenotice-planted-") as made:
        copy = Path(made) / "duenotice"
        shutil.copytree(ROOT / "src" / "duenotice", copy, ignore=shutil.ignore_patterns("__pycache__"))
        if planted is not None:
            file = copy / planted.file
            file.write_text(wrong(file.read_text(), planted))
        yield Path(made)


def try_out(planted: Planted, seconds: float = SECONDS, is_planted: bool = True) -> Verdict:
    """Run its tier on the scratch copy, in a process of its own, until it notices or the time is over."""
    begun = monotonic()
    with scratch(planted if is_planted else None) as copy:
        try:
            done = _run(planted.tier, copy, seconds)
        except subprocess.TimeoutExpired:
            return Verdict(planted.name, "liveness: a world does not come to its end", 1, monotonic() - begun)
    lines = done.stdout.splitlines()
    if done.returncode not in (0, 1) or not lines:
        last = (done.stderr.splitlines() or ["nothing was said"])[-1]
        return Verdict(planted.name, f"the simulator itself fails: {last[:100]}", 1, monotonic() - begun)
    told = json.loads(lines[-1])
    return Verdict(planted.name, told["noticed"], told["seeds"], told["seconds"])


def _run(tier: str, copy: Path, seconds: float) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "simulator.planted", "--tier", tier, "--seconds", str(seconds)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{copy}:{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=seconds + PATIENCE,
        check=False,
    )


def run_tier(name: str, seconds: float) -> int:
    """Seeds of one tier, until a promise is broken or the time is over; the last line printed is JSON."""
    begun, seeds, noticed = monotonic(), 0, ""
    while not noticed and monotonic() - begun < seconds:
        noticed = next(iter(TIERS[name](FIRST_SEED + seeds).violations), "")
        seeds += 1
    print(json.dumps({"noticed": noticed[:300], "seeds": seeds, "seconds": monotonic() - begun}), flush=True)
    return int(bool(noticed))


def _line(planted: Planted, verdict: Verdict) -> str:
    told = verdict.noticed.replace("\n", " ")[:110] or "NOT NOTICED"
    after = f"{verdict.seeds:5} seeds {verdict.seconds:6.1f} s"
    return f"{planted.name:34} {planted.promise:9} {planted.tier:8} {after}  {told}"


def main() -> int:
    """Try them out and print a table; 1 when one was not noticed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="NAME")
    parser.add_argument("--of", metavar="TIER", help="only those of one tier")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for each")
    parser.add_argument("--tier", help="run a tier with the sources as they are; used by itself")
    asked = parser.parse_args()
    if asked.tier:
        return run_tier(asked.tier, asked.seconds)
    chosen = [each for each in catalogue() if not asked.only or each.name in asked.only]
    chosen = [each for each in chosen if not asked.of or each.tier == asked.of]
    missed = 0
    for planted in {each.tier: each for each in chosen}.values():  # what fails without a bug would notice any
        sound = try_out(planted, BASELINE_SECONDS, is_planted=False)
        print(f"{planted.tier} without a bug: {sound.seeds} seeds, {sound.noticed or 'nothing is noticed'}", flush=True)
        if sound.noticed:
            return 2
    for planted in chosen:
        verdict = try_out(planted, asked.seconds)
        missed += not verdict.noticed
        print(_line(planted, verdict), flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} noticed")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
