"""Imports only go down: what import-linter does not see."""

import graphlib
import re
import tomllib

import pytest

from tests.unit.tidy.house import ROOT, imported, modules


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
