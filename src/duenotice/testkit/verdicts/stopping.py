"""Why a client stopped asking: the odd thing that it was given last is blamed, and nothing else. Pure."""

from collections.abc import Callable
from functools import partial

from duenotice.testkit.overheard import Exchange
from duenotice.testkit.verdicts.evidence import Evidence, document_of
from duenotice.testkit.verdicts.said import Said, said
from duenotice.wire.seen_document import SeenDocument

LATE_SECONDS = 2.0
"""Real seconds after which an answer counts as late, whatever the reason."""

CUT = ("drop", "half")
_WHAT = {
    "errors": "an error",
    "empty-answer": "an empty answer",
    "cut-answer": "an answer that was cut off",
    "late-answer": "an answer that was late",
    "empty-not-before": "an event that has started",
    "incarnation": "an incarnation that was not the next",
    "comes-back": "the end of an event of its own",
}
"""The odd things, by the rule that each is about."""


def after(rule: str) -> Callable[[Evidence], Said]:
    """A judge: does the client ask again after this odd thing?"""
    return partial(_after, rule)


def alive(evidence: Evidence) -> Said:
    """A client that dies protects nobody; one that had its VM taken away, or rebooted, may end."""
    if not evidence.exchanges:
        return None
    last = evidence.exchanges[-1]
    if evidence.exit_code is None or _was_to_end(evidence) or left_for(evidence):
        return []
    if last.method == "GET" and oddness(evidence, last):
        return []
    return [f"it ended by itself with code {evidence.exit_code}, after {last.method} #{last.number}"]


def left_for(evidence: Evidence) -> str:
    """The neighbour's event because of which it ended, as one does on purpose: code 0, and nothing of its own ahead."""
    if evidence.exit_code != 0 or not evidence.shown or evidence.shown[-1].poll is not evidence.exchanges[-1]:
        return ""
    events = evidence.shown[-1].document.events
    return "" if any(event.hits(evidence.vm) for event in events) else next((event.event_id for event in events), "")


def is_always_slow(evidence: Evidence) -> bool:
    """Whether it is silent for too long whatever it was given: then that is its pace, and nothing odd is to blame."""
    if evidence.exit_code is not None and len(evidence.polls) == 1:
        return False
    return all(evidence.silence_after(poll) >= evidence.tempo.patience for poll in evidence.polls)


def oddness(evidence: Evidence, poll: Exchange) -> str:
    """What was odd about the answer to a poll: the rule that it is about; empty when nothing was."""
    if poll.status >= 400:
        return "errors"
    if poll.status == 200 and not poll.answer:
        return "empty-answer"
    fault = evidence.fault_at(poll.monotonic)
    if poll.answered is None and fault in CUT:
        return "cut-answer"
    if not _waits(poll) and (poll.answered is None or poll.answered - poll.monotonic > LATE_SECONDS):
        return "late-answer"
    return _odd_document(evidence, poll)


def _after(rule: str, evidence: Evidence) -> Said:
    odd = [ask for ask in evidence.asks if oddness(evidence, ask) == rule]
    silent = [] if is_always_slow(evidence) else [poll for poll in odd if _is_silent_after(evidence, poll)]
    return said(odd, (f"after {_WHAT[rule]} (#{poll.number}) it did not ask again" for poll in silent))


def _is_silent_after(evidence: Evidence, poll: Exchange) -> bool:
    if evidence.next_ask(poll) is None and evidence.exit_code is not None:
        return poll is evidence.exchanges[-1] and not _was_to_end(evidence) and not left_for(evidence)
    return evidence.silence_after(poll) >= evidence.tempo.patience


def _odd_document(evidence: Evidence, poll: Exchange) -> str:
    """Odd is what a document shows and the one before did not: what a client has survived once is not to blame."""
    now, before = document_of(poll), evidence.document_before(poll)
    if now is None:
        return ""
    if _started(now) - (_started(before) if before else set()):
        return "empty-not-before"
    if before is None:
        return ""
    if evidence.mine(before) - evidence.mine(now):
        return "comes-back"
    return "" if now.incarnation in (before.incarnation, before.incarnation + 1) else "incarnation"


def _started(document: SeenDocument) -> set[str]:
    return {event.event_id for event in document.events if event.started}


def _was_to_end(evidence: Evidence) -> bool:
    """Whether it ended well, and its VM was about to be taken away or rebooted: then nobody can ask more of it."""
    if evidence.exit_code != 0 or not evidence.shown:
        return False
    events = [event for event in evidence.shown[-1].document.events if event.hits(evidence.vm)]
    return any(event.type in ("Preempt", "Terminate") or event.started for event in events)


def _waits(poll: Exchange) -> bool:
    """Whether it asked us to take our time."""
    return "wait" in poll.query
