"""Every module says what it is for, and knows only what is below it: what import-linter does not see."""

import ast
import graphlib
import re
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
HOUSE = ROOT / "src" / "duenotice"
OURS = ("src", "tests", "simulator", "tools", "building", "benchmarks", "examples")

MODULES = {
    path.relative_to(HOUSE.parent).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__"): path
    for path in sorted(HOUSE.rglob("*.py"))
}
"""Every module of the package by its dotted name."""


def test_every_module_says_what_it_is_for() -> None:
    """Its first sentence is what a reader sees first, and often all that is needed."""
    texts = {path: path.read_text() for top in OURS for path in sorted((ROOT / top).rglob("*.py"))}
    silent = [path for path, text in texts.items() if text.strip() and not ast.get_docstring(ast.parse(text))]
    assert [path.relative_to(ROOT).as_posix() for path in silent] == []


def test_no_two_modules_need_each_other() -> None:
    """import-linter holds the floors; this holds the files of one room. Reading one must not need the other."""
    needs = {module: {name for name, typing in imported(path) if not typing} for module, path in MODULES.items()}
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
        for module, path in MODULES.items()
        for name, typing in imported(path)
        if typing and module != "duenotice" and floor[name.split(".")[1]] < floor[module.split(".")[1]]
    ]
    assert upward == []


def test_the_domain_knows_no_paths() -> None:
    """API, CLI and console each say how to get at things; a path of one of them would be wrong at the others."""
    told = [path.name for path in sorted((HOUSE / "domain").rglob("*.py")) if "/v1/" in path.read_text()]
    assert told == [], "'/v1/' is the operator's API: name the list in the error instead"


@cache
def imported(path: Path) -> frozenset[tuple[str, bool]]:
    """Which modules of ours a file imports when it is loaded, and whether only for types."""
    return frozenset(_imported(ast.parse(path.read_text()).body, typing=False))


def _imported(body: Iterable[ast.stmt], typing: bool) -> Iterator[tuple[str, bool]]:
    for node in body:
        match node:
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] == "duenotice":
                whole = {f"{module}.{alias.name}" for alias in node.names}
                yield from ((name if name in MODULES else module, typing) for name in whole)
            case ast.If() if "TYPE_CHECKING" in ast.unparse(node.test):
                yield from _imported(node.body, typing=True)
