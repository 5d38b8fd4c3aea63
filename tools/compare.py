"""Compares two commits: do 40 worlds of the simulator answer, store and do the same?

python -m tools.compare main              # main and the files as they are here
python -m tools.compare main HEAD         # two commits; a directory with a checkout will do, too
python -m tools.compare main --show short/2   # one world, and more of what differs in it

Each side runs its own simulator with its own sources. Stored names are compared through `tools/renames.toml` of the
newer side. It ends with 0 if all is equal, with 1 if something differs, and with 2 if it cannot tell.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import msgspec

from simulator.digests import FORMAT, WORLDS, Header, Told
from simulator.transcripts import Digests, Entry

ROOT = Path(__file__).resolve().parents[1]
COMMAND = Path("simulator", "digests.py")
TABLE = Path("tools", "renames.toml")
TRANSCRIPTS = Digests.__struct_fields__
AT_ONCE = 4
"""Worlds of one process."""
BEFORE, AFTER = 3, 6
"""Entries that `--show` prints before the first that differs, and from there on."""
LONGEST, CONTEXT = 300, 80
"""Characters of an entry that are printed, and how many of them before the first that differs."""


class Refusal(Exception):
    """Why two commits cannot be compared."""


class Side(NamedTuple):
    """A checked out commit."""

    name: str
    folder: Path
    hash_seed: str = "0"


class World(NamedTuple):
    """A world, with its entries if they were asked for."""

    told: Told
    entries: tuple[Entry, ...]

    def of(self, transcript: str) -> list[Entry]:
        """The entries of one transcript."""
        return [entry for entry in self.entries if entry.transcript == transcript]


# --- checking out ---


@contextmanager
def checked_out(name: str) -> Iterator[Path]:
    """A directory as it is, or a commit in a temporary worktree."""
    if Path(name).is_dir():
        yield Path(name).resolve()
        return
    found = _git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
    if found.returncode:
        raise Refusal(f"{name} is neither a commit that git knows in {ROOT} nor a directory.")
    with TemporaryDirectory(prefix="duenotice-compare-") as made:
        folder = Path(made) / "tree"
        added = _git("worktree", "add", "--quiet", "--detach", str(folder), found.stdout.strip())
        if added.returncode:
            raise Refusal(f"git cannot check out {name}: {added.stderr.strip()}")
        try:
            yield folder
        finally:
            _git("worktree", "remove", "--force", str(folder))


def _git(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)


def side(name: str, folder: Path, hash_seed: str = "0") -> Side:
    """A side that can be compared."""
    if not (folder / COMMAND).exists():
        raise Refusal(f"{name} has no {COMMAND}, which prints the digests: it cannot be compared. Take a newer commit.")
    return Side(name, folder, hash_seed)


# --- running ---


def run(one: Side, worlds: Sequence[str], renames: Path, entries: bool = False) -> list[World]:
    """What these worlds give on one side, in a process of its own."""
    words = [word for world in worlds for word in ("--world", world)]
    done = subprocess.run(
        [sys.executable, "-m", "simulator.digests", "--renames", str(renames), *words, *(["--entries"] * entries)],
        cwd=one.folder,
        env={
            **{key: value for key, value in os.environ.items() if not key.startswith(("DUENOTICE_", "PYTHON"))},
            "PYTHONPATH": f"{one.folder / 'src'}:{one.folder}",
            "PYTHONHASHSEED": one.hash_seed,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        said = done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"]
        raise Refusal(f"{one.name} cannot play {', '.join(worlds)}: {said[-1]}")
    header = msgspec.json.decode(lines[0], type=Header)
    if header.format != FORMAT:
        raise Refusal(f"{one.name} writes transcripts of format {header.format}, and this script knows {FORMAT}.")
    if not Path(header.source).is_relative_to(one.folder):
        raise Refusal(f"{one.name} was played with the sources in {header.source}, not with its own.")
    return list(_worlds(lines[1:]))


def _worlds(lines: Sequence[str]) -> Iterator[World]:
    told: Told | None = None
    entries: list[Entry] = []
    for line in lines:
        if line.startswith('{"world":'):
            if told is not None:
                yield World(told, tuple(entries))
            told, entries = msgspec.json.decode(line, type=Told), []
        else:
            entries.append(msgspec.json.decode(line, type=Entry))
    if told is not None:
        yield World(told, tuple(entries))


def play(old: Side, new: Side, worlds: Sequence[str], jobs: int) -> list[tuple[Told, Told]]:
    """All worlds on both sides."""
    parts = [worlds[at : at + AT_ONCE] for at in range(0, len(worlds), AT_ONCE)]
    renames = new.folder / TABLE
    with ThreadPoolExecutor(jobs) as pool:
        try:
            both = [[pool.submit(run, one, part, renames) for one in (old, new)] for part in parts]
            pairs = [zip(first.result(), second.result(), strict=True) for first, second in both]
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return [(first.told, second.told) for pair in pairs for first, second in pair]


# --- comparing ---


def differing(old: Told, new: Told) -> list[str]:
    """The transcripts that differ in a world."""
    return [name for name in TRANSCRIPTS if getattr(old.digests, name) != getattr(new.digests, name)]


def first_difference(old: Sequence[Entry], new: Sequence[Entry]) -> int | None:
    """The index of the first entry that is not the same on both sides; None if all are."""
    pairs = enumerate(zip_longest(old, new))
    return next((at for at, (first, second) in pairs if first != second), None)


def _cut(entry: Entry | None, other: Entry | None) -> str:
    """An entry in a line, cut around the place where it begins to differ from another."""
    if entry is None:
        return "(nothing more)"
    text, against = (f"{each.about} {each.data}" if each else "" for each in (entry, other))
    pairs = enumerate(zip(text, against, strict=False))
    begin = max(0, next((at for at, (one, two) in pairs if one != two), 0) - CONTEXT)
    shown = text[begin : begin + LONGEST]
    line = shown.replace("\r", "\\r").replace("\n", "\\n")
    return f"{'…' if begin else ''}{line}{'…' if begin + LONGEST < len(text) else ''}"


def shown(transcript: str, old: World, new: World, sides: Sequence[str], before: int = 0, after: int = 1) -> list[str]:
    """Where a transcript begins to differ, for a person."""
    first, second = old.of(transcript), new.of(transcript)
    at = first_difference(first, second)
    if at is None:
        return [f"  the entries of {transcript} in {old.told.world} are equal when they are read one by one"]
    lines = [f"  {old.told.world}, entry {at} of {len(first)} and {len(second)}:"]
    width = max(map(len, sides))
    for index in range(max(0, at - before), min(at + after, max(len(first), len(second)))):
        one, other = (each[index] if index < len(each) else None for each in (first, second))
        if one == other:
            lines.append(f"    {'both':{width}}  {_cut(one, None)}")
        else:
            lines += [
                f"    {name:{width}}  {_cut(*pair)}"
                for name, pair in zip(sides, ((one, other), (other, one)), strict=True)
            ]
    return lines


def report(old: Side, new: Side, told: Sequence[tuple[Told, Told]]) -> int:
    """Print what differs; 1 if anything does."""
    for first, second in told:
        if names := differing(first, second):
            print(f"{first.world:28} differs: {', '.join(names)}")
        for one, world in ((old, first), (new, second)):
            for violation in world.violations[:1]:
                print(f"{world.world:28} in {one.name} breaks a promise: {violation}")
    is_different = False
    for name in TRANSCRIPTS:
        worlds = [first.world for first, second in told if name in differing(first, second)]
        counts = sum(first.entries[name] for first, _ in told)
        if not worlds:
            print(f"{name:9} equal in {len(told)} worlds ({counts} entries)")
            continue
        is_different = True
        print(f"{name:9} {len(worlds)} of {len(told)} differ")
        print("\n".join(shown(name, *_entries(old, new, worlds[0]), (old.name, new.name))))
    return int(is_different)


def _entries(old: Side, new: Side, world: str) -> tuple[World, World]:
    (first,), (second,) = (run(one, [world], new.folder / TABLE, entries=True) for one in (old, new))
    return first, second


def show(old: Side, new: Side, world: str) -> int:
    """Print how one world differs; 1 if it does."""
    first, second = _entries(old, new, world)
    names = differing(first.told, second.told)
    for name in TRANSCRIPTS:
        print(f"{name}: {'differs' if name in names else 'equal'}")
        if name in names:
            print("\n".join(shown(name, first, second, (old.name, new.name), BEFORE, AFTER)))
    return int(bool(names))


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare two commits."""
    asked = _arguments(arguments)
    try:
        with ExitStack() as inside:
            folders = [inside.enter_context(checked_out(name)) for name in (asked.old, asked.new)]
            # A commit that is compared with itself runs with two orders of its sets.
            seeds = "0", "1" if asked.old == asked.new else "0"
            old, new = (side(*each) for each in zip((asked.old, asked.new), folders, seeds, strict=True))
            if asked.show:
                return show(old, new, asked.show)
            return report(old, new, play(old, new, asked.world or list(WORLDS), asked.jobs))
    except Refusal as refusal:
        print(refusal, file=sys.stderr)
        return 2


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.compare", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", help="a commit, or a directory with a checkout")
    parser.add_argument("new", nargs="?", default=".", help="the newer one; without it, the files as they are here")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at the same time")
    worlds = parser.add_mutually_exclusive_group()
    worlds.add_argument("--world", action="append", choices=list(WORLDS), metavar="SHAPE/SEED", help="only this one")
    worlds.add_argument("--show", choices=list(WORLDS), metavar="SHAPE/SEED", help="how this one differs")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
