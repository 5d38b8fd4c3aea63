"""Commits the mistakes of `tools/mutants/*.toml` in a scratch copy of our sources, one by one: do the tests notice?

python -m tools.mutate                    # all of them, a table and a summary at the end
python -m tools.mutate --of domain        # those of tools/mutants/domain.toml
python -m tools.mutate --only domain-15   # one
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from duenotice.clock import monotonic

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "duenotice"
CATALOGUE = Path(__file__).with_name("mutants")
SECONDS = 120.0
"""A suite that takes longer hangs. Each takes a few seconds."""
PLUGINS = (
    "tools.mutate",
    "duenotice.pytest_plugin",
    "_hypothesis_pytestplugin",
    "pytest_timeout",
    "no:cacheprovider",
)
"""No others: to load all that are installed takes as long as most suites."""
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?::.+?)(?: - .*)?$", re.MULTILINE)
"""The line of pytest for a test that failed. A file that cannot be imported has no `::`: no test has judged it."""


class Mutant(NamedTuple):
    """One mistake: `old` in `file` becomes `new`, and `tests` have to notice. With `equivalent` nobody can."""

    id: str
    file: str
    rule: str
    what: str
    old: str
    new: str
    tests: list[str]
    equivalent: str
    area: str


class Outcome(Enum):
    KILLED = "killed"
    SURVIVED = "SURVIVED"
    BROKEN = "CANNOT BE TRIED"
    EQUIVALENT = "equivalent"


class Verdict(NamedTuple):
    """`said` is the test that noticed, or why the mutant could not be tried."""

    outcome: Outcome
    said: str = ""
    seconds: float = 0.0


def catalogue() -> list[Mutant]:
    """The mutants of all files; the name of a file is the area."""
    files = sorted(CATALOGUE.glob("*.toml"))
    return [Mutant(**row, area=file.stem) for file in files for row in tomllib.loads(file.read_text())["mutant"]]


def mutated(source: str, mutant: Mutant) -> str:
    """The text of a file with the mistake in it."""
    if source.count(mutant.old) != 1:
        raise ValueError(f"its old text is {source.count(mutant.old)} times in {mutant.file}, not once")
    return source.replace(mutant.old, mutant.new)


@contextmanager
def scratch(like: Path) -> Iterator[Path]:
    """A directory with a copy of a package; compiled files stay valid, because the copies have the same times.

    A copy of a copy has the same files, which costs nothing; our sources themselves are copied indeed.
    """
    with tempfile.TemporaryDirectory(prefix="duenotice-mutant-") as made:
        shutil.copytree(like, Path(made) / "duenotice", copy_function=shutil.copy2 if like == SOURCES else os.link)
        yield Path(made)


def try_out(mutant: Mutant, like: Path = SOURCES, seconds: float = SECONDS) -> Verdict:
    """Run the tests of a mutant on a scratch copy that has it."""
    if mutant.equivalent:
        return Verdict(Outcome.EQUIVALENT, mutant.equivalent)
    with scratch(like) as copy:
        file = copy / "duenotice" / mutant.file
        try:
            wrong = mutated(file.read_text(), mutant)
        except (OSError, ValueError) as error:
            return Verdict(Outcome.BROKEN, str(error))
        file.unlink()  # not the one that other copies have too
        file.write_text(wrong)
        for compiled in file.parent.glob(f"__pycache__/{file.stem}.*"):
            compiled.unlink()  # Python compares times in whole seconds
        return run(mutant.tests, copy, seconds)


def run(tests: Iterable[str], copy: Path, seconds: float) -> Verdict:
    """Run tests in a process of its own that imports the copy, until the first that fails."""
    begun = monotonic()
    options = ["-xq", "--tb=line", "--hypothesis-seed=0", f"--basetemp={copy}/tmp", *(f"-p{name}" for name in PLUGINS)]
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *options, *tests],
        cwd=ROOT,
        env=os.environ
        | {
            "PYTHONPATH": f"{copy}:{ROOT}",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONDONTWRITEBYTECODE": "",
            "HYPOTHESIS_STORAGE_DIRECTORY": f"{copy}/hypothesis",
            "MUTATED": str(copy),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        told, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return Verdict(Outcome.KILLED, f"hangs for {seconds:g} s", monotonic() - begun)
    return Verdict(*_judged(process.returncode, told), monotonic() - begun)


def _judged(code: int, told: str) -> tuple[Outcome, str]:
    if code == 0:
        return Outcome.SURVIVED, ""
    if code == 1 and (failed := _FAILED.search(told)) is not None:
        return Outcome.KILLED, failed[1]
    why = [line for line in told.splitlines() if re.search("Error|Failed:", line)] or told.splitlines()[-1:]
    return Outcome.BROKEN, f"no test could judge it: {(why or ['nothing was said'])[0].strip()[:150]}"


def pytest_configure() -> None:
    """Called by pytest, which has this module as a plugin: the copy must be what is imported."""
    import duenotice

    if not Path(duenotice.__file__).is_relative_to(os.environ["MUTATED"]):
        raise RuntimeError(f"ImportError: {duenotice.__file__} was imported, not the copy in {os.environ['MUTATED']}")


def main(words: Sequence[str] | None = None) -> int:
    """Try them out; 1 when one survived or could not be tried, or when the tests fail without any."""
    asked = _arguments(words)
    known = catalogue()
    twice = [name for name, count in Counter(mutant.id for mutant in known).items() if count > 1]
    unknown = {*asked.only} - {mutant.id for mutant in known} | {*asked.of} - {mutant.area for mutant in known}
    if twice or unknown:
        print(f"Ids that are there twice: {twice}. Ids and areas that are not there: {sorted(unknown)}.")
        return 1
    chosen = [mutant for mutant in known if not asked.only or mutant.id in asked.only]
    chosen = [mutant for mutant in chosen if not asked.of or mutant.area in asked.of]
    with scratch(SOURCES) as sound, ThreadPoolExecutor(asked.jobs) as threads:
        # Without any mutant first: this also compiles what is imported, for all the copies that follow.
        tests = dict.fromkeys(test for mutant in chosen if not mutant.equivalent for test in mutant.tests)
        before = run(tests, sound, 10 * SECONDS) if tests else Verdict(Outcome.SURVIVED)
        if before.outcome is not Outcome.SURVIVED:
            print(f"The tests fail without any mutant, so they cannot tell one: {before.said}")
            return 1
        print(f"without a mutant all tests pass ({before.seconds:.1f} s)", flush=True)
        verdicts = []
        for mutant, verdict in zip(
            chosen, threads.map(lambda each: try_out(each, sound / "duenotice"), chosen), strict=True
        ):
            verdicts.append(verdict)
            print(_line(mutant, verdict), flush=True)
    _summarize(chosen, verdicts)
    return int(any(verdict.outcome in (Outcome.SURVIVED, Outcome.BROKEN) for verdict in verdicts))


def _line(mutant: Mutant, verdict: Verdict) -> str:
    by = f"{verdict.outcome.value} {verdict.said}"
    return f"{mutant.id:11} {mutant.file:28} {mutant.rule:9} {verdict.seconds:5.1f} s  {mutant.what}\n      {by}"


def _summarize(chosen: Sequence[Mutant], verdicts: Sequence[Verdict]) -> None:
    print(f"\n{'area':12}", *(f"{outcome.value:>15}" for outcome in Outcome))
    counts = Counter((mutant.area, verdict.outcome) for mutant, verdict in zip(chosen, verdicts, strict=True))
    for area in dict.fromkeys(mutant.area for mutant in chosen):
        print(f"{area:12}", *(f"{counts[area, outcome]:15}" for outcome in Outcome))


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="ID", default=[])
    parser.add_argument("--of", action="append", metavar="AREA", default=[], help="only those of one file")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time")
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main())
