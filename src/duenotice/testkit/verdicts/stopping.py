"""Why a client stopped asking: only the last unusual thing that it was given is taken as the reason. Pure."""

import signal
from collections.abc import Callable
from functools import partial

from duenotice.testkit.overheard import Exchange
from duenotice.testkit.verdicts.evidence import REMOVALS, Evidence, ShownDocument, document_of
from duenotice.testkit.verdicts.said import Said, said
from duenotice.wire.seen_documents import SeenDocument

LATE_SECONDS = 2.0
"""After this many real seconds every answer counts as late."""

CUT = ("drop", "half")
ON_PURPOSE = frozenset({0, -signal.SIGTERM, -signal.SIGINT, 128 + signal.SIGTERM, 128 + signal.SIGINT})
"""How a program ends that wants to: well, or by a signal that it sent itself, as the system or as a shell says it."""

FAREWELLS = ON_PURPOSE | {1}
"""How it may end when its VM goes away; 1 is what `sys.exit("a message")` gives."""

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
    """How it ended because of neighbours' events, whatever its code."""
    return [words for run in _runs(evidence) if (words := _left_for(evidence, run))]


def farewells(evidence: Evidence) -> list[int]:
    """The starts of the program that ended as its VM was about to go: that is a way to handle an event."""
    return [run for run in _runs(evidence) if _was_to_end(evidence, run)]


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
    if silent and _hangs_at_news(evidence):
        silent = [poll for poll in silent if not _is_news(evidence, poll)]
    return said(odd, (f"after {_WHAT[rule]} (#{poll.number}) it did not ask again" for poll in silent))


def _is_silent_after(evidence: Evidence, poll: Exchange) -> bool:
    run = evidence.run_of(poll)
    if poll is evidence.last_of(run) and evidence.ending_of(run) is not None:
        return not _may_end(evidence, run)
    return evidence.silence_after(poll) >= evidence.tempo.patience


def _hangs_at_news(evidence: Evidence) -> bool:
    """Whether it is silent for too long after it has read of an event of its own, with nothing unusual about that."""
    return any(
        _is_news(evidence, poll)
        and not oddness(evidence, poll)
        and evidence.silence_after(poll) >= evidence.tempo.patience
        for poll in evidence.polls
    )


def _is_news(evidence: Evidence, poll: Exchange) -> bool:
    now, before = document_of(poll), evidence.document_before(poll)
    return now is not None and bool(evidence.mine(now) - (evidence.mine(before) if before else set()))


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
    """Whether it ended on purpose when its VM was about to be taken away or rebooted: then it did nothing wrong."""
    last, ending = _last_shown(evidence, run), evidence.ending_of(run)
    if last is None or ending is None:
        return False
    events = [event for event in last.document.events if event.hits(evidence.vm)]
    goes_away = any(event.type in REMOVALS for event in events)
    return ending.code in (FAREWELLS if goes_away else ON_PURPOSE if any(event.started for event in events) else ())


def _left_for(evidence: Evidence, run: int) -> str:
    """What is said if it ended right after it had read of events of others alone.

    A crash at something unusual, such as an empty NotBefore, belongs to the rule about that.
    """
    last, ending = _last_shown(evidence, run), evidence.ending_of(run)
    if last is None or ending is None or last.poll is not evidence.last_of(run):
        return ""
    events = last.document.events
    if not events or any(event.hits(evidence.vm) for event in events):
        return ""
    if ending.code not in ON_PURPOSE and oddness(evidence, last.poll):
        return ""
    what = f"{events[0].type} {events[0].event_id}"
    return f"it ended with code {ending.code} when it read of {what}, which does not hit it"


def _last_shown(evidence: Evidence, run: int) -> ShownDocument | None:
    return next((shown for shown in reversed(evidence.shown) if shown.run == run), None)


def _waits(poll: Exchange) -> bool:
    """Whether it asked us to hold the answer."""
    return "wait" in poll.query
