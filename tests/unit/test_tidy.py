"""The house is tidy: what every file keeps, with the reason in the message when one does not.

Exceptions are tables from what is excused to why. An entry that is no longer needed fails too, so the tables stay true.
"""

import ast
import graphlib
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOUSE = ROOT / "src" / "duenotice"
TESTS = ROOT / "tests"

MOST_LINES = 360
LONGEST_FUNCTION = 34
MOST_STATEMENTS = 31

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def parsed(path: Path) -> ast.Module:
    """The syntax tree of a file; every test here looks at all of them."""
    return ast.parse(path.read_text())


def sources() -> list[Path]:
    """All files of the package."""
    return sorted(HOUSE.rglob("*.py"))


def name_of(path: Path) -> str:
    """A file as people name it: `domain/event.py`, or `tests/promises/rig.py`."""
    return path.relative_to(HOUSE if path.is_relative_to(HOUSE) else ROOT).as_posix()


def functions(path: Path) -> Iterator[Function]:
    """All functions and methods of a file."""
    return (node for node in ast.walk(parsed(path)) if isinstance(node, Function))


def excused(complaints: dict[str, str], exceptions: dict[str, str]) -> None:
    """Fail with every complaint that has no exception, and with every exception that is not needed."""
    wrong = [complaint for name, complaint in complaints.items() if name not in exceptions]
    wrong += [f"{name} needs no exception any more: delete its entry" for name in exceptions if name not in complaints]
    assert not wrong, "\n".join(wrong)


# What is in a file


def test_every_module_says_what_it_is_for() -> None:
    """Its first sentence is what a reader sees first, and often all that is needed."""
    silent = {
        name_of(path): f"{name_of(path)} begins without a sentence on what it is for"
        for path in [*sources(), *TESTS.rglob("*.py"), *(ROOT / "tools").glob("*.py")]
        if path.read_text().strip() and not ast.get_docstring(parsed(path))
    }
    excused(silent, {})


def test_no_file_is_longer_than_a_reader_can_hold() -> None:
    """Aim at 150 lines; a file that grows beyond the limit has become two."""
    lengths = {name_of(path): len(path.read_text().splitlines()) for path in sources()}
    long = {
        name: f"{name} has {lines} lines, more than {MOST_LINES}: it is about two things, so make it two files"
        for name, lines in lengths.items()
        if lines > MOST_LINES
    }
    excused(long, {})


def test_no_function_is_longer_than_a_screen() -> None:
    """Aim at 10 lines. A long table may be long, so lines and statements are counted, each with its own limit."""
    long = {}
    for path in sources():
        for function in functions(path):
            lines, statements = size(function)
            if lines > LONGEST_FUNCTION or statements > MOST_STATEMENTS:
                name = f"{name_of(path)}::{function.name}"
                long[name] = f"{name} has {lines} lines and {statements} statements: give its parts names of their own"
    excused(long, {})


def size(function: Function) -> tuple[int, int]:
    """How many lines a function has from its name on, and how many statements; its docstring does not count."""
    documented = ast.get_docstring(function) is not None
    body = function.body[1:] if documented else function.body
    statements = sum(isinstance(node, ast.stmt) for each in body for node in ast.walk(each))
    said = (function.body[0].end_lineno or 0) - function.body[0].lineno + 1 if documented else 0
    return (function.end_lineno or 0) - function.lineno + 1 - said, statements


# What a file imports: import-linter sees all but these


def test_no_two_files_need_each_other() -> None:
    """import-linter holds the floors; this holds the files of one room. Reading one must not need the other."""
    needs = {module: {name for name, typing in imported(path) if not typing} for module, path in modules().items()}
    needs["duenotice"] = set()  # loads its names when they are used
    try:
        tuple(graphlib.TopologicalSorter(needs).static_order())
    except graphlib.CycleError as error:
        pytest.fail(" needs ".join(reversed(error.args[1])) + ": move what both need into a third file")


def test_types_come_from_below_too() -> None:
    """import-linter does not look under `if TYPE_CHECKING`; whoever names a type of a higher floor knows of it."""
    floors = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]["layers"]
    floor = {room: number for number, layer in enumerate(floors) for room in re.findall(r"\((\w+)\)", layer)}
    upward = [
        f"{module} names a type of {name}, which is above it"
        for module, path in modules().items()
        for name, typing in imported(path)
        if typing and module != "duenotice" and floor[name.split(".")[1]] < floor[module.split(".")[1]]
    ]
    assert upward == []


@cache
def modules() -> dict[str, Path]:
    """Every module by its dotted name."""
    dotted = {path.relative_to(HOUSE.parent).with_suffix("").as_posix().replace("/", "."): path for path in sources()}
    return {name.removesuffix(".__init__"): path for name, path in dotted.items()}


@cache
def imported(path: Path) -> frozenset[tuple[str, bool]]:
    """Which modules of ours a file imports when it is loaded, and whether only for types."""
    return frozenset(_imported(parsed(path).body, typing=False))


def _imported(body: Iterable[ast.stmt], typing: bool) -> Iterator[tuple[str, bool]]:
    for node in body:
        match node:
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] == "duenotice":
                whole = {f"{module}.{alias.name}" for alias in node.names}
                yield from ((name if name in modules() else module, typing) for name in whole)
            case ast.If() if "TYPE_CHECKING" in ast.unparse(node.test):
                yield from _imported(node.body, typing=True)


# What a test is

ASSERTING = {"raises", "warns", "fail", "expect", "fnmatch_lines", "once", "wait_until", "pleases", "see"}
"""Of pytest, Playwright and pytester; ours that wait until something holds, and the checkers of promises."""

NOTHING_RAISED: dict[str, str] = {}


def test_no_test_is_without_an_assertion() -> None:
    """A test that asserts nothing passes whatever happens, unless an error ends it. A helper that asserts counts."""
    idle = {
        function.name: f"{name_of(path)}::{function.name} asserts nothing, so it proves nothing"
        for path in sorted(TESTS.rglob("test_*.py"))
        for function in idle_tests(path)
    }
    excused(idle, NOTHING_RAISED)


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


# A test that never complains proves nothing


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


def test_a_function_is_measured_without_its_docstring() -> None:
    """Three lines and two statements; what it says to readers is never too long."""
    (function,) = ast.parse('def f():\n    """One.\n\n    Two."""\n    if x:\n        y()\n').body
    assert isinstance(function, ast.FunctionDef)
    assert size(function) == (3, 2)


def test_an_exception_that_is_not_needed_is_a_complaint() -> None:
    """So that nobody reads reasons for what is not so."""
    excused({"a": "a is long"}, {"a": "why"})
    with pytest.raises(AssertionError, match="b needs no exception any more"):
        excused({"a": "a is long"}, {"a": "why", "b": "why"})
    with pytest.raises(AssertionError, match="a is long"):
        excused({"a": "a is long"}, {})
