"""The rules, each on both sides of each of its boundaries: what a client did in a few lines, and what the rule says.

The lines are in `rows/`. Times are seconds; the tempo is that of users, so a client is silent after 30 s. `None` means
that a rule had nothing to judge, an empty list that it found nothing wrong.
"""

from typing import Any

import pytest

from duenotice.testkit.verdicts.evidence import PREVIEW
from duenotice.testkit.verdicts.rules import BY_ID, RULES
from duenotice.testkit.verdicts.verdict import FAILED, NOT_TRIED, judge
from tests.testkit.rows import approving, polling, stopping
from tests.testkit.rows.lines import OF_USER, A, Row, duty, evidence, get, post, raised
from tests.testkit.rows.polling import burst
from tests.testkit.transcript import Line

ROWS = polling.ROWS | approving.ROWS | stopping.ROWS
PARAMETERS = [pytest.param(rule, row, id=f"{rule}: {row.sentence}") for rule, rows in ROWS.items() for row in rows]


@pytest.mark.parametrize(("rule", "row"), PARAMETERS)
def test_a_rule_says_this_of_these_lines(rule: str, row: Row) -> None:
    """On each side of a boundary, a millisecond from it where it is a time."""
    assert BY_ID[rule].check(evidence(*row.lines, **row.head)) == row.said


def test_every_rule_has_rows_that_break_it_and_rows_that_keep_it() -> None:
    """A rule that always says the same is none."""
    assert set(ROWS) == {rule.id for rule in RULES}
    assert {rule for rule, rows in ROWS.items() if not any(row.said for row in rows)} == set()
    assert {rule for rule, rows in ROWS.items() if all(row.said for row in rows)} == set()


UNTRIED = [
    ("asks", "errors", [], {"tries": "errors"}, "nothing asked"),
    ("peers", "peers", [get(0)], {"tries": "peers"}, "needs --peers-ready FILE"),
    ("peers, which can be told", "peers", [get(0)], {"tries": "peers", "has_peers_file": True}, "it approved nothing"),
    ("work", "work", [get(0)], {"tries": "work"}, "needs --work-done FILE"),
    ("work, which can be told", "work", [get(0)], {"tries": "work", "has_work_file": True}, "it approved nothing"),
    ("no trial", "errors", [get(0)], {}, "no trial of it was chosen"),
    ("a trial that did not come to it", "errors", [get(0)], {"tries": "errors"}, ""),
    ("approvals of others", "leader", [get(0), post(1, "A")], {"tries": "leader"}, ""),
    ("no approvals", "leader", [get(0)], {"tries": "leader"}, "it approved nothing"),
    ("any tour tries this", "understood", [get(0)], {}, "it approved nothing"),
    ("and this", "pace", [get(0)], {"ended": 1}, ""),
    (
        "two events at once, of a kind that it does not approve",
        "every-event",
        [raised("U", source="user"), raised("A"), get(0, OF_USER, A), post(1, "A"), duty(2, "every-event", "U")],
        {"tries": "every-event"},
        "it approved no event of such a kind",
    ),
    (
        "two events at once, of a kind that it approves",
        "every-event",
        [raised("A"), raised("B"), get(0, A), post(1, "A"), duty(2, "every-event", "A", "B")],
        {"tries": "every-event"},
        "",
    ),
    ("no header needed", "header", [get(0, version=PREVIEW)], {}, "its api-version needs none"),
]


@pytest.mark.parametrize(
    ("rule", "lines", "head", "why"), [each[1:] for each in UNTRIED], ids=[each[0] for each in UNTRIED]
)
def test_a_rule_that_was_not_tried_says_why_if_that_is_no_failure(
    rule: str, lines: list[Line], head: dict[str, Any], why: str
) -> None:
    """Without a reason it applies, and counts against the client."""
    verdict = judge(evidence(*lines, **head))
    (found,) = (finding for finding in verdict.findings if finding.rule.id == rule)
    assert (found.outcome, found.why) == (NOT_TRIED, why)


def test_a_rule_that_applies_and_was_not_tried_is_no_pass_unless_that_is_allowed() -> None:
    """It is named; rules that do not apply say why, and do not count."""
    seen = evidence(get(0), get(1), ended=2, tries="errors once")
    verdict = judge(seen)
    assert [finding.said for finding in verdict.failed] == [("not tried: errors",)]
    assert not verdict.passes
    assert judge(seen, allow_untried=True).passes


def test_a_broken_rule_may_be_the_reason_why_others_were_not_tried_but_a_warning_is_none() -> None:
    """One complaint is enough, and a client that asks too often can still be tried."""
    broken = judge(evidence(get(0, header="no"), get(1), ended=2, tries="errors")).failed
    warned = judge(evidence(*burst(10, 1.999), ended=2, tries="errors")).broken
    assert [finding.rule.id for finding in broken] == ["header"]
    strict = judge(evidence(*burst(10, 1.999), ended=2, tries="errors"), strict=True).broken
    assert [finding.rule.id for finding in warned] == ["crowding", "tour"]
    assert [finding.rule.id for finding in strict] == ["crowding", "tour"]


def test_a_tour_that_ended_early_says_why() -> None:
    """Also beside a rule that was broken."""
    verdict = judge(evidence(get(0), ended=60, tour_ended="it is gone"))
    assert {finding.rule.id: finding.said for finding in verdict.findings if finding.outcome == FAILED} == {
        "pace": ("it was silent for 60 s after #1",),
        "tour": ("the tour ended early: it is gone",),
    }
