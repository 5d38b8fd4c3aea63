"""Judges what a client approves, and when; its other work cannot be seen from outside. Pure."""

from collections.abc import Callable
from functools import partial
from itertools import pairwise

from duenotice.testkit.overheard import Exchange
from duenotice.testkit.verdicts.evidence import Duty, EventTimes, Evidence, needs_header, read_at
from duenotice.testkit.verdicts.said import Said, said
from duenotice.testkit.verdicts.stopping import after, farewells, is_always_slow, left_for
from duenotice.wire.api_versions import TYPE_NAMES

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
    """A judge: does it ask again after this unusual thing, and handle the next event as before?"""
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
