"""A verdict as programs read it: JSON, JUnit XML, and annotations of GitHub. Pure."""

import json
from collections.abc import Callable
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from duenotice.plain_text import lines
from duenotice.testkit.verdicts.verdict import FAILED, NOT_TRIED, Finding, Verdict

SUITE = "duenotice"


def to_json(verdict: Verdict) -> dict[str, object]:
    """The verdict as an object; `outcome` of a rule is passed, failed or not tried, and `why` it was not tried."""
    return {
        "passes": verdict.passes,
        "errors": sum(finding.rule.severity == "error" for finding in verdict.failed),
        "warnings": sum(finding.rule.severity == "warning" for finding in verdict.failed),
        "seen": verdict.seen,
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
        "fix": finding.rule.fix if finding.outcome == FAILED else "",
    }


def json_text(verdict: Verdict) -> str:
    """For programs: everything that was found, whatever the rules said."""
    return lines(json.dumps(to_json(verdict), indent=2, ensure_ascii=False)) + "\n"


def junit(verdict: Verdict) -> str:
    """A test case per rule; a warning that failed is a failure too, of the type `warning`."""
    outcomes = [finding.outcome for finding in verdict.findings]
    counts = {"tests": len(outcomes), "failures": outcomes.count(FAILED), "skipped": outcomes.count(NOT_TRIED)}
    suite = Element("testsuite", {"name": SUITE, "errors": "0"} | {name: str(count) for name, count in counts.items()})
    suite.set("time", str(verdict.seen.get("seconds", 0)))
    for finding in verdict.findings:
        _case(suite, finding)
    indent(suite)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + tostring(suite, encoding="unicode") + "\n"


def _case(suite: Element, finding: Finding) -> None:
    rule = finding.rule
    case = SubElement(suite, "testcase", {"classname": SUITE, "name": f"{rule.id}: {rule.sentence}"})
    if finding.outcome == FAILED:
        failure = SubElement(case, "failure", {"type": rule.severity, "message": "; ".join(finding.said)})
        failure.text = rule.fix
    elif finding.outcome == NOT_TRIED:
        SubElement(case, "skipped", {"message": finding.why or NOT_TRIED})


def github(verdict: Verdict) -> str:
    """An annotation per finding, and a notice when there is none."""
    lines = [
        f"::{finding.rule.severity} title={_escaped(f'duenotice {finding.rule.id}', ':,')}::"
        + _escaped(f"{finding.rule.sentence} But {'; '.join(finding.said)}. {finding.rule.fix}")
        for finding in verdict.failed
    ]
    return "\n".join(lines or ["::notice title=duenotice::No rule was broken."]) + "\n"


def _escaped(text: str, more: str = "") -> str:
    """As the workflow commands want it: percent first, since it escapes the others."""
    for character in "%\r\n" + more:
        text = text.replace(character, f"%{ord(character):02X}")
    return text


REPORTS: dict[str, Callable[[Verdict], str]] = {"json": json_text, "junit": junit, "github": github}
