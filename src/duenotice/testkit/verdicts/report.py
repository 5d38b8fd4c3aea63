"""A verdict as programs read it: JSON, JUnit XML, annotations and summaries of GitHub. Pure."""

import json
import re
from collections.abc import Callable
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from duenotice.escape import lines
from duenotice.testkit.verdicts.checks import counted
from duenotice.testkit.verdicts.verdict import FAILED, NOT_TRIED, NOTHING_ASKED, PASSED, WARNED, Finding, Verdict

SUITE = "duenotice"


def to_json(verdict: Verdict) -> dict[str, object]:
    """The verdict as an object; `why` says why a rule was not tried, or what of one that has passed."""
    return {
        "passes": verdict.passes,
        "errors": len(verdict.failed),
        "warnings": len(verdict.warned),
        "seen": verdict.seen,
        "remarks": list(verdict.remarks),
        "rules": [finding_to_json(finding) for finding in verdict.findings],
    }


def finding_to_json(finding: Finding) -> dict[str, object]:
    """What one rule found."""
    return {
        "id": finding.rule.id,
        "severity": finding.rule.severity,
        "outcome": finding.outcome,
        "sentence": finding.rule.sentence,
        "said": list(finding.said),
        "why": finding.why,
        "fix": finding.rule.fix if finding.outcome in (FAILED, WARNED) else "",
    }


def json_text(verdict: Verdict) -> str:
    """For programs: everything that was found, whatever the rules said."""
    return lines(json.dumps(to_json(verdict), indent=2, ensure_ascii=False)) + "\n"


def junit(verdict: Verdict) -> str:
    """A test case per rule; a warning is told in the output of its case, which has not failed."""
    findings = worth_a_line(verdict)
    outcomes = [finding.outcome for finding in findings]
    counts = {"tests": len(outcomes), "failures": outcomes.count(FAILED), "skipped": outcomes.count(NOT_TRIED)}
    suite = Element("testsuite", {"name": SUITE, "errors": "0"} | {name: str(count) for name, count in counts.items()})
    suite.set("time", str(verdict.seen.get("seconds", 0)))
    for finding in findings:
        _case(suite, finding)
    if verdict.remarks:
        SubElement(suite, "system-out").text = "\n".join(verdict.remarks)
    indent(suite)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + tostring(suite, encoding="unicode") + "\n"


def _case(suite: Element, finding: Finding) -> None:
    rule = finding.rule
    case = SubElement(suite, "testcase", {"classname": SUITE, "name": f"{rule.id}: {rule.sentence}"})
    if finding.outcome == FAILED:
        failure = SubElement(case, "failure", {"type": rule.severity, "message": "; ".join(finding.said)})
        failure.text = rule.fix
    elif finding.outcome == WARNED:
        SubElement(case, "system-out").text = f"warning: {'; '.join(finding.said)}. {rule.fix}"
    elif finding.outcome == NOT_TRIED:
        SubElement(case, "skipped", {"message": finding.why or NOT_TRIED})
    elif finding.why:
        SubElement(case, "system-out").text = finding.why


def github(verdict: Verdict) -> str:
    """An annotation per finding, a notice when there is none, and one about all that was not tried."""
    said = [
        _annotation(
            "error" if finding.outcome == FAILED else "warning",
            f"duenotice {finding.rule.id}",
            f"{finding.rule.sentence} But {'; '.join(finding.said)}. {finding.rule.fix}",
        )
        for finding in verdict.broken
    ]
    left = [f"{', '.join(rules)}: {why}" for why, rules in verdict.not_tried.items() if why != NOTHING_ASKED]
    said += [] if said else [_annotation("notice", "duenotice", "No rule was broken.")]
    said += [_annotation("notice", "duenotice, not tried", "; ".join(left))] if left else []
    return "".join([*said, *(_annotation("notice", "duenotice", remark) for remark in verdict.remarks)])


def _annotation(level: str, title: str, text: str) -> str:
    return f"::{level} title={_escaped(title, ':,')}::{_escaped(text)}\n"


def _escaped(text: str, more: str = "") -> str:
    """As the workflow commands want it: percent first, since it escapes the others."""
    for character in "%\r\n" + more:
        text = text.replace(character, f"%{ord(character):02X}")
    return text


def markdown(verdict: Verdict) -> str:
    """A table for people who read it as a page, such as the summary of a job of GitHub."""
    title = "passed" if verdict.passes else "failed"
    rows = [
        f"| {_MARKS.get(finding.outcome, '·')} | `{finding.rule.id}` | {finding.outcome} | {_told(finding)} |"
        for finding in worth_a_line(verdict)
    ]
    text = [f"### duenotice: {title}", "", _counted(verdict), ""]
    text += ["| | rule | outcome | what |", "|---|---|---|---|", *rows]
    return "\n".join([*text, *(f"\n{_as_text(remark)}" for remark in verdict.remarks)]) + "\n"


_MARKS = {PASSED: "✅", WARNED: "⚠️", FAILED: "❌"}
_SPECIAL = re.compile(r"[\\`*_{}\[\]<>()#!|&~@:$]|(?<=www)\.", re.IGNORECASE)
"""What Markdown, as GitHub reads it, takes for more than text inside a line: a program chose some of these words."""


def _told(finding: Finding) -> str:
    fix = [f"**Fix:** {finding.rule.fix}"] if finding.said else []
    words = [*finding.said, *([finding.why] if finding.why else [])]
    return "<br>".join([finding.rule.sentence, *map(_as_text, words), *fix])


def _as_text(words: str) -> str:
    return _SPECIAL.sub(lambda found: f"&#{ord(found[0])};", words)


def _counted(verdict: Verdict) -> str:
    seen = verdict.seen
    return (
        f"{seen.get('polls', 0)} polls in {seen.get('seconds', 0)} s; {seen.get('own_events', 0)} events of its own, "
        f"{seen.get('own_events_approved', 0)} of them approved; "
        f"{counted(len(verdict.failed), 'rule')} broken, {counted(len(verdict.warned), 'warning')}."
    )


def worth_a_line(verdict: Verdict) -> list[Finding]:
    """The findings; where nothing asked, a remark stands for all that was not tried."""
    return [finding for finding in verdict.findings if finding.why != NOTHING_ASKED]


REPORTS: dict[str, Callable[[Verdict], str]] = {
    "json": json_text,
    "junit": junit,
    "github": github,
    "markdown": markdown,
}
BY_SUFFIX = {".xml": "junit", ".md": "markdown"}
"""The form of a report by the end of the name of its file; JSON for all others."""
