"""Why a client stopped asking: only the last unusual thing that it was given is taken as the reason. Pure."""

from collections.abc import Callable
from functools import partial

from duenotice.testkit.overheard import Exchange
from duenotice.testkit.verdicts.evidence import Ending, Evidence, ShownDocument, document_of
from duenotice.testkit.verdicts.said import Said, said
from duenotice.wire.seen_document import SeenDocument

LATE_SECONDS = 2.0
"""After this many real seconds every answer counts as late."""

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
"""The unusual things, by the rule that each is about."""


def after(rule: str) -> Callable[[Evidence], Said]:
    """A judge: does the client ask again after this unusual thing?"""
    return partial(_after, rule)


def alive(evidence: Evidence) -> Said:
    """A client that dies protects nobody; a client whose VM is removed or rebooted may end."""
    return said(evidence.exchanges, (word for run in _runs(evidence) if (word := _death(evidence, run))))


def whole_tour(evidence: Evidence) -> Said:
    """A tour that ended early proves nothing about the rest of it."""
    return [f"the tour ended early: {evidence.notes.ended}"] if evidence.notes.ended else []


def left_for(evidence: Evidence) -> list[str]:
    """The neighbours' events that made it end on purpose: with code 0, and with no event of its own ahead."""
    return [event_id for run in _runs(evidence) if (event_id := _left_for(evidence, run))]


def is_always_slow(evidence: Evidence) -> bool:
    """Whether it is always silent for too long: then the rule `pace` is broken, and nothing unusual is the reason."""
    return all(evidence.silence_after(poll) >= evidence.tempo.patience for poll in evidence.polls)


def oddness(evidence: Evidence, poll: Exchange) -> str:
    """The rule about what was unusual in the answer to a poll; empty when nothing was."""
    if poll.status >= 400:
        return "errors"
    if poll.status == 200 and not poll.answer:
        return "empty-answer"
    fault = evidence.fault_at(poll.monotonic)
    if poll.answered is None and fault in CUT:
        return "cut-answer"
    in_time = min(LATE_SECONDS, evidence.tempo.slow / 2)
    if not _waits(poll) and (poll.answered is None or poll.answered - poll.monotonic > in_time):
        return "late-answer"
    return _odd_document(evidence, poll)


def _runs(evidence: Evidence) -> range:
    """The starts of the program that ended by themselves, or were stopped."""
    return range(len(evidence.notes.endings) + len(evidence.notes.stops))


def _death(evidence: Evidence, run: int) -> str:
    """What there is to say about how a start of the program ended."""
    ending, last = evidence.ending_of(run), evidence.last_of(run)
    if ending is None or _may_end(evidence, run):
        return ""
    where = "before it asked" if last is None else f"after {last.method} #{last.number}"
    return f"it ended by itself with code {ending.code}, {where}"


def _after(rule: str, evidence: Evidence) -> Said:
    odd = [ask for ask in evidence.asks if oddness(evidence, ask) == rule]
    silent = [] if is_always_slow(evidence) else [poll for poll in odd if _is_silent_after(evidence, poll)]
    return said(odd, (f"after {_WHAT[rule]} (#{poll.number}) it did not ask again" for poll in silent))


def _is_silent_after(evidence: Evidence, poll: Exchange) -> bool:
    run = evidence.run_of(poll)
    if poll is evidence.last_of(run) and evidence.ending_of(run) is not None:
        return not _may_end(evidence, run)
    return evidence.silence_after(poll) >= evidence.tempo.patience


def _odd_document(evidence: Evidence, poll: Exchange) -> str:
    """Unusual is what a document shows and the one before did not: what a client survived once is not the reason."""
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


def _may_end(evidence: Evidence, run: int) -> bool:
    return _was_to_end(evidence, run) or bool(_left_for(evidence, run))


def _was_to_end(evidence: Evidence, run: int) -> bool:
    """Whether it ended well, and its VM was about to be taken away or rebooted: then it did nothing wrong."""
    last = _last_shown(evidence, run)
    if last is None or not _ended_well(evidence.ending_of(run)):
        return False
    events = [event for event in last.document.events if event.hits(evidence.vm)]
    return any(event.type in ("Preempt", "Terminate") or event.started for event in events)


def _left_for(evidence: Evidence, run: int) -> str:
    last = _last_shown(evidence, run)
    if last is None or not _ended_well(evidence.ending_of(run)) or last.poll is not evidence.last_of(run):
        return ""
    events = last.document.events
    return "" if any(event.hits(evidence.vm) for event in events) else next((event.event_id for event in events), "")


def _last_shown(evidence: Evidence, run: int) -> ShownDocument | None:
    return next((shown for shown in reversed(evidence.shown) if shown.run == run), None)


def _ended_well(ending: Ending | None) -> bool:
    return ending is not None and ending.code == 0


def _waits(poll: Exchange) -> bool:
    """Whether it asked us to hold the answer."""
    return "wait" in poll.query
