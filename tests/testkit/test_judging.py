"""Little clients that are wrong in one thing are caught by the rule about it; those right in their own way pass."""

import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from duenotice.testkit.judging import Plan, run_by_proxy
from duenotice.testkit.trials import TRIALS, chosen
from duenotice.testkit.verdicts.evidence import Tempo
from duenotice.testkit.verdicts.rules import RULES
from duenotice.testkit.verdicts.verdict import NOT_TRIED, Verdict

pytestmark = pytest.mark.serial  # they poll in real time

CLIENT = Path(__file__).parent / "clients" / "client.py"
QUICK = Tempo(
    patience=4.0, notice=2.0, linger=0.4, late=1.3, slow=1.0, unaware=0.9, most_a_second=10
)  # the client polls five times a second and waits one second for an answer
DIE = ("errors", "empty-answer", "cut-answer", "late-answer", "empty-not-before")
WRONG: dict[str, set[str]] = {
    **{rule.id: {rule.id} for rule in RULES if rule.id not in ("asks", "tour")},
    **{rule: {rule, "alive"} for rule in DIE},
    "pace": {"pace", "tour"},
    "hangs": {"pace", "comes-back"},
    "three-times": {"once", "started"},
    "neighbour-left": {"neighbour"},
    "preview": {"version"},
}
"""How a client is wrong, and the rules that it breaks: one that dies is not alive either."""

RIGHT = ("", "conditional", "only-of-its-user", "never-approves")
ONLY = {"hangs": ("reboot", "neighbour")}
"""The trials of those that keep us waiting in every one; the others go through all."""

Verdicts = dict[str, "Future[Verdict]"]


def judged(folder: Path, how: str) -> Verdict:
    """The verdict on the little client."""
    folder.mkdir()
    ready, done = folder / "ready", folder / "done"
    ready.touch()
    program = ["env", f"TEST_PEERS_READY={ready}", f"TEST_WORK_DONE={done}", sys.executable, str(CLIENT), how]
    trials = chosen(ONLY[how]) if how in ONLY else TRIALS
    plan = Plan(tempo=QUICK, trials=trials, peers_ready=ready, work_done=done)
    return run_by_proxy(program, plan, lambda word: None)


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> Verdicts:
    """All clients at once: they hardly do anything but wait."""
    folder, hows = tmp_path_factory.mktemp("clients"), [*RIGHT, *WRONG]
    with ThreadPoolExecutor(len(hows)) as pool:
        return {how: pool.submit(judged, folder / f"{how or 'right'}", how) for how in hows}


def untried(verdict: Verdict) -> dict[str, str]:
    """The rules that were not tried, and why."""
    return {finding.rule.id: finding.why for finding in verdict.findings if finding.outcome == NOT_TRIED}


def said(verdict: Verdict) -> dict[str, tuple[str, ...]]:
    """What speaks against a client."""
    return {finding.rule.id: finding.said for finding in verdict.failed}


@pytest.mark.parametrize("how", RIGHT[:3])
def test_a_right_client_passes_every_rule_and_every_rule_is_tried(how: str, verdicts: Verdicts) -> None:
    """Also one that sends If-None-Match from its first poll on, and one that approves only what its user asked for."""
    verdict = verdicts[how].result()
    assert said(verdict) == {}
    assert untried(verdict) == {}
    assert verdict._replace(strict=True).passes


def test_a_client_that_never_approves_passes_and_is_not_judged_for_approvals(verdicts: Verdicts) -> None:
    """Those rules do not apply to it, which is listed with the reason."""
    verdict = verdicts["never-approves"].result()
    assert said(verdict) == {}
    approving = ("neighbour", "leader", "peers", "work", "once", "understood", "started", "cancelled", "every-event")
    assert untried(verdict) == dict.fromkeys(approving, "it never approves")
    assert verdict.passes


@pytest.mark.parametrize("how", WRONG)
def test_a_wrong_client_is_caught_by_its_rule_and_no_other(how: str, verdicts: Verdicts) -> None:
    """Whatever else it does is right."""
    found = said(verdicts[how].result())
    assert set(found) == WRONG[how], found


@pytest.mark.parametrize("how", DIE)
def test_a_client_that_died_goes_through_the_rest_of_the_tour(how: str, verdicts: Verdicts) -> None:
    """It is started again: the first mistake hides no other."""
    assert untried(verdicts[how].result()) == {}


def test_a_client_that_hangs_at_its_own_event_is_silent_for_too_long(verdicts: Verdicts) -> None:
    """However well it polled before; and it does not come back when the event is over."""
    found = said(verdicts["hangs"].result())
    assert "it was silent for" in found["pace"][0]
    assert "it did not ask when" in found["comes-back"][0]


def test_a_client_that_approved_three_times_has_not_approved_once(verdicts: Verdicts) -> None:
    """Also when it had read that the event was Started."""
    assert any(word.endswith(" times") for word in said(verdicts["three-times"].result())["once"])


def test_the_header_is_no_matter_where_it_is_not_needed(verdicts: Verdicts) -> None:
    """A client of the preview may leave it out; its version is a matter."""
    assert untried(verdicts["preview"].result()) == {"header": "its api-version needs none"}
