"""What every test shares; must not start anything: suites bring their own fixtures."""

import gc
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.seed import IS_FRESH, SEED

ROOT = Path(__file__).parent

# How long data take to draw, and how many there are, says something about the machine and nothing about us.
BY_CHANCE = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile(
    "duenotice", deadline=None, print_blob=True, suppress_health_check=BY_CHANCE, derandomize=not IS_FRESH
)
settings.load_profile("duenotice")

LONGEST_FIRST = (
    "testkit/test_examples.py",
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
"""These files begin first: a long one that begins last keeps all others waiting."""

QUARANTINE = ROOT / "quarantine.toml"


def pytest_report_header() -> str:
    """How to run the same tests with the same data once more."""
    return f"DUENOTICE_SEED={SEED}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The order of the files, which the processes of pytest-xdist take one by one, and what is quarantined."""
    turns = {path: _turn(path) for path in {item.path for item in items}}
    items.sort(key=lambda item: turns[item.path])
    quarantined = tomllib.loads(QUARANTINE.read_text())["tests"]
    for item in items:
        if why := quarantined.get(f"{_name(item.path)}::{item.name.partition('[')[0]}"):
            item.add_marker(pytest.mark.xfail(reason=f"quarantined: {why}", strict=False))


def pytest_collection_finish() -> None:
    """A garbage collection need not go through 12,000 collected tests each time: that takes 0.2 s."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Nodes that are being stopped need threads, and Python starts none any more once it ends."""
    if (node := sys.modules.get("tests.support.node")) is not None:
        node.end_all()


def _turn(path: Path) -> int:
    return next((turn for turn, name in enumerate(LONGEST_FIRST) if path.is_relative_to(ROOT / name)), 99)


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()
