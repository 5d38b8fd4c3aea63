"""Verdicts as values: what is said in each form, and what decides whether CI may go on."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from xml.etree.ElementTree import fromstring

import pytest

from duenotice.testkit.request_log import Exchange
from duenotice.testkit.verdicts.evidence import Evidence
from duenotice.testkit.verdicts.report import github, json_text, junit, markdown
from duenotice.testkit.verdicts.rules import BY_ID, RULES
from duenotice.testkit.verdicts.verdict import FAILED, NOT_TRIED, PASSED, WARNED, Finding, Verdict, judge
from tests.support.poison import RAW
from tests.testkit.rows.lines import A_STARTED, LED, OF_USER, THEIRS, A, duty, evidence, get, post, raised
from tests.testkit.rows.polling import burst
from tests.testkit.transcript import Line

OF_USERS = [raised("U", source="user"), get(0.5, A, OF_USER)]
TYPES = ("Freeze", "Reboot", "Redeploy", "Preempt", "Terminate")
AT = datetime(2026, 1, 1, tzinfo=UTC)


def verdict(*broken: str, said: str = "it did", remarks: tuple[str, ...] = ()) -> Verdict:
    """A verdict in which these rules were broken, two were not tried, and the others were kept, one only in part."""
    wrong = {rule: FAILED if BY_ID[rule].severity == "error" else WARNED for rule in broken}
    outcomes = {rule.id: PASSED for rule in RULES} | {"work": NOT_TRIED, "peers": NOT_TRIED} | wrong
    why = {"work": "needs --work-done FILE", "peers": "needs --peers-ready FILE", "errors": "only half of it"}
    findings = (
        Finding(BY_ID[rule], outcome, (said,) if rule in wrong else (), why.get(rule, ""))
        for rule, outcome in outcomes.items()
    )
    return Verdict(tuple(findings), {"seconds": 1.5}, remarks)


@pytest.mark.parametrize(
    ("lines", "strict", "outcome", "passes"),
    [
        (burst(10, 1.999), False, {"crowding": WARNED}, True),
        (burst(10, 1.999), True, {"crowding": FAILED}, False),
        ([get(0, header="no"), get(1)], False, {"header": FAILED}, False),
        ([get(0), get(1)], True, {}, True),
    ],
)
def test_errors_count_and_warnings_only_when_strict(
    lines: list[Line], strict: bool, outcome: dict[str, str], passes: bool
) -> None:
    """What was not tried counts for nothing."""
    found = judge(evidence(*lines, ended=2), strict=strict)
    assert {finding.rule.id: finding.outcome for finding in found.broken} == outcome
    read = json.loads(json_text(found))
    assert (found.passes, read["passes"]) == (passes, passes)
    assert (read["errors"], read["warnings"]) == (len(found.failed), len(found.warned))


@pytest.mark.parametrize("allow_untried", [False, True])
def test_where_nothing_was_asked_nothing_passes(allow_untried: bool) -> None:
    """A rule that has nothing to judge does not pass; that nothing asked is an error, whatever is allowed."""
    found = judge(Evidence("me", [], [], 0.0, 1.0), allow_untried=allow_untried)
    assert {finding.rule.id: finding.outcome for finding in found.findings if finding.outcome != NOT_TRIED} == {
        "asks": FAILED,
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
    """Errors are failures; warnings, parts that were not tried, and remarks are only told; skips say why."""
    suite = fromstring(junit(verdict("pace", "once", said='<&"', remarks=("No.", "Yes."))))
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == (str(len(RULES)), "1", "2")
    assert [(one.get("type"), one.get("message")) for one in suite.iter("failure")] == [("error", '<&"')]
    assert [one.get("message") for one in suite.iter("skipped")] == [
        "needs --peers-ready FILE",
        "needs --work-done FILE",
    ]
    told = [one.text for one in suite.iter("system-out")]
    assert told == [f'warning: <&". {BY_ID["once"].fix}', "only half of it", "No.\nYes."]


def test_annotations_are_one_line_each() -> None:
    """Whatever a client made us say; nothing in it can become a command."""
    lines = github(verdict("header", "once", said="100%\n::error::x", remarks=("No.",))).splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("::error title=duenotice header::Sends")
    assert "100%25%0A::error::x" in lines[0]
    assert lines[1].startswith("::warning title=duenotice once::")
    left = "::notice title=duenotice%2C not tried::peers: needs --peers-ready FILE; work: needs --work-done FILE"
    assert lines[2:] == [left, "::notice title=duenotice::No."]
    assert github(verdict()).splitlines() == ["::notice title=duenotice::No rule was broken.", left]


def test_a_strict_warning_is_an_error_of_ci() -> None:
    """As it is for the exit code."""
    found = judge(evidence(*burst(10, 1.999), ended=2), strict=True)
    assert github(found).startswith("::error title=duenotice crowding::")
    assert [one.get("type") for one in fromstring(junit(found)).iter("failure")] == ["warning"]


def test_a_page_is_a_table_in_which_words_are_only_words() -> None:
    """Nothing that a client made us say becomes a link, a picture, a column or a line of Markdown."""
    lines = markdown(
        verdict("header", "once", said="![x](y) | <b> `a` www.x.y http://z @all $1$", remarks=("A *remark*.",))
    ).splitlines()
    assert lines[:3] == ["### duenotice: failed", "", lines[2]]
    assert lines[2].endswith("1 rule broken, 1 warning.")
    rows = [line for line in lines if line.startswith("|")]
    assert len(rows) == len(RULES) + 2
    assert {row.count("|") for row in rows} == {5}
    (header,) = [row for row in rows if "`header`" in row]
    assert header.startswith("| ❌ | `header` | failed | Sends Metadata: true with every request.<br>&#33;&#91;x&#93;")
    assert "www&#46;x.y http&#58;//z &#64;all &#36;1&#36;" in header
    assert "**Fix:** Add the header" in header
    assert lines[-1] == "A &#42;remark&#42;."
    assert markdown(verdict()).startswith("### duenotice: passed")


@pytest.mark.parametrize("form", [junit, github, markdown])
def test_where_nothing_asked_one_sentence_stands_for_all_that_was_not_tried(form: Callable[[Verdict], str]) -> None:
    """And says what such a program needs, if it only waits for SIGTERM."""
    text = form(judge(evidence(tour_ended="it asked nothing")))
    assert text.count("only waits for SIGTERM") == 1
    assert "nothing asked" not in text.replace("nothing asked 169", "")
    assert "late-answer" not in text


@pytest.mark.parametrize(
    ("code", "remark"),
    [(0, "A program that goes on in the background is taken for ended"), (3, "What it printed may say why it ended.")],
)
def test_a_program_that_ends_before_it_asks_is_told_so(code: int, remark: str) -> None:
    """With its code, and what that may mean."""
    found = judge(evidence({"at": 1, "exit_code": code}))
    (asks,) = found.broken
    assert asks.said[0].endswith(f"; it ended with code {code}")
    assert [remark in words for words in found.remarks] == [True]


@pytest.mark.parametrize(
    ("lines", "remark"),
    [
        ([get(0), get(1)], "It read of no event of me, so nothing was seen of how it handles one."),
        ([raised("T", "other"), get(0, THEIRS), post(1, "T")], "It read of no event of me"),
        ([raised("A"), get(0, A), get(1)], "It read of 1 event of me, approved none and ended for none"),
        ([raised("A"), get(0, A), post(1, "A")], ""),
        ([raised("A"), get(0, A), post(1, "A", status=400)], ""),
        ([raised("A"), get(0, A_STARTED), {"at": 1, "exit_code": 0}], ""),
        ([raised("A"), get(0, A_STARTED), {"at": 1, "exit_code": -11}], "It read of 1 event of me"),
    ],
)
def test_a_verdict_says_when_no_own_event_was_handled(lines: list[Line], remark: str) -> None:
    """A client that looks for another name in Resources breaks no rule, and does nothing."""
    found = judge(evidence(*lines, ended=2)).remarks
    assert [words.startswith(remark) for words in found] == [True] * bool(remark)


ENDS, CRASHES = {"exit_code": 0}, {"exit_code": 1}


@pytest.mark.parametrize(
    ("lines", "needs_a_loop"),
    [
        ([get(0, A), {"at": 1} | ENDS, get(2, A), {"at": 3} | ENDS, get(4, A)], True),
        ([get(0, A), {"at": 1} | ENDS, get(2, A), {"at": 3} | CRASHES, get(4, A)], False),
        ([get(0, A), {"at": 1} | ENDS, get(2, A), get(3, A), {"at": 4} | ENDS, get(5, A), get(6, A)], False),
        ([get(0, A), {"at": 1} | ENDS, get(2, A)], False),
    ],
)
def test_a_program_that_a_timer_calls_is_told_to_put_a_loop_around_it(lines: list[Line], needs_a_loop: bool) -> None:
    """It asks once and ends well, each time it is started; once alone says nothing."""
    found = judge(evidence(raised("A"), *lines, ended=7)).remarks
    assert any("a timer calls" in words for words in found) is needs_a_loop


@pytest.mark.parametrize(
    ("rule", "lines", "why"),
    [
        (
            "errors",
            [get(0), get(1, status=500), get(2)],
            "only that it asks again was seen: no event that it approves came with it",
        ),
        ("errors", [raised("A"), get(0, A), post(1, "A"), get(1, status=500), get(2), duty(2, "errors", "A")], ""),
        (
            "errors",
            [raised("A"), get(0, A), post(1, "A"), *OF_USERS, get(1, status=500), get(2), duty(2, "errors", "U")],
            "only that it asks again was seen: no event that it approves came with it",
        ),
        (
            "neighbour",
            [raised("T", "other"), get(0, THEIRS, A), post(1, "A")],
            "not tried with Freeze, Redeploy, Preempt, Terminate",
        ),
        (
            "neighbour",
            [
                *(raised(kind.upper(), "other", type=kind.lower()) for kind in TYPES),
                get(0, *(f"{kind.upper()} Scheduled {kind} other" for kind in TYPES)),
                post(1, "A"),
            ],
            "",
        ),
        ("leader", [raised("L", "other", "me"), get(0, LED, A), post(1, "A")], "not tried with Freeze, Redeploy"),
    ],
)
def test_a_rule_that_was_kept_says_what_of_it_was_not_tried(rule: str, lines: list[Line], why: str) -> None:
    """So nobody reads more in a verdict than was seen."""
    (found,) = (finding for finding in judge(evidence(*lines, ended=3)).findings if finding.rule.id == rule)
    assert (found.outcome, found.why) == (PASSED, why)


@pytest.mark.parametrize("form", [json_text, junit, github, markdown])
def test_no_report_has_a_control_character_of_the_client_in_it(form: Callable[[Verdict], str]) -> None:
    """What it asked for is told in the words of the verdict, escaped; and JUnit is still XML (S28)."""
    query, headers = {"api-version": "\x1b]0;\u202e"}, {"metadata": "true"}
    asked = Exchange(1, AT, 0.5, "me", "", "GET", "/metadata/scheduledevents", query, headers, b"", 400, b"", 0.6)
    found = judge(Evidence("me", [asked], [], 0.0, 1.0))
    text = form(found)
    assert RAW.findall(text) == []
    assert "u202e" in text and "which does not exist" in text
    assert form is not junit or fromstring(text).tag == "testsuite"


def test_every_rule_says_what_to_do() -> None:
    """An id of its own, a severity, a sentence and a way to fix it."""
    assert len(BY_ID) == len(RULES) == 23
    assert {rule.severity for rule in RULES} == {"error", "warning"}
    assert all(rule.sentence.endswith(".") and rule.fix.endswith(".") for rule in RULES)
    assert not {"|", "<", "*", "_", "`", "\\", "&"} & set("".join(rule.sentence + rule.fix for rule in RULES))
