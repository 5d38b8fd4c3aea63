"""Every file has its test, and every test asserts something."""

import ast
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

from tests.unit.tidy.house import ROOT, TESTS, Function, excused, functions, imported, modules, name_of, parsed

TESTED_AS_A_WHOLE = {
    "agent/handlers/": "tests/handlers",
    "cli/": "tests/acceptance",
    "console/": "tests/console",
    "journal/postgres_": "tests/unit/journal/test_postgres.py",
    "journal/sqlite_": "tests/unit/journal/test_sqlite.py",
    "azure_api/": "tests/acceptance/test_M_azure.py",
    "operator_api/": "tests/acceptance",
    "testkit/": "tests/testkit",
}
"""Files that begin so are tested together: against real programs, by the command, in a browser, over HTTP."""

TESTED_ELSEWHERE = {
    "agent/process.py": "tests/agent/test_process.py",
    "bootstrap/azure_port.py": "tests/acceptance/test_M_azure.py",
    "bootstrap/fleet_file.py": "tests/acceptance/test_fleet_at_start.py",
    "bootstrap/journal_copy.py": "tests/acceptance/test_cli_db.py",
    "bootstrap/policies.py": "tests/acceptance/test_maintenances.py",
    "client/base.py": "tests/client/test_evil_answers.py",
    "client/contract.py": "tests/unit/client/test_metadata_talks.py",
    "client/line.py": "tests/client/test_evil_answers.py",
    "client/operator/base.py": "tests/client/test_operator_network.py",
    "client/operator/socket_carrier.py": "tests/client/test_operator_network.py",
    "client/operator/stream_carrier.py": "tests/client/test_operator_network.py",
    "client/stream_line.py": "tests/client/test_evil_answers.py",
    "domain/change.py": "tests/unit/domain/test_touched.py",
    "domain/subscribed.py": "tests/unit/domain/test_subscriptions.py",
    "domain/subscription_changes.py": "tests/unit/domain/test_subscriptions.py",
    "engine/log.py": "tests/unit/engine/test_engine.py",
    "engine/positions.py": "tests/unit/engine/test_standing.py",
    "host/libvirt_host.py": "tests/host/test_host_run.py",
    "metadata_api/tap.py": "tests/testkit/test_plugin.py",
    "pytest_plugin.py": "tests/testkit/test_plugin.py",
    "scenarios/pace.py": "tests/unit/scenarios/test_player.py",
    "scenarios/watcher.py": "tests/unit/scenarios/test_player.py",
    "wire/resource_ids.py": "tests/acceptance/test_M_azure.py",
}
"""Files that no test imports, and the test that would notice if they were wrong."""


def test_every_file_has_its_test() -> None:
    """`domain/due.py` has tests/unit/domain/test_due.py, or a test that imports it; else a table says who tests it."""
    named, whole = imported_by_tests(), tuple(TESTED_AS_A_WHOLE)
    untested = {}
    for module, path in modules().items():
        name = name_of(path)
        mirror = TESTS / "unit" / Path(name).with_name(f"test_{path.name}")
        if not (path.stem.startswith("__") or module in named or mirror.exists()):
            untested[name] = f"{name} has no {mirror.relative_to(ROOT)}, and no test imports it: who would notice?"
    idle = [start for start in whole if not any(name.startswith(start) for name in untested)]
    assert not idle, f"{idle} excuse no file any more: delete their entries"
    excused({name: why for name, why in untested.items() if not name.startswith(whole)}, TESTED_ELSEWHERE)


def test_who_is_said_to_test_a_file_is_there() -> None:
    """A table of reasons is worth what its reasons are."""
    places = [*TESTED_AS_A_WHOLE.values(), *TESTED_ELSEWHERE.values()]
    assert [place for place in places if not (ROOT / place).exists()] == []


@cache
def imported_by_tests() -> frozenset[str]:
    """The modules of ours that tests import; what a package gathers is imported with it."""
    found: set[str] = set()
    for path in TESTS.rglob("*.py"):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("duenotice"):
                found |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
    packages = [modules()[name] for name in found & modules().keys() if modules()[name].stem == "__init__"]
    return frozenset(found | {name for path in packages for name, _ in imported(path)})


ASSERTING = {"raises", "warns", "fail", "expect", "fnmatch_lines", "once", "wait_until", "pleases", "see"}
"""Of pytest, Playwright and pytester; ours that wait until something holds, and the checkers of promises."""


def test_no_test_is_without_an_assertion() -> None:
    """A test that asserts nothing passes whatever happens, unless an error ends it. A helper that asserts counts."""
    idle = {
        function.name: f"{name_of(path)}::{function.name} asserts nothing, so it proves nothing"
        for path in sorted(TESTS.rglob("test_*.py"))
        for function in idle_tests(path)
    }
    excused(idle, {})


def idle_tests(path: Path) -> list[Function]:
    """The tests of a file that assert nothing."""
    helpers = asserting_here(path)
    return [each for each in functions(path) if each.name.startswith("test_") and not asserts(each, helpers)]


def asserts(function: Function, helpers: set[str]) -> bool:
    """Whether a function has an assertion of its own or calls something that has one."""
    return has_assertion(function) or not helpers.isdisjoint(called(function))


@cache
def has_assertion(function: Function) -> bool:
    """Whether a function asserts by itself."""
    kinds = (ast.unparse(node) for node in ast.walk(function) if isinstance(node, ast.Assert | ast.Raise))
    by_name = any(name.startswith("assert") for name in called(function))
    return by_name or any(text.startswith("assert") or "AssertionError" in text for text in kinds)


@cache
def called(function: Function) -> frozenset[str]:
    """The names of all functions and methods that a function calls."""
    calls = (node.func for node in ast.walk(function) if isinstance(node, ast.Call))
    return frozenset(node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "") for node in calls)


@cache
def asserting_helpers() -> set[str]:
    """Names that assert wherever our tests define them; one that means something else elsewhere does not count."""
    defined = defaultdict(list)
    for path in TESTS.rglob("*.py"):
        for function in functions(path):
            defined[function.name].append(function)
    return _grown(defined)


def asserting_here(path: Path) -> set[str]:
    """All that asserts when one file calls it: what asserts everywhere, and its own helpers."""
    return _grown({function.name: [function] for function in functions(path)}, asserting_helpers())


def _grown(defined: dict[str, list[Function]], known: Iterable[str] = ()) -> set[str]:
    """All names of which each definition asserts, by itself or through another of them."""
    found = {*ASSERTING, *known}
    while more := {name for name, all_of in defined.items() if all(asserts(each, found) for each in all_of)} - found:
        found |= more
    return found


@pytest.mark.parametrize(
    ("text", "idle"),
    [
        ("def test_x(): f()", True),
        ("def test_x(): assert f()", False),
        ("def test_x():\n with raises(E): f()", False),
        ("def test_x(): page.assert_visible()", False),
        ("def check(): assert 1\ndef test_x(): check()", False),
        ("def check(): deep()\ndef deep(): assert 1\ndef test_x(): check()", False),
        ("def close(): pass\ndef test_x(): close()", True),
    ],
)
def test_a_test_without_an_assertion_is_found(tmp_path: Path, text: str, idle: bool) -> None:
    """An assertion of its own, of pytest, or of a helper at any depth counts."""
    path = tmp_path / "test_x.py"
    path.write_text(text)
    assert bool(idle_tests(path)) is idle
