"""The catalogue of mistakes fits today's sources, and `tools.mutate` tells which of them the tests notice."""

import ast
from itertools import pairwise
from pathlib import Path

import pytest

from tools import mutate
from tools.mutate import ROOT, SOURCES, Mutant, Outcome, catalogue, main, mutated, try_out

ALL = catalogue()


def test_there_are_enough_of_them_and_each_has_an_id() -> None:
    assert len([each for each in ALL if each.area == "domain"]) >= 80
    assert len([each for each in ALL if each.area == "planner"]) >= 30
    assert len({each.id for each in ALL}) == len({each[4:6] + each[1:2] for each in ALL}) == len(ALL)


@pytest.mark.parametrize("mutant", ALL, ids=[each.id for each in ALL])
def test_it_can_be_made_in_the_sources_of_today(mutant: Mutant) -> None:
    """Its old text is there exactly once, what comes of it can be read by Python, and its tests are there."""
    source = (SOURCES / mutant.file).read_text()
    made = mutated(source, mutant)
    assert made != source and ast.parse(made)
    assert mutant.tests or mutant.equivalent
    for test in mutant.tests:
        file, *names = test.partition("[")[0].split("::")
        code = (ROOT / file).read_text()
        assert all(f"class {name}" in code or f"def {name}(" in code for name in names), test


def test_an_old_text_that_is_not_there_is_refused() -> None:
    """So that the catalogue does not rot."""
    with pytest.raises(ValueError, match="its old text is 0 times"):
        mutated("something else", ALL[0])


NARROW = """
from duenotice.domain.fleet import group_of, scope_in

def test_a_placement_group() -> None:
    assert scope_in("scale-set/batch", 1) == "scale-set/batch/1"
"""
CATALOGUE = """
[[mutant]]
id = "ONE"
file = "domain/fleet.py"
rule = "E05"
what = "a placement group is the whole scale set"
old = 'return group if placement_group is None else f"{group}/{placement_group}"'
new = "return group"
tests = ["TESTS"]
equivalent = ""

[[mutant]]
id = "TWO"
file = "domain/fleet.py"
rule = "E05"
what = "placement group 0 is the whole scale set"
old = 'return group if placement_group is None else'
new = 'return group if not placement_group else'
tests = ["TESTS"]
equivalent = ""

[[mutant]]
id = "THREE"
file = "domain/fleet.py"
rule = "E05"
what = "it cannot be imported"
old = 'def group_of('
new = 'def group_of_a_scope('
tests = ["TESTS"]
equivalent = ""

[[mutant]]
id = "FOUR"
file = "domain/fleet.py"
rule = "E05"
what = "nobody can notice it"
old = 'ALONE + vm.name'
new = '"vm/" + vm.name'
tests = ["TESTS"]
equivalent = "It is the same text."
"""


@pytest.fixture
def narrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A catalogue of four mistakes, with one test that notices the first of them."""
    tests = tmp_path / "test_narrow.py"
    tests.write_text(NARROW)
    (tmp_path / "small.toml").write_text(CATALOGUE.replace("TESTS", str(tests)))
    monkeypatch.setattr(mutate, "CATALOGUE", tmp_path)
    return tests


def test_what_is_noticed_and_what_is_not_are_told_as_such(narrow: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 1
    lines = capsys.readouterr().out.splitlines()
    told = {line.split()[0]: after.strip() for line, after in pairwise(lines) if "E05" in line}
    assert "killed" in told["ONE"] and told["ONE"].endswith("test_narrow.py::test_a_placement_group")
    assert told["TWO"] == "SURVIVED"
    assert told["THREE"].startswith("CANNOT BE TRIED no test could judge it: ")
    assert told["FOUR"] == "equivalent It is the same text."
    assert lines[-1].split() == ["small", "1", "1", "1", "1"]


def test_tests_that_fail_without_any_mistake_can_tell_nothing(narrow: Path, capsys: pytest.CaptureFixture[str]) -> None:
    narrow.write_text(NARROW + "    assert group_of('set/web') == 'web'\n")
    assert main(["--only", "ONE"]) == 1
    assert "fail without any mutant" in capsys.readouterr().out


def test_a_mistake_with_which_the_tests_do_not_end_is_noticed(narrow: Path) -> None:
    outcome, said, _ = try_out(catalogue()[0], seconds=0.01)
    assert (outcome, said) == (Outcome.KILLED, "hangs for 0.01 s")


def test_an_id_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "X1000"]) == 1
    assert "X1000" in capsys.readouterr().out
