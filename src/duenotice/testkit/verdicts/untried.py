"""What a verdict proves nothing about: rules that were not tried, parts of rules, and what could not be seen. Pure."""

from collections.abc import Iterator

from duenotice.domain.event import EventType
from duenotice.testkit.verdicts.approving import is_led_by_another, is_of_others
from duenotice.testkit.verdicts.evidence import Evidence
from duenotice.testkit.verdicts.said import counted
from duenotice.testkit.verdicts.stopping import farewells
from duenotice.wire.api_versions import TYPE_NAMES

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
