"""What every test shares; must not start anything: suites bring their own fixtures."""

import re
from collections.abc import Collection
from itertools import chain, combinations
from pathlib import Path

import pytest
from _pytest.mark.expression import Expression
from hypothesis import HealthCheck, settings

# How long data take to draw, and how many there are, says something about the machine and nothing about us.
BY_CHANCE = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile("duenotice", deadline=None, print_blob=True, suppress_health_check=BY_CHANCE)
settings.load_profile("duenotice")

ROOT = Path(__file__).parent
_MARKER = re.compile(r"\bmark\.(browser|heart|host|kubernetes|machine|serial|soak)\b")
LONGEST = (
    "promises/test_stalls.py",
    "testkit/test_examples.py",
    "cluster",
    "testkit/test_judging.py",
    "crash",
    "console/test_accessibility.py",
    "agents",
    "followers",
    "handlers/test_failover.py",
    "handlers/test_patroni.py",
    "console",
    "agent/test_kill.py",
    "promises",
    "fuzz",
)
"""These take longest, so they begin first: whoever begins such a test when all others end, lets everybody wait."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files with no marker that `-m` asks for: to find all tests takes seconds."""
    expression = config.getoption("markexpr")
    if not expression or collection_path.suffix != ".py":
        return None
    named, asked = markers_of(collection_path), Expression.compile(expression)
    some = chain.from_iterable(combinations(named, count) for count in range(len(named) + 1))
    return None if any(_is_asked_for(asked, markers) for markers in some) else True


def _is_asked_for(asked: Expression, markers: Collection[str]) -> bool:
    def has(name: str, /, **_: str | int | bool | None) -> bool:
        return name in markers

    return asked.evaluate(has)


def markers_of(file: Path) -> set[str]:
    """The markers that tests of a file may have."""
    return set(_MARKER.findall(file.read_text())) | ({"browser"} if file.parent == ROOT / "console" else set())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first. A marker that is not written in its file would be left out above, so that is refused."""
    has: dict[Path, set[str]] = {}
    for item in items:
        has.setdefault(item.path, set()).update(mark.name for mark in item.iter_markers())
    for path, names in has.items():
        missing = names & {"browser", "heart", "host", "kubernetes", "machine", "serial", "soak"} - markers_of(path)
        assert not missing, f"{path}: write pytest.mark.{missing} in this file, or teach it to tests/conftest.py"
    turns = {path: _turn(path) for path in has}
    items.sort(key=lambda item: turns[item.path])


def _turn(path: Path) -> int:
    return next((turn for turn, name in enumerate(LONGEST) if path.is_relative_to(ROOT / name)), len(LONGEST))
