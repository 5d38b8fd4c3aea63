"""The catalogue of planted bugs fits today's sources, and what is planted is noticed."""

import ast

import pytest

from simulator.planted import ROOT, Planted, catalogue, try_out, wrong
from simulator.tiers import SHORT, TIERS

ALL = catalogue()


def test_there_are_enough_of_them_and_each_has_a_name() -> None:
    """At least forty, of all parts that the promises depend on."""
    assert len(ALL) >= 40
    assert len({each.name for each in ALL}) == len({each[2:] for each in ALL}) == len(ALL)
    rooms = {each.file.split("/")[0] for each in ALL}
    assert rooms >= {"domain", "engine", "store", "wire", "metadata_api", "agent", "impact", "follower"}


@pytest.mark.parametrize("planted", ALL, ids=[each.name for each in ALL])
def test_it_can_be_planted_in_the_sources_of_today(planted: Planted) -> None:
    """Its old text is there exactly once, and what comes of it can be read by Python."""
    ast.parse(wrong((ROOT / "src" / "duenotice" / planted.file).read_text(), planted))
    assert planted.tier in TIERS | SHORT


@pytest.mark.soak
@pytest.mark.parametrize("name", ["two-lengths", "commit-without-sync", "snapshot-without-floor"])
def test_it_is_noticed(name: str) -> None:
    """Three of them in `make soak-tests`; `python -m simulator.planted` tries all."""
    (planted,) = (each for each in ALL if each.name == name)
    verdict = try_out(planted, seconds=60)
    assert verdict.noticed, verdict
    assert planted.promise == "doors" or planted.promise in verdict.noticed


def test_a_simulator_that_fails_has_not_noticed_anything() -> None:
    """A bug with which nothing can be imported says nothing of the checkers."""
    planted = ALL[0]._replace(file="errors.py", old="class DuenoticeError(", new="class _DuenoticeError(")
    verdict = try_out(planted, seconds=5)
    assert not verdict.noticed
    assert verdict.failed.startswith(", the simulator itself fails: ")


def test_an_old_text_that_is_not_there_is_refused() -> None:
    """So that the catalogue does not rot."""
    with pytest.raises(ValueError, match="its old text is 0 times"):
        wrong("something else", ALL[0])
