"""The rules that a client is judged by: each with an id, a severity, a sentence and how to mend it. Pure.

A judge returns None when the run gave it nothing to judge, else what it has to say against the client.
"""

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import NamedTuple

from duenotice.testkit.overheard import Exchange
from duenotice.testkit.verdicts.evidence import Evidence

Judge = Callable[[Evidence], list[str] | None]

SHORTEST_NOTICE = 30.0
"""Seconds of notice that a spot VM gets (D01): whoever looks less often may miss it whole."""

PATIENCE = 30.0
"""Real seconds that a client may take to come back after something odd."""

MOST_A_SECOND = 5
"""Requests that the real service allows a VM (A08)."""

OLDEST_FIT = "2017-11-01"
"""Older api-versions never show Preempt (B10)."""


class Rule(NamedTuple):
    """One rule."""

    id: str
    severity: str
    sentence: str
    mend: str
    judge: Judge


def header(evidence: Evidence) -> list[str] | None:
    """A03."""
    asked = [*evidence.polls, *evidence.approvals]
    without = [one for one in asked if one.headers.get("metadata", "").lower() != "true"]
    return _said(asked, (f"{one.method} #{one.number} had no header" for one in without))


def pace(evidence: Evidence) -> list[str] | None:
    """D06."""
    polls = evidence.polls
    if not polls:
        return ["it never asked for the document"] if evidence.ended - evidence.begun >= SHORTEST_NOTICE else None
    gaps = [after.monotonic - (before.answered or before.monotonic) for before, after in pairwise(polls)]
    gaps.append(evidence.ended - (polls[-1].answered or polls[-1].monotonic) if evidence.exit_code is None else 0.0)
    return _said(gaps, (f"{gap:.0f} s between two polls" for gap in gaps if gap >= SHORTEST_NOTICE))


def crowding(evidence: Evidence) -> list[str] | None:
    """A08."""
    times = [one.monotonic for one in evidence.polls]
    crowded = [first for first, sixth in zip(times, times[MOST_A_SECOND * 2 :], strict=False) if sixth - first < 2.0]
    return _said(times, (f"more than {MOST_A_SECOND} polls a second",) if crowded else ())


def version(evidence: Evidence) -> list[str] | None:
    """A04, B10."""
    asked = {one.api_version for one in (*evidence.polls, *evidence.approvals)}
    bad = [f"it asks for api-version {one or 'none at all'}" for one in sorted(asked) if not one or one < OLDEST_FIT]
    return _said(asked, bad)


def neighbour(evidence: Evidence) -> list[str] | None:
    """H01."""
    others = [life for life in evidence.lives.values() if evidence.vm not in life.resources]
    approved = {event_id for one in evidence.approvals for event_id in evidence.approved_ids(one)}
    return _said(
        others,
        (f"it approved {life.id}, which hits {_names(life.resources)}" for life in others if life.id in approved),
    )


def leader(evidence: Evidence) -> list[str] | None:
    """H03."""
    shared = [life for life in evidence.lives.values() if evidence.vm in life.resources[1:]]
    approved = {event_id for one in evidence.approvals for event_id in evidence.approved_ids(one)}
    return _said(
        shared, (f"it approved {life.id}, led by {life.resources[0]}" for life in shared if life.id in approved)
    )


def once(evidence: Evidence) -> list[str] | None:
    """C02."""
    counts: dict[str, int] = {}
    for approval in evidence.approvals:
        if approval.status == 200:
            for event_id in evidence.approved_ids(approval):
                counts[event_id] = counts.get(event_id, 0) + 1
    return _said(counts, (f"it approved {event_id} {count} times" for event_id, count in counts.items() if count > 1))


def understood(evidence: Evidence) -> list[str] | None:
    """C01, C03; an event that was cancelled meanwhile is another rule's matter."""
    refused = [one for one in evidence.approvals if 400 <= one.status < 429 and not _cancelled(evidence, one)]
    return _said(evidence.approvals, (f"approval #{one.number} was refused with {one.status}" for one in refused))


def started(evidence: Evidence) -> list[str] | None:
    """C02, H04: only what the client could know counts."""
    late = [
        (one, event_id)
        for one in evidence.approvals
        for event_id in evidence.approved_ids(one)
        if any(event.event_status == "Started" for event in evidence.seen_before(one, event_id))
    ]
    seen = [life for life in evidence.lives.values() if life.started and evidence.vm in life.resources]
    return _said(seen, (f"it approved {event_id} after it had read that it was Started" for _, event_id in late))


def cancelled(evidence: Evidence) -> list[str] | None:
    """D02."""
    gone = [life for life in evidence.lives.values() if life.cancelled and evidence.vm in life.resources]
    late = [one for one in evidence.approvals if _cancelled(evidence, one)]
    return _said(gone, (f"approval #{one.number} was for an event that had gone" for one in late))


def every_event(evidence: Evidence) -> list[str] | None:
    """H01: each outstanding event, not only the first."""
    approved = {event_id for one in evidence.approvals for event_id in evidence.approved_ids(one)}
    several = [found for _, document in evidence.documents if len(found := _mine(evidence, document)) > 1]
    left = {event_id for ids in several if approved & ids for event_id in ids - approved}
    judged = [ids for ids in several if approved & ids]
    return _said(judged, (f"it approved others, but never {event_id}" for event_id in sorted(left)))


def empty_not_before(evidence: Evidence) -> list[str] | None:
    """B08."""
    shown = [poll for poll, document in evidence.documents if any(not event.not_before for event in document.events)]
    return _comes_back(evidence, shown, "an event with an empty NotBefore")


def after_errors(evidence: Evidence) -> list[str] | None:
    """H06."""
    return _comes_back(evidence, [poll for poll in evidence.polls if poll.status >= 400], "an error")


def after_empty(evidence: Evidence) -> list[str] | None:
    """H06."""
    empty = [poll for poll in evidence.polls if poll.status == 200 and not poll.answer]
    return _comes_back(evidence, empty, "an empty answer")


def after_silence(evidence: Evidence) -> list[str] | None:
    """F01: an answer that was late, or never came."""
    late = [
        poll
        for poll in evidence.polls
        if "wait" not in poll.query and (poll.answered is None or poll.answered - poll.monotonic > 5.0)
    ]
    return _comes_back(evidence, late, "an answer that was late")


def after_jump(evidence: Evidence) -> list[str] | None:
    """B01: numbers may be left out."""
    jumps = [
        later[0]
        for earlier, later in pairwise(evidence.documents)
        if later[1].document_incarnation not in (earlier[1].document_incarnation, earlier[1].document_incarnation + 1)
    ]
    return _comes_back(evidence, jumps, "an incarnation that was not the next")


def after_event(evidence: Evidence) -> list[str] | None:
    """H05."""
    hit: set[str] = set()
    gone: list[Exchange] = []
    for poll, document in evidence.documents:
        ids = _mine(evidence, document)
        if hit - ids:
            gone.append(poll)
        hit = ids
    return _comes_back(evidence, gone[:1], "an event of its own had gone")


def alive(evidence: Evidence) -> list[str] | None:
    """A client that dies protects nobody."""
    died = evidence.exit_code not in (None, 0)
    return _said([1] if evidence.exchanges else [], [f"it ended with code {evidence.exit_code}"] if died else [])


def _said(judged: Iterable[object], words: Iterable[str]) -> list[str] | None:
    return list(dict.fromkeys(words)) if any(True for _ in judged) else None


def _comes_back(evidence: Evidence, after: list[Exchange], what: str) -> list[str] | None:
    silent = [one for one in after if evidence.silence_after(one) > PATIENCE or _never_again(evidence, one)]
    return _said(after, (f"after {what} (#{one.number}) it did not ask again" for one in silent))


def _never_again(evidence: Evidence, exchange: Exchange) -> bool:
    """Whether a program ended after this without asking again."""
    return evidence.exit_code is not None and not evidence.polls_after(exchange)


def _cancelled(evidence: Evidence, approval: Exchange) -> bool:
    lives = [evidence.lives.get(event_id) for event_id in evidence.approved_ids(approval)]
    return any(
        life is not None and life.cancelled and life.ended is not None and life.ended <= approval.at for life in lives
    )


def _mine(evidence: Evidence, document: object) -> set[str]:
    from duenotice.wire.document_json import SeenDocument

    assert isinstance(document, SeenDocument)
    return {event.event_id.upper() for event in document.events if evidence.vm in event.resources}


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(names[:3])


RULES = (
    Rule(
        "header",
        "error",
        "Sends the header Metadata: true with every request.",
        "Add it to GET and to POST: without it the real service answers 400.",
        header,
    ),
    Rule(
        "pace",
        "error",
        "Asks at least every 30 seconds.",
        "Poll once a second: a spot VM has 30 seconds from the first sight to the end.",
        pace,
    ),
    Rule(
        "crowding",
        "warning",
        "Asks no more than 5 times a second.",
        "Wait a second between polls: the real service answers 429 to more.",
        crowding,
    ),
    Rule(
        "version",
        "warning",
        "Asks for an api-version that shows every type of event.",
        "Use 2020-07-01: versions before 2017-11-01 never show Preempt.",
        version,
    ),
    Rule(
        "neighbour",
        "error",
        "Approves no event that does not hit its own VM.",
        "Look for your own name in Resources: a document shows the events of the whole set.",
        neighbour,
    ),
    Rule(
        "leader",
        "warning",
        "Approves an event of several VMs only as its leader.",
        "Let the first VM in Resources approve, when all are ready: it holds for all of them.",
        leader,
    ),
    Rule(
        "once",
        "warning",
        "Approves an event once.",
        "Remember which events you approved; it is harmless, but a sign of forgetting.",
        once,
    ),
    Rule(
        "understood",
        "error",
        "Approves in a form that the service understands.",
        'POST {"StartRequests":[{"EventId":"…"}]} with an id from the document.',
        understood,
    ),
    Rule(
        "started",
        "warning",
        "Does not approve what has started.",
        "Approve only events whose EventStatus is Scheduled.",
        started,
    ),
    Rule(
        "cancelled",
        "warning",
        "Does not approve what was cancelled.",
        "Read the document again before you approve: an event may be gone.",
        cancelled,
    ),
    Rule(
        "every-event",
        "error",
        "Handles every event of a document, not only the first.",
        "Go through all of Events.",
        every_event,
    ),
    Rule(
        "empty-not-before",
        "error",
        "Survives an empty NotBefore.",
        'Read NotBefore only while EventStatus is Scheduled: then it is "".',
        empty_not_before,
    ),
    Rule(
        "errors",
        "error",
        "Asks again after an error.",
        "Retry within seconds: an error is not an empty list, and notice may be 30 seconds.",
        after_errors,
    ),
    Rule(
        "empty-answer",
        "error",
        "Asks again after an empty answer.",
        "An answer without a document says nothing; ask again.",
        after_empty,
    ),
    Rule(
        "late-answer",
        "error",
        "Asks again after an answer that was late or never came.",
        "Give a request a timeout, and try again: the first may take two minutes.",
        after_silence,
    ),
    Rule(
        "incarnation",
        "error",
        "Goes on when incarnations are left out.",
        "Compare for another number, not for the next one.",
        after_jump,
    ),
    Rule(
        "comes-back",
        "error",
        "Goes on asking after an event of its own is over.",
        "Keep polling: return to service, and be ready for the next.",
        after_event,
    ),
    Rule(
        "alive",
        "error",
        "Does not end by itself.",
        "Catch what can go wrong: an agent that has died protects nobody.",
        alive,
    ),
)
