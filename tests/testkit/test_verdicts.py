"""Verdicts as values: what is said in each form, and what decides whether CI may go on."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from xml.etree.ElementTree import fromstring

import pytest

from duenotice.testkit.overheard import Exchange
from duenotice.testkit.verdicts.evidence import Evidence
from duenotice.testkit.verdicts.report import github, json_text, junit
from duenotice.testkit.verdicts.rules import BY_ID, RULES
from duenotice.testkit.verdicts.verdict import FAILED, NOT_TRIED, PASSED, Finding, Verdict, judge
from tests.support.poison import RAW

AT = datetime(2026, 1, 1, tzinfo=UTC)


def verdict(*failed: str, said: str = "it did") -> Verdict:
    """A verdict in which these rules were broken, one was not tried, and the others were kept."""
    outcomes = {rule.id: PASSED for rule in RULES} | {"work": NOT_TRIED} | dict.fromkeys(failed, FAILED)
    findings = (
        Finding(BY_ID[rule], outcome, (said,) if outcome == FAILED else ()) for rule, outcome in outcomes.items()
    )
    return Verdict(tuple(findings), {"seconds": 1.5})


@pytest.mark.parametrize(
    ("failed", "passes", "passes_strictly"),
    [((), True, True), (("once",), True, False), (("header",), False, False), (("once", "header"), False, False)],
)
def test_errors_count_and_warnings_only_when_strict(
    failed: tuple[str, ...], passes: bool, passes_strictly: bool
) -> None:
    """What was not tried counts for nothing."""
    found = verdict(*failed)
    assert (found.passes, found._replace(strict=True).passes) == (passes, passes_strictly)
    assert json.loads(json_text(found._replace(strict=True)))["passes"] is passes_strictly


@pytest.mark.parametrize("allow_untried", [False, True])
def test_where_nothing_was_asked_nothing_passes(allow_untried: bool) -> None:
    """A rule that has nothing to judge does not pass; that nothing asked is an error, whatever is allowed."""
    found = judge(Evidence("me", [], [], 0.0, 1.0), allow_untried=allow_untried)
    assert {finding.rule.id: finding.outcome for finding in found.findings if finding.outcome != NOT_TRIED} == {
        "asks": FAILED,
        "tour": PASSED,
    }
    assert {finding.why for finding in found.findings if finding.outcome == NOT_TRIED} == {"nothing asked"}
    assert not found.passes


def test_the_seconds_of_a_verdict_are_those_with_the_client() -> None:
    """Since the client came, not since the machine was started."""
    assert judge(Evidence("me", [], [], 70.0, 71.46)).seen["seconds"] == 1.5


def test_json_has_every_rule() -> None:
    """In order, with how to fix those that were broken."""
    found = json.loads(json_text(verdict("pace")))
    assert [rule["id"] for rule in found["rules"]] == [rule.id for rule in RULES]
    assert [rule["id"] for rule in found["rules"] if rule["fix"]] == ["pace"]
    assert (found["passes"], found["errors"], found["warnings"]) == (False, 1, 0)


def test_junit_has_a_case_per_rule() -> None:
    """Failures with their severity, and skips."""
    suite = fromstring(junit(verdict("pace", "once", said='<&"')))
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == (str(len(RULES)), "2", "1")
    assert {failure.get("type"): failure.get("message") for failure in suite.iter("failure")} == {
        "error": '<&"',
        "warning": '<&"',
    }


def test_annotations_are_one_line_each() -> None:
    """Whatever a client made us say; nothing in it can become a command."""
    lines = github(verdict("header", "once", said="100%\n::error::x")).splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("::error title=duenotice header::Sends")
    assert "100%25%0A::error::x" in lines[0]
    assert lines[1].startswith("::warning title=duenotice once::")
    assert github(verdict()) == "::notice title=duenotice::No rule was broken.\n"


@pytest.mark.parametrize("form", [json_text, junit, github])
def test_no_report_has_a_control_character_of_the_client_in_it(form: Callable[[Verdict], str]) -> None:
    """What it asked for is told in the words of the verdict, escaped; and JUnit is still XML (S28)."""
    query, headers = {"api-version": "\x1b]0;\u202e"}, {"metadata": "true"}
    asked = Exchange(1, AT, 0.5, "me", "", "GET", "/metadata/scheduledevents", query, headers, b"", 400, b"", 0.6)
    found = judge(Evidence("me", [asked], [], 0.0, 1.0))
    text = form(found)
    assert RAW.findall(text) == []
    assert "u202e, which does not exist" in text
    assert form is not junit or fromstring(text).tag == "testsuite"


def test_every_rule_says_what_to_do() -> None:
    """An id of its own, a severity, a sentence and a way to fix it."""
    assert len(BY_ID) == len(RULES) == 23
    assert {rule.severity for rule in RULES} == {"error", "warning"}
    assert all(rule.sentence.endswith(".") and rule.fix.endswith(".") for rule in RULES)
