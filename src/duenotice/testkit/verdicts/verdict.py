"""A verdict on a client: one finding per rule, what was seen of it in numbers, and whether it may pass. Pure."""

from itertools import pairwise
from statistics import median
from typing import NamedTuple

from duenotice.plain_text import one_line
from duenotice.testkit.verdicts.evidence import Evidence
from duenotice.testkit.verdicts.rules import ERROR, RULES, Rule

PASSED, FAILED, NOT_TRIED = "passed", "failed", "not tried"


class Finding(NamedTuple):
    """What a rule found; `said` is what speaks against the client."""

    rule: Rule
    outcome: str
    said: tuple[str, ...] = ()


class Verdict(NamedTuple):
    """The findings in the order of the rules, and what was seen."""

    findings: tuple[Finding, ...]
    seen: dict[str, object]

    @property
    def failed(self) -> list[Finding]:
        """What speaks against the client."""
        return [finding for finding in self.findings if finding.outcome == FAILED]

    def passes(self, strict: bool = False) -> bool:
        """Whether CI may go on: warnings count only when that is asked for."""
        return not any(strict or finding.rule.severity == ERROR for finding in self.failed)


def judge(evidence: Evidence) -> Verdict:
    """Hold a client against every rule."""
    return Verdict(tuple(_finding(rule, evidence) for rule in RULES), _seen(evidence))


def _finding(rule: Rule, evidence: Evidence) -> Finding:
    said = rule.judge(evidence)
    if said is None:
        return Finding(rule, NOT_TRIED)
    # A client may have put anything into these words: what it asked for is in them.
    return Finding(rule, FAILED, tuple(map(one_line, said))) if said else Finding(rule, PASSED)


def _seen(evidence: Evidence) -> dict[str, object]:
    times = [poll.monotonic for poll in evidence.polls]
    gaps = [after - before for before, after in pairwise(times)]
    return {
        "vm": evidence.vm,
        "seconds": round(evidence.ended - evidence.begun, 1),
        "polls": len(evidence.polls),
        "seconds_between_polls": round(median(gaps), 2) if gaps else None,
        "approvals": len(evidence.approvals),
        "events": len(evidence.seen),
        "api_versions": sorted({one.api_version for one in (*evidence.polls, *evidence.approvals)}),
        "exit_code": evidence.exit_code,
    }
