"""Little clients, each wrong in one thing, are each caught by exactly the rule about it; the right one by none."""

import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from duenotice.testkit.judging import Plan, run_by_proxy
from duenotice.testkit.verdicts.evidence import Tempo
from duenotice.testkit.verdicts.rules import RULES
from duenotice.testkit.verdicts.verdict import NOT_TRIED, Verdict

pytestmark = pytest.mark.serial  # they poll in real time

CLIENT = Path(__file__).parent / "clients" / "client.py"
QUICK = Tempo(patience=4.0, notice=1.5, linger=1.0, late=1.2)
LEAVES = "neighbour-left"
Verdicts = dict[str, "Future[Verdict]"]


def judged(folder: Path, wrong: str) -> Verdict:
    """The verdict on the little client after the whole tour."""
    folder.mkdir()
    ready, done = folder / "ready", folder / "done"
    ready.touch()
    program = ["env", f"TEST_PEERS_READY={ready}", f"TEST_WORK_DONE={done}", sys.executable, str(CLIENT), wrong]
    plan = Plan(tempo=QUICK, peers_ready=ready, work_done=done)
    return run_by_proxy(program, plan, lambda word: None)


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> Verdicts:
    """All clients at once: they hardly do anything but wait."""
    folder, wrongs = tmp_path_factory.mktemp("clients"), ["", LEAVES, *(rule.id for rule in RULES)]
    with ThreadPoolExecutor(len(wrongs)) as pool:
        return {wrong: pool.submit(judged, folder / f"{wrong or 'right'}", wrong) for wrong in wrongs}


def test_a_right_client_passes_every_rule_and_every_rule_is_tried(verdicts: Verdicts) -> None:
    """Nothing is said against it, and nothing was left out."""
    verdict = verdicts[""].result()
    assert verdict.failed == []
    assert [finding.rule.id for finding in verdict.findings if finding.outcome == NOT_TRIED] == []
    assert verdict.passes(strict=True)


@pytest.mark.parametrize("rule", [rule.id for rule in RULES])
def test_a_wrong_client_is_caught_by_its_rule_and_no_other(rule: str, verdicts: Verdicts) -> None:
    """Whatever else it does is right."""
    verdict = verdicts[rule].result()
    said = {finding.rule.id: finding.said for finding in verdict.failed}
    assert list(said) == [rule], said


def test_a_client_that_ends_because_of_a_neighbour_acts_on_its_event(verdicts: Verdicts) -> None:
    """That is the other act that can be seen from outside."""
    verdict = verdicts[LEAVES].result()
    said = {finding.rule.id: finding.said for finding in verdict.failed}
    assert list(said) == ["neighbour"], said
