"""The checks behind the rules: what a client asks, what it approves and when, and why it stops. Pure.

A check gives nothing (None) when the run had nothing to judge, and else its complaints. Other work of a client cannot
be seen from outside. Of why it stopped asking, only the last unusual thing that it was given is taken as the reason.
"""

import re
import signal
from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise

from duenotice.testkit.request_log import Exchange
from duenotice.testkit.verdicts.evidence import (
    PATH_OF_2016,
    PREVIEW,
    REMOVALS,
    Duty,
    EventTimes,
    Evidence,
    ShownDocument,
    asks_as_in_2016,
    document_of,
    needs_header,
    read_at,
)
from duenotice.wire.api_versions import API_VERSIONS, BY_NAME, TYPE_NAMES
from duenotice.wire.seen_documents import SeenDocument

Said = list[str] | None
"""None when the run gave the check nothing to judge."""


def counted(count: int, what: str) -> str:
    """`1 rule`, `2 rules`."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def said(tried: Iterable[object], words: Iterable[str]) -> Said:
    """The complaints, each once, if anything was tried."""
    return list(dict.fromkeys(words)) if any(True for _ in tried) else None


METADATA_ADDRESS = "169.254.169.254"
BURST_SECONDS = 2

OLDEST_FIT = "2017-11-01"
"""Older api-versions never show Preempt (B10)."""

_DATE = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")


def asks(evidence: Evidence) -> Said:
    """H01: a client that never asks is never told."""
    if evidence.polls:
        return []
    others = "; it asked for other things only" if evidence.exchanges else ""
    ended = "".join(f"; it ended with code {one.code}" for one in evidence.notes.endings[:1])
    return [f"nothing asked {METADATA_ADDRESS} for /metadata/scheduledevents{others}{ended}"]


def header(evidence: Evidence) -> Said:
    """A03: the preview needs none."""
    asked = [exchange for exchange in evidence.exchanges if exchange.method and needs_header(exchange)]
    without = [one for one in asked if one.headers.get("metadata", "").lower() != "true"]
    return said(asked, (f"{one.method} #{one.number} had no header" for one in without))


def pace(evidence: Evidence) -> Said:
    """D06: in real seconds, whatever the clock."""
    gaps = {poll.number: evidence.silence_after(poll) for poll in evidence.polls}
    longest = max(gaps, key=lambda number: gaps[number], default=0)
    if gaps and gaps[longest] >= evidence.tempo.patience:
        return [f"it was silent for {gaps[longest]:.0f} s after #{longest}"]
    return [] if len(evidence.polls) > 1 else None


def crowding(evidence: Evidence) -> Said:
    """A08: a burst is let through, as the real service does."""
    times = [poll.monotonic for poll in evidence.polls]
    most = round(evidence.tempo.most_a_second * BURST_SECONDS)
    crowded = any(after - before < BURST_SECONDS for before, after in zip(times, times[most:], strict=False))
    return said(times[1:], [f"more than {evidence.tempo.most_a_second:g} polls a second"] if crowded else [])


def version(evidence: Evidence) -> Said:
    """A04, B10: versions that it tries during a fault, or before it finds one that works, do not count."""
    requests = [one for one in (*evidence.polls, *evidence.approvals) if evidence.is_right(one)]
    asked = {PATH_OF_2016 if asks_as_in_2016(one) else one.api_version for one in requests}
    known = asked & {PATH_OF_2016, *BY_NAME}
    return said(asked, (wrong for one in sorted(known or asked) if (wrong := _wrong_version(one))))


def _wrong_version(name: str) -> str:
    if not name:
        return "it asks without an api-version"
    if name == PATH_OF_2016:
        return f"it asks {PATH_OF_2016}, the path of 2016, which is answered like api-version {PREVIEW}"
    if name in BY_NAME:
        return f"it asks for api-version {name}" if name < OLDEST_FIT else ""
    if _DATE.fullmatch(name) and name > API_VERSIONS[-1].name:
        return f"it asks for api-version {name}, which is newer than all that are known"
    return f"it asks for api-version {name[:20]}, which does not exist"


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
    """A check: does the client ask again after this unusual thing?"""
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


CROSSING_SECONDS = 0.25
"""An approval that was already sent when the document changed is not a mistake."""


def neighbour(evidence: Evidence) -> Said:
    """H01: only approving and ending can be seen from outside."""
    others = [life for life in evidence.told if is_of_others(evidence, life)]
    wrong = (life for life in others if life.id in evidence.approved)
    words = [f"it approved {_called(life)}, which hits {_names(life.resources)}" for life in wrong]
    left = left_for(evidence)
    if not evidence.approvals and not farewells(evidence):
        others = []  # it does nothing that could be seen, for its own events either
    return said([*others, *left], [*words, *left])


def leader(evidence: Evidence) -> Said:
    """H03: an event that another VM leads is for that VM to approve."""
    led = _told(evidence, partial(is_led_by_another, evidence))
    wrong = (life for life in led if life.id in evidence.approved)
    return said(led, (f"it approved {_called(life)}, which {life.resources[0]} leads" for life in wrong))


def is_of_others(evidence: Evidence, life: EventTimes) -> bool:
    """Whether an event does not hit the client's VM."""
    return evidence.vm not in life.resources


def is_led_by_another(evidence: Evidence, life: EventTimes) -> bool:
    """Whether an event hits it, and another VM first."""
    return evidence.vm in life.resources[1:]


def peers(evidence: Evidence) -> Said:
    """H04: only where the others could say that they are ready."""
    ready = evidence.notes.ready
    shared = _told(evidence, lambda life: life.id in ready)
    early = (life for life in shared for one in evidence.approved.get(life.id, []) if one.monotonic < ready[life.id])
    return said(shared, (f"it approved {life.id} before {_names(life.resources[1:])} was ready" for life in early))


def work(evidence: Evidence) -> Said:
    """H04: only where the client's work says that it is done."""
    done = evidence.notes.work
    if done is None:
        return None
    wrong = (
        (approval, event_id)
        for event_id, approvals in evidence.approved.items()
        for approval in approvals
        if event_id not in done.get(approval.number, "").upper()
    )
    return said(evidence.approved, (f"it approved {event_id} without its work being done" for _, event_id in wrong))


def once(evidence: Evidence) -> Said:
    """C02: of accepted approvals; a retry after an error is right, and events that are gone belong to another rule."""
    counts = {
        event_id: len([one for one in taken if not _is_over(evidence, event_id, one)])
        for event_id, taken in evidence.taken.items()
    }
    return said(counts, (f"it approved {event_id} {count} times" for event_id, count in counts.items() if count > 1))


def understood(evidence: Evidence) -> Said:
    """C01, C03; a missing header, a fault, or an event that is gone belongs to another rule."""
    asked = [
        one
        for one in evidence.approvals
        if evidence.is_right(one) and ("metadata" in one.headers or not needs_header(one))
    ]
    refused = [one for one in asked if 400 <= one.status < 500 and one.status != 429 and not _is_gone(evidence, one)]
    return said(asked, (f"approval #{one.number} was refused with {one.status}" for one in refused))


def started(evidence: Evidence) -> Said:
    """C02, H04: what the client has read counts, not what it could not know."""
    late = [
        event_id
        for event_id, approvals in evidence.approved.items()
        for one in approvals
        if _read_started(evidence, one, event_id)
    ]
    seen = [event_id for event_id, shown in evidence.seen.items() if any(event.started for _, event in shown)]
    tried = seen if evidence.approvals else []
    return said(tried, (f"it approved {event_id} although it had read that it was Started" for event_id in late))


def cancelled(evidence: Evidence) -> Said:
    """D02: an approval that was sent before the client could know of the cancel is not a mistake."""
    gone = _told(evidence, lambda life: life.cancelled and evidence.vm in life.resources)
    late = [
        life for life in gone if any(_is_too_late(evidence, life, one) for one in evidence.approved.get(life.id, []))
    ]
    return said(gone, (f"it approved {life.id}, which had been cancelled" for life in late))


def every_event(evidence: Evidence) -> Said:
    """H01: each outstanding event, not only the first."""
    duties = [duty for duty in evidence.notes.duties if duty.rule == "every-event"]
    tried = [duty for duty in duties if _begun(evidence, duty) or _missed(evidence, duty)]
    left = [event_id for duty in tried for event_id in duty.event_ids if not _in_time(evidence, duty, event_id)]
    return said(tried, (f"it did not approve {event_id}, one of two events at once" for event_id in left))


def comes_back(evidence: Evidence) -> Said:
    """H05: it asks when an event of its own is over, and handles the next one as it did the first."""
    handled = _handles("comes-back", evidence)
    mine = [] if is_always_slow(evidence) else [evidence.lives[event_id] for event_id in evidence.own]
    away = [life for life in mine if _stays_away(evidence, life)]
    words = [f"it did not ask when {life.id} was over" for life in away]
    return None if handled is None and not words else [*(handled or []), *words]


def handles(rule: str) -> Callable[[Evidence], Said]:
    """A check: does it ask again after this unusual thing, and handle the next event as before?"""
    return partial(_handles, rule)


def _handles(rule: str, evidence: Evidence) -> Said:
    asks = after(rule)(evidence)
    duties = [duty for duty in evidence.notes.duties if _about(evidence, duty) == rule]
    missed = [event_id for duty in duties for event_id in _missed(evidence, duty)]
    if asks is None and not any(_is_shown(evidence, duty) for duty in duties):
        return None
    return [*(asks or []), *(f"it read of {event_id}, and did not approve it as it did others" for event_id in missed)]


def _stays_away(evidence: Evidence, life: EventTimes) -> bool:
    """Whether it was there for an event, was silent when that was over, and did not end meanwhile."""
    if life.ended is None:
        return False
    last_shown, _ = evidence.seen[life.id][-1]
    run = evidence.run_of(last_shown)
    last = [ask for ask in evidence.asks if evidence.run_of(ask) == run][-1]
    return last.monotonic < life.ended and evidence.silence_after(last) >= evidence.tempo.patience


def _about(evidence: Evidence, duty: Duty) -> str:
    """The rule that a duty is about; a client may meet a gap of incarnations before we make one."""
    shown = [one for one in evidence.shown if one.poll.monotonic < duty.until]
    steps = [(one.document.incarnation, two.document.incarnation) for one, two in pairwise(shown) if one.run == two.run]
    gap = any(after not in (before, before + 1) for before, after in steps)
    return "incarnation" if gap and duty.rule == "comes-back" else duty.rule


def _missed(evidence: Evidence, duty: Duty) -> list[str]:
    """Events of a duty that it did not approve although it had approved those of the duty before."""
    alike = [one for one in evidence.notes.duties if evidence.is_approved_kind(one)]
    before = alike[: alike.index(duty)] if duty in alike else []
    if not before or not _is_shown(evidence, duty) or not _is_handled(evidence, before[-1]):
        return []
    return [event_id for event_id in duty.event_ids if not _in_time(evidence, duty, event_id)]


def _is_handled(evidence: Evidence, duty: Duty) -> bool:
    return all(event_id in evidence.taken for event_id in duty.event_ids)


def _is_shown(evidence: Evidence, duty: Duty) -> bool:
    return all(
        any(poll.monotonic < duty.until and not event.started for poll, event in evidence.seen.get(event_id, []))
        for event_id in duty.event_ids
    )


def _begun(evidence: Evidence, duty: Duty) -> bool:
    return _is_shown(evidence, duty) and any(event_id in evidence.taken for event_id in duty.event_ids)


def _in_time(evidence: Evidence, duty: Duty, event_id: str) -> bool:
    return any(one.monotonic <= duty.until for one in evidence.taken.get(event_id, []))


def _told(evidence: Evidence, which: Callable[[EventTimes], bool]) -> list[EventTimes]:
    """Events that the client was shown, if it is one that approves at all."""
    return [life for life in evidence.told if evidence.approvals and which(life)]


def _read_started(evidence: Evidence, approval: Exchange, event_id: str) -> bool:
    shown = evidence.seen.get(event_id, [])
    return any(event.started for poll, event in shown if read_at(poll) < approval.monotonic)


def _is_gone(evidence: Evidence, approval: Exchange) -> bool:
    approved = (event_id for event_id, ones in evidence.approved.items() if approval in ones)
    return any(_is_over(evidence, event_id, approval) for event_id in approved)


def _is_over(evidence: Evidence, event_id: str, approval: Exchange) -> bool:
    """Whether an event was gone when its approval was answered."""
    life = evidence.lives.get(event_id)
    return life is not None and life.ended is not None and life.ended <= read_at(approval)


def _is_too_late(evidence: Evidence, life: EventTimes, approval: Exchange) -> bool:
    if life.ended is None:
        return False
    polls = (shown.poll for shown in evidence.shown if shown.poll.monotonic >= life.ended)
    has_read = any(approval.monotonic - read_at(poll) > CROSSING_SECONDS for poll in polls)
    return has_read or approval.monotonic - life.ended > evidence.tempo.unaware


def _called(life: EventTimes) -> str:
    return f"{TYPE_NAMES[life.type]} {life.id}"


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(names[:3])
