"""Little clients that are wrong in one thing are caught by the rule about it; those right in their own way pass.

Here they run, and real time has a part in it. `test_transcripts` judges what they did once, without a clock.
"""

from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from duenotice.testkit.suite import TRIALS
from duenotice.testkit.verdicts.evidence import Evidence
from duenotice.testkit.verdicts.verdict import NOT_TRIED, Verdict, judge
from tests.testkit.little_clients import DIE, IN_EVERY_RULE, RIGHT, WRONG, judged, trials_about
from tests.testkit.record import AT_ONCE, TRANSCRIPTS
from tests.testkit.transcript import decode, encode, read

pytestmark = pytest.mark.serial  # they poll in real time

DAILY = ("version",)
"""Who breaks its rule by what it sends, and not by when, is judged right on a busy machine, too."""

Verdicts = dict[str, "Future[Verdict]"]
Daily = dict[str, "Future[tuple[Verdict, Evidence]]"]


@pytest.fixture(scope="module")
def daily(tmp_path_factory: pytest.TempPathFactory) -> Daily:
    """A few clients at once in the trials about their rules, with what they are judged by."""
    folder = tmp_path_factory.mktemp("clients")

    def run(how: str) -> tuple[Verdict, Evidence]:
        found: list[Evidence] = []
        return judged(folder / how, how, trials_about(how), found.append), found[0]

    with ThreadPoolExecutor(len(DAILY)) as pool:
        return {how: pool.submit(run, how) for how in DAILY}


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> Verdicts:
    """All clients, some at once: they hardly do anything but wait, but each starts a Python for each of its ends."""
    folder, hows = tmp_path_factory.mktemp("clients"), [*RIGHT, *WRONG]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return {how: pool.submit(judged, folder / how, how, TRIALS) for how in hows}


def untried(verdict: Verdict) -> dict[str, str]:
    """The rules that were not tried, and why."""
    return {finding.rule.id: finding.why for finding in verdict.findings if finding.outcome == NOT_TRIED}


def said(verdict: Verdict) -> dict[str, tuple[str, ...]]:
    """What speaks against a client."""
    return {finding.rule.id: finding.said for finding in verdict.broken}


@pytest.mark.parametrize("how", DAILY)
def test_a_client_is_judged_as_its_transcript_is(how: str, daily: Daily) -> None:
    """The same rules are broken, and the same were not tried for the same reasons, as when it was recorded."""
    verdict, evidence = daily[how].result()
    kept = judge(decode(read((TRANSCRIPTS / f"{how}.jsonl").read_text())))
    assert set(said(verdict)) == WRONG[how], said(verdict)
    assert untried(verdict) == untried(kept)
    assert judge(decode(encode(evidence))).findings == verdict.findings


@pytest.mark.soak
@pytest.mark.parametrize("how", IN_EVERY_RULE)
def test_a_right_client_passes_every_rule_and_every_rule_is_tried(how: str, verdicts: Verdicts) -> None:
    """Also one that sends If-None-Match from its first poll on, one whose polls we hold, and one that may end."""
    verdict = verdicts[how].result()
    assert said(verdict) == {}
    assert untried(verdict) == {}
    assert not verdict.broken


@pytest.mark.soak
def test_a_client_that_never_approves_passes_and_is_not_judged_for_approvals(verdicts: Verdicts) -> None:
    """Those rules do not apply to it, which is listed with the reason."""
    verdict = verdicts["never-approves"].result()
    assert said(verdict) == {}
    approving = ("neighbour", "leader", "peers", "work", "once", "understood", "started", "cancelled", "every-event")
    assert untried(verdict) == dict.fromkeys(approving, "it approved nothing")
    assert verdict.passes


@pytest.mark.soak
@pytest.mark.parametrize("how", WRONG)
def test_a_wrong_client_is_caught_by_its_rule_and_no_other(how: str, verdicts: Verdicts) -> None:
    """Whatever else it does is right."""
    found = said(verdicts[how].result())
    assert set(found) == WRONG[how], found


@pytest.mark.soak
@pytest.mark.parametrize("how", DIE)
def test_a_client_that_died_goes_through_the_rest_of_the_tour(how: str, verdicts: Verdicts) -> None:
    """It is started again: the first mistake hides no other."""
    assert untried(verdicts[how].result()) == {}


@pytest.mark.soak
def test_a_client_that_hangs_at_its_own_event_is_silent_for_too_long(verdicts: Verdicts) -> None:
    """However well it polled before; and it does not come back when the event is over."""
    found = said(verdicts["hangs"].result())
    assert "it was silent for" in found["pace"][0]
    assert "it did not ask when" in found["comes-back"][0]


@pytest.mark.soak
def test_a_client_that_approved_three_times_has_not_approved_once(verdicts: Verdicts) -> None:
    """Also when it had read that the event was Started."""
    assert any(word.endswith(" times") for word in said(verdicts["three-times"].result())["once"])


@pytest.mark.soak
def test_the_header_is_no_matter_where_it_is_not_needed(verdicts: Verdicts) -> None:
    """A client of the preview may leave it out; its version is a matter."""
    assert untried(verdicts["preview"].result()) == {"header": "its api-version needs none"}
