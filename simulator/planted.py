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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, process_time
from typing import Any, NamedTuple

from simulator.tiers import ENOUGH, SHORT, TIERS

ROOT = Path(__file__).parents[1]
CATALOGUE = Path(__file__).with_name("planted.toml")
SECONDS = 30.0
"""Of CPU, for each bug, and for each tier without one."""
PATIENCE = 120.0
"""Real seconds until a process counts as one that hangs, and for each 10 seconds of CPU as many more."""
MOST_SEEDS = 1_000_000
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
    """What came of it: what was noticed after how many seeds and seconds; empty when it was not.

    `failed` says why the simulator itself failed, if it did: then no promise was seen to break.
    """

    name: str
    noticed: str
    seeds: int
    seconds: float
    failed: str = ""


class Sound(NamedTuple):
    """Seeds without a bug: how many were tried, and which of them find something all the same."""

    wrong: tuple[int, ...] = ()
    seeds: int = MOST_SEEDS


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


def sound(tier: str, seconds: float) -> Sound:
    """Which seeds of a tier can tell a bug: those that find nothing in the sources as they are."""
    with scratch(None) as copy:
        told = _told(_run(tier, copy, seconds, ["--all"]))
    return Sound(tuple(told["wrong"]), told["seeds"])


def try_out(planted: Planted, seconds: float = SECONDS, known: Sound = Sound()) -> Verdict:  # noqa: B008
    """Run its tier on the scratch copy, in a process of its own, until it notices or the time is over."""
    begun = monotonic()
    with scratch(planted) as copy:
        try:
            done = _run(planted.tier, copy, seconds, ["--seeds", str(known.seeds), *_skipped(known)])
        except subprocess.TimeoutExpired:
            return Verdict(planted.name, "liveness: a world does not come to its end", 1, monotonic() - begun)
    try:
        told = _told(done)
    except RuntimeError as error:
        return Verdict(planted.name, "", 1, monotonic() - begun, f", the simulator itself fails: {error}")
    return Verdict(planted.name, told["noticed"], told["seeds"], told["seconds"])


def _skipped(known: Sound) -> list[str]:
    return [word for seed in known.wrong for word in ("--skip", str(seed))]


def _told(done: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    """The last line that a process of `run_tier` has printed."""
    if done.returncode not in (0, 1) or not done.stdout.strip():
        raise RuntimeError((done.stderr.splitlines() or ["nothing was said"])[-1][:100])
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def _run(tier: str, copy: Path, seconds: float, more: list[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "simulator.planted", "--tier", tier, "--seconds", str(seconds), *more],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{copy}:{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE + PATIENCE / 10 * seconds,
        check=False,
    )


def run_tier(name: str, seconds: float, seeds: int, skipped: Sequence[int], goes_on: bool) -> int:
    """Seeds of one tier, until a promise is broken or the time is over; the last line printed is JSON."""
    noticed, wrong, seed, seeds = "", list[int](), FIRST_SEED, min(seeds, ENOUGH.get(name, seeds))
    while process_time() < seconds and seed < FIRST_SEED + seeds and (goes_on or not wrong):
        found = () if seed in skipped else (TIERS | SHORT)[name](seed).violations
        if found:
            noticed = noticed or found[0]
            wrong.append(seed)
        seed += 1
    told = {"noticed": noticed[:300], "wrong": wrong, "seeds": seed - FIRST_SEED, "seconds": process_time()}
    print(json.dumps(told), flush=True)
    return int(bool(wrong))


def _line(planted: Planted, verdict: Verdict) -> str:
    told = verdict.noticed.replace("\n", " ")[:110] or f"NOT NOTICED{verdict.failed}"
    after = f"{verdict.seeds:5} seeds {verdict.seconds:6.1f} s"
    return f"{planted.name:34} {planted.promise:9} {planted.tier:8} {after}  {told}"


def main() -> int:
    """Try them out and print a table; 1 when one was not noticed."""
    asked = _arguments()
    if asked.tier:
        return run_tier(asked.tier, asked.seconds, asked.seeds, asked.skip, asked.all)
    chosen = [each for each in catalogue() if not asked.only or each.name in asked.only]
    chosen = [each for each in chosen if not asked.of or each.tier == asked.of]
    known = {tier: sound(tier, asked.seconds) for tier in dict.fromkeys(each.tier for each in chosen)}
    for tier, seeds in known.items():
        print(f"{tier} without a bug: {seeds.seeds} seeds, of which {list(seeds.wrong)} find something", flush=True)
    verdicts = []
    for planted in chosen:
        verdicts.append(try_out(planted, asked.seconds, known[planted.tier]))
        print(_line(planted, verdicts[-1]), flush=True)
    noticed = sum(bool(verdict.noticed) for verdict in verdicts)
    print(f"{noticed} of {len(chosen)} noticed")
    return int(noticed < len(chosen))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="NAME")
    parser.add_argument("--of", metavar="TIER", help="only those of one tier")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of CPU, for each")
    by_itself = parser.add_argument_group("used by itself")
    by_itself.add_argument("--tier", help="run a tier with the sources as they are")
    by_itself.add_argument("--seeds", type=int, default=MOST_SEEDS)
    by_itself.add_argument("--skip", type=int, action="append", default=[])
    by_itself.add_argument("--all", action="store_true", help="go on after what was found")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
