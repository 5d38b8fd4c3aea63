"""A verdict on a client: one finding per rule, numbers of what was seen, and whether it passes. Pure."""

from itertools import pairwise
from statistics import median
from typing import NamedTuple

from duenotice.escape import one_line
from duenotice.testkit.verdicts.evidence import Evidence, version_of
from duenotice.testkit.verdicts.rules import BY_ID, ERROR, RULES, Rule
from duenotice.testkit.verdicts.untried import NOTHING_ASKED, left_open, remarks, why_untried

PASSED, WARNED, FAILED, NOT_TRIED = "passed", "warned", "failed", "not tried"
NOT_REACHED = "the tour did not get to it"
ASKS, TOUR = "asks", "tour"


class Finding(NamedTuple):
    """What a rule found; `said` are the complaints. `why` says why it was not tried, or what of it was not."""

    rule: Rule
    outcome: str
    said: tuple[str, ...] = ()
    why: str = ""


class Verdict(NamedTuple):
    """The findings in the order of the rules, what was seen, and what else the reader has to know."""

    findings: tuple[Finding, ...]
    seen: dict[str, object]
    remarks: tuple[str, ...] = ()

    @property
    def failed(self) -> list[Finding]:
        """The findings for which it does not pass."""
        return [finding for finding in self.findings if finding.outcome == FAILED]

    @property
    def warned(self) -> list[Finding]:
        """The findings that do not keep it from passing."""
        return [finding for finding in self.findings if finding.outcome == WARNED]

    @property
    def broken(self) -> list[Finding]:
        """All findings against the client."""
        return [finding for finding in self.findings if finding.outcome in (FAILED, WARNED)]

    @property
    def not_tried(self) -> dict[str, list[str]]:
        """The rules that were not tried, by the reason."""
        found: dict[str, list[str]] = {}
        for one in self.findings:
            if one.outcome == NOT_TRIED:
                found.setdefault(one.why or NOT_REACHED, []).append(one.rule.id)
        return found

    @property
    def passes(self) -> bool:
        """Whether CI may go on: every rule that applies was tried, and no error was found."""
        return not self.failed


def judge(evidence: Evidence, strict: bool = False, allow_untried: bool = False) -> Verdict:
    """Judge a client by every rule; `strict` makes errors of warnings."""
    findings = {rule.id: _finding(rule, evidence, strict) for rule in RULES}
    findings[TOUR] = _tour(findings, allow_untried)
    return Verdict(tuple(findings.values()), _seen(evidence), tuple(remarks(evidence)))


def _finding(rule: Rule, evidence: Evidence, strict: bool) -> Finding:
    said = rule.judge(evidence)
    if said is None:
        return Finding(rule, NOT_TRIED, why=why_untried(rule.id, evidence))
    if not said:
        return Finding(rule, PASSED, why=left_open(rule.id, evidence))
    # A client may have put anything into these words: what it asked for is in them.
    return Finding(rule, FAILED if strict or rule.severity == ERROR else WARNED, tuple(map(one_line, said)))


def _tour(findings: dict[str, Finding], allow_untried: bool) -> Finding:
    """A rule that applies and was not tried counts against the client, unless that is allowed.

    If the client broke another rule, that may be the reason, and is enough.
    """
    if findings[ASKS].outcome == FAILED:
        return Finding(BY_ID[TOUR], NOT_TRIED, why=NOTHING_ASKED)
    broken = [one for one in findings.values() if one.outcome == FAILED and one.rule.severity == ERROR]
    left = [one.rule.id for one in findings.values() if one.outcome == NOT_TRIED and not one.why and not broken]
    words = [*findings[TOUR].said, *([f"not tried: {', '.join(left)}"] if left else [])]
    if allow_untried and words:
        return Finding(BY_ID[TOUR], NOT_TRIED, why="; ".join(words))
    return Finding(BY_ID[TOUR], FAILED, tuple(words)) if words else Finding(BY_ID[TOUR], PASSED)


def _seen(evidence: Evidence) -> dict[str, object]:
    times = [poll.monotonic for poll in evidence.polls]
    gaps = [after - before for before, after in pairwise(times)]
    taken = [approval for approval in evidence.approvals if approval.status == 200]
    endings = evidence.notes.endings
    return {
        "vm": evidence.vm,
        "seconds": round(evidence.ended - evidence.begun, 1),
        "polls": len(evidence.polls),
        "seconds_between_polls": round(median(gaps), 2) if gaps else None,
        "approvals": len(taken),
        "approvals_not_taken": len(evidence.approvals) - len(taken),
        "events": len(evidence.seen),
        "own_events": len(evidence.own),
        "own_events_approved": len([event_id for event_id in evidence.own if event_id in evidence.taken]),
        "api_versions": sorted({version_of(one) for one in (*evidence.polls, *evidence.approvals)}),
        "exit_code": endings[-1].code if endings else None,
    }
