"""`make soak`: all parts of the simulator on all cores for a given time, until something is found.

python -m simulator.soak --for 10m      # 90s, 2h, …
python -m simulator.soak --of cluster,followers,hub
"""

import argparse
import gc
import logging
import multiprocessing
import os
import secrets
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from time import monotonic
from typing import NamedTuple

from duenotice.wire.spans import parse_duration, span
from simulator.soak_report import REPORT, hours, written
from simulator.tiers import TIERS, Round

SHARES = {
    "world": 0.19,
    "cluster": 0.07,
    "drivers": 0.08,
    "followers": 0.05,
    "hub": 0.02,
    "scenes": 0.03,
    "agents": 0.175,
    "changing": 0.03,
    "power": 0.225,
    "http": 0.085,
    "kills": 0.025,
    "stories": 0.02,
}
"""Which part of the time each tier gets."""
GOALS = {"power": ("images", 200_000), "http": ("requests", 1_000_000)}
"""What is enough of a tier, in one run: from then on the others share its time."""
LONGEST_ROUND = 900.0
"""Seconds after which a round counts as one that hangs."""
EVERY = 30.0
"""Seconds between two lines of progress, where there is no terminal."""


def quiet() -> None:
    """Processes of a world that are killed leave tasks behind, and asyncio would tell of each."""
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    warnings.simplefilter("ignore")


class Played(NamedTuple):
    """A round, and how long it took."""

    round: Round
    seconds: float


def play(tier: str, seed: int) -> Played:
    """One round, in a process of the pool."""
    begun = monotonic()
    try:
        done = TIERS[tier](seed)
    except Exception as error:
        replay = f"python -c 'from simulator.tiers import TIERS; print(TIERS[\"{tier}\"]({seed}))'"
        done = Round(replay, (f"the simulator failed: {error!r}",))
    gc.collect()  # what a world leaves behind must not end in the next one
    return Played(done, monotonic() - begun)


class Totals:
    """How much was run, by tier, and what it found."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.spent = dict.fromkeys(SHARES, 0.0)
        self.rounds: Counter[str] = Counter()
        self.sums: dict[str, Counter[str]] = {tier: Counter() for tier in SHARES}
        self.found: list[tuple[str, Round]] = []

    def add(self, tier: str, played: Played) -> None:
        """Count a round."""
        self.rounds[tier] += 1
        self.sums[tier].update({name: getattr(played.round, name) for name in Round._fields[2:]})
        if played.round.violations:
            self.found.append((tier, played.round))

    def all(self) -> Counter[str]:
        """The sums of all tiers."""
        return sum(self.sums.values(), Counter())

    def line(self) -> str:
        """All of it in a line."""
        sums = self.all()
        return (
            f"{span(self.seconds)}: {sum(self.rounds.values())} seeds, {hours(sums):.1f} virtual hours, "
            f"{sums['faults']} faults, {sums['acts']} acts, {sums['images']} images, {sums['requests']} requests, "
            f"{sums['kills']} kills, {sums['stories']} stories, {len(self.found)} violations"
        )

    def left(self, shares: Mapping[str, float]) -> dict[str, float]:
        """The shares of tiers that have not done enough yet."""
        goals = {tier: self.sums[tier][what] >= enough for tier, (what, enough) in GOALS.items()}
        return {tier: share for tier, share in shares.items() if not goals.get(tier)}


def next_tier(spent: Mapping[str, float], shares: Mapping[str, float]) -> str:
    """The tier that is farthest behind its share."""
    return min(shares, key=lambda tier: spent[tier] / shares[tier])


def soak(
    seconds: float,
    seed: int,
    pool: Executor,
    at_once: int,
    tell: Callable[[Totals], None] = lambda _: None,
    play: Callable[[str, int], Played] = play,
    shares: Mapping[str, float] = SHARES,
    now: Callable[[], float] = monotonic,
    goes_on: bool = False,
) -> Totals:
    """Rounds of all tiers, until the time is over or something is found; with `goes_on` also after that."""
    begun, totals = now(), Totals()
    under_way: dict[Future[Played], tuple[str, float]] = {}
    guess = dict.fromkeys(shares, 1.0)  # what a round of each tier costs, until that is known
    while goes_on or not totals.found:
        totals.seconds = now() - begun
        while totals.seconds < seconds and len(under_way) < at_once:
            tier = next_tier(totals.spent, totals.left(shares))
            totals.spent[tier] += guess[tier]
            under_way[pool.submit(play, tier, seed)] = tier, now()
            seed += 1
        if not under_way:
            break
        done, _ = wait(under_way, timeout=1.0, return_when=FIRST_COMPLETED)
        for future in done:
            tier, _ = under_way.pop(future)
            played = _result(future, tier)
            totals.spent[tier] += played.seconds - guess[tier]
            guess[tier] = played.seconds
            totals.add(tier, played)
        totals.seconds = now() - begun
        tell(totals)
        for tier, since in under_way.values():
            if now() - since > LONGEST_ROUND:
                totals.found.append((tier, Round(f"seeds before {seed}", (f"a round of {tier} does not end",))))
                return totals
    return totals


def _result(future: "Future[Played]", tier: str) -> Played:
    try:
        return future.result()
    except BrokenExecutor as error:
        return Played(Round("unknown: look at the system's log", (f"a process of {tier} died: {error}",)), 0.0)


class Progress:
    """Tells how far it is: in one line that is written over, or now and then where there is no terminal."""

    def __init__(self) -> None:
        self._told, self._found = monotonic(), 0

    def __call__(self, totals: Totals) -> None:
        for tier, found in totals.found[self._found :]:  # at once: a long run may be stopped before its end
            print(f"\nFound by {tier}:", *found.violations[:5], f"See it again: {found.replay}\n", sep="\n", flush=True)
        self._found = len(totals.found)
        if sys.stdout.isatty():
            print(f"\r{totals.line()}\033[K", end="", flush=True)
        elif monotonic() - self._told >= EVERY:
            self._told = monotonic()
            print(totals.line(), flush=True)


def _shares(names: str) -> dict[str, float]:
    """Only some tiers, with the same shares beside each other."""
    try:
        return {name: SHARES[name] for name in names.split(",")}
    except KeyError as error:
        raise argparse.ArgumentTypeError(f"{error} is none of {', '.join(SHARES)}") from None


def main() -> int:
    """1 when something was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--for", dest="span", default="10m", help="how long: 90s, 10m, 2h")
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=secrets.randbits(31), help="the first of all seeds")
    parser.add_argument("--of", type=_shares, default=SHARES, help="only these parts, with commas between them")
    parser.add_argument("--go-on", action="store_true", help="go on after something was found, to find more")
    parser.add_argument("--no-report", action="store_true", help="leave docs/soak.md as it is")
    asked = parser.parse_args()
    seconds = parse_duration(asked.span)
    print(f"soaking for {span(seconds)} on {asked.cores} cores from seed {asked.seed}", flush=True)
    # A new interpreter for each: what a fork would inherit is not what a seed makes.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(asked.cores, context, initializer=quiet)
    totals = soak(seconds, asked.seed, pool, asked.cores, Progress(), shares=asked.of, goes_on=asked.go_on)
    _end(pool)
    print(f"{totals.line()}" if not sys.stdout.isatty() else f"\r{totals.line()}\033[K")
    if totals.found:
        print("\nThe commands show it again, and cut worlds and agents down to the shortest history.")
    if not asked.no_report:
        REPORT.write_text(written(REPORT.read_text(), totals, asked.cores, asked.seed))
    return int(bool(totals.found))


def _end(pool: ProcessPoolExecutor) -> None:
    """Also those that hang."""
    processes = list(getattr(pool, "_processes", None) or {})
    pool.shutdown(wait=False, cancel_futures=True)
    for child in multiprocessing.active_children():
        if child.pid in processes:
            child.kill()


if __name__ == "__main__":
    sys.exit(main())
