"""Every test asserts something."""

import ast
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]

Function = ast.FunctionDef | ast.AsyncFunctionDef

ASSERTING = {
    "raises",
    "check_impact",
    "check_push",
    "warns",
    "fail",
    "expect",
    "fnmatch_lines",
    "once",
    "wait_until",
    "pleases",
    "see",
}
"""Of pytest, Playwright and pytester; ours that refuse or wait until something holds, and checkers of promises."""


def test_no_test_is_without_an_assertion() -> None:
    """A test that asserts nothing passes whatever happens, unless an error ends it. A helper that asserts counts."""
    idle = [
        f"{path.relative_to(TESTS).as_posix()}::{function.name} asserts nothing, so it proves nothing"
        for path in sorted(TESTS.rglob("test_*.py"))
        for function in idle_tests(path)
    ]
    assert idle == []


@cache
def functions(path: Path) -> tuple[Function, ...]:
    """All functions and methods of a file."""
    return tuple(node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, Function))


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
