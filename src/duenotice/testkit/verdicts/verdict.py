"""A verdict on a client: one finding for each rule, numbers of what was seen, and whether it passes. Pure.

It also says what it proves nothing about: rules that were not tried, parts of rules, and what could not be seen.
"""

from collections.abc import Iterator
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from duenotice.domain.event import EventType
from duenotice.escape import one_line
from duenotice.testkit.verdicts.checks import counted, farewells, is_led_by_another, is_of_others
from duenotice.testkit.verdicts.evidence import Evidence, version_of
from duenotice.testkit.verdicts.rules import BY_ID, ERROR, RULES, Rule
from duenotice.wire.api_versions import TYPE_NAMES

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
    said = rule.check(evidence)
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


NOTHING_ASKED = "nothing asked"
FOR_APPROVERS = frozenset(
    {"neighbour", "leader", "peers", "work", "once", "understood", "started", "cancelled", "every-event"}
)
"""A client that approved nothing in the whole run has not approved wrongly."""

ALWAYS = frozenset({"asks", "header", "pace", "crowding", "version", "understood", "alive", "tour"})
"""Rules that any tour and any scenario tries."""

HANDLING = frozenset({"errors", "empty-answer", "cut-answer", "late-answer", "incarnation", "comes-back"})
"""Rules that want the next event handled as the one before."""

OF_SEVERAL_VMS = (EventType.FREEZE, EventType.REBOOT, EventType.REDEPLOY)
OF_ONE_VM = (EventType.PREEMPT, EventType.TERMINATE)


def why_untried(rule: str, evidence: Evidence) -> str:
    """Why a rule did not apply; empty when it did, and should have been tried."""
    if not evidence.polls:
        return NOTHING_ASKED
    if rule == "peers" and not evidence.notes.has_peers_file:
        return "needs --peers-ready FILE"
    if rule == "work" and evidence.notes.work is None:
        return "needs --work-done FILE"
    if rule not in ALWAYS | evidence.notes.tries:
        return "no trial of it was chosen"
    if rule == "header":
        return "its api-version needs none"
    if rule in FOR_APPROVERS and not evidence.approvals:
        return "it approved nothing"
    known = [duty for duty in evidence.notes.duties if duty.rule == rule]
    return "it approved no event of such a kind" if known and not any(map(evidence.is_approved_kind, known)) else ""


def left_open(rule: str, evidence: Evidence) -> str:
    """What of a rule that was kept was not tried; empty when nothing was."""
    duties = [duty for duty in evidence.notes.duties if duty.rule == rule]
    if rule in HANDLING and not any(map(evidence.is_approved_kind, duties)):
        return "only that it asks again was seen: no event that it approves came with it"
    if rule == "neighbour":
        return _without(
            evidence, {life.type for life in evidence.told if is_of_others(evidence, life)}, *OF_SEVERAL_VMS, *OF_ONE_VM
        )
    if rule == "leader":
        told = {life.type for life in evidence.told if is_led_by_another(evidence, life)}
        return _without(evidence, told, *OF_SEVERAL_VMS)
    return ""


def _why_nothing_asked(evidence: Evidence) -> str:
    if not evidence.notes.endings:
        return (
            "A program that only waits for SIGTERM is not told of events: put the agent beside it, which stops it in "
            "time ('duenotice agent run')."
        )
    if evidence.notes.endings[0].code == 0:
        return "A program that goes on in the background is taken for ended: run it in the foreground."
    return "What it printed may say why it ended."


def _without(evidence: Evidence, told: set[EventType], *types: EventType) -> str:
    left = ", ".join(TYPE_NAMES[each] for each in types if each not in told)
    return f"not tried with {left}" if left else ""


def remarks(evidence: Evidence) -> Iterator[str]:
    """What the reader of any verdict has to know, because no rule says it."""
    if not evidence.polls:
        yield f"Nothing else could be tried. {_why_nothing_asked(evidence)}"
        return
    codes = [ending.code for ending in evidence.notes.endings]
    if len(codes) > 1 and not any(codes) and len(evidence.polls) <= len(codes) + 1:
        yield (
            "It asked once each time it was started, and ended with code 0. Put a loop around a program that a timer "
            "calls: sh -c 'while ./it; do sleep 1; done'."
        )
    if not evidence.own:
        yield f"It read of no event of {evidence.vm}, so nothing was seen of how it handles one."
    elif not any(event_id in evidence.approved for event_id in evidence.own) and not farewells(evidence):
        yield (
            f"It read of {counted(len(evidence.own), 'event')} of {evidence.vm}, approved none and ended for none: "
            "whether it handles any was not seen. If it does approve, it may look for another name in Resources: the "
            f"name of its VM is {evidence.vm} (--vm)."
        )
