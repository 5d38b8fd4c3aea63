"""Judges of what a client approves, and when; what it does besides cannot be seen from outside. Pure."""

from collections.abc import Callable
from functools import partial
from itertools import pairwise

from duenotice.testkit.overheard import Exchange
from duenotice.testkit.verdicts.evidence import Evidence, Life, Trial
from duenotice.testkit.verdicts.said import Said, said
from duenotice.testkit.verdicts.stopping import after, left_for

CROSSING_SECONDS = 0.25
"""An approval that was under way when the document said otherwise is nobody's fault."""

POLL_SECONDS = 2.0
"""Nor is one that comes before a client which polls once a second could know."""


def neighbour(evidence: Evidence) -> Said:
    """H01: to approve, and to end, are the acts that can be seen."""
    others = _told(evidence, lambda life: evidence.vm not in life.resources)
    wrong = (life for life in others if life.id in evidence.approved)
    words = [f"it approved {life.id}, which hits {_names(life.resources)}" for life in wrong]
    if event_id := left_for(evidence):
        return [*words, f"it ended when it read of {event_id}, which does not hit it"]
    return said(others, words)


def leader(evidence: Evidence) -> Said:
    """H03."""
    led = _told(evidence, lambda life: evidence.vm in life.resources[1:])
    wrong = (life for life in led if life.id in evidence.approved)
    return said(led, (f"it approved {life.id}, which {life.resources[0]} leads" for life in wrong))


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
    """C02: of approvals that were taken, while the event was only scheduled as far as the client knew."""
    counts = {
        event_id: len([one for one in approvals if one.status == 200 and not _read_started(evidence, one, event_id)])
        for event_id, approvals in evidence.approved.items()
    }
    return said(counts, (f"it approved {event_id} {count} times" for event_id, count in counts.items() if count > 1))


def understood(evidence: Evidence) -> Said:
    """C01, C03; a missing header, a fault, or an event that is gone is another rule's matter."""
    asked = [one for one in evidence.approvals if not evidence.fault_at(one.monotonic) and "metadata" in one.headers]
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
    """D02: an approval that crosses the cancelling is nobody's fault."""
    gone = _told(evidence, lambda life: life.cancelled and evidence.vm in life.resources)
    late = [
        life for life in gone if any(_is_too_late(evidence, life, one) for one in evidence.approved.get(life.id, []))
    ]
    return said(gone, (f"it approved {life.id}, which had been cancelled" for life in late))


def every_event(evidence: Evidence) -> Said:
    """H01: each outstanding event, not only the first."""
    tried = [trial for trial in evidence.notes.trials if trial.rule == "every-event" and _begun(evidence, trial)]
    left = [event_id for trial in tried for event_id in trial.event_ids if not _in_time(evidence, trial, event_id)]
    return said(tried, (f"it approved another event, but not {event_id} beside it" for event_id in left))


def handles(rule: str) -> Callable[[Evidence], Said]:
    """A judge: does it ask again after this odd thing, and handle the next event as it did before?"""
    return partial(_handles, rule)


def _handles(rule: str, evidence: Evidence) -> Said:
    asks = after(rule)(evidence)
    trials = [trial for trial in evidence.notes.trials if _about(evidence, trial) == rule]
    missed = [event_id for trial in trials for event_id in _missed(evidence, trial)]
    if asks is None and not any(_is_shown(evidence, trial) for trial in trials):
        return None
    return [*(asks or []), *(f"it read of {event_id}, and did not approve it as it did others" for event_id in missed)]


def _about(evidence: Evidence, trial: Trial) -> str:
    """The rule that a trial is about; a client may meet a gap of incarnations before we make one."""
    shown = [one for one in evidence.shown if one.poll.monotonic < trial.until]
    numbers = [one.document.incarnation for one in shown]
    gap = any(after not in (before, before + 1) for before, after in pairwise(numbers))
    return "incarnation" if gap and trial.rule == "comes-back" else trial.rule


def _missed(evidence: Evidence, trial: Trial) -> list[str]:
    """Events of a trial that it did not approve although it had approved those of the trial before."""
    trials = evidence.notes.trials
    before = trials[: trials.index(trial)]
    if not before or not _is_shown(evidence, trial) or not _is_handled(evidence, before[-1]):
        return []
    return [event_id for event_id in trial.event_ids if not _in_time(evidence, trial, event_id)]


def _is_handled(evidence: Evidence, trial: Trial) -> bool:
    return all(event_id in evidence.approved for event_id in trial.event_ids)


def _is_shown(evidence: Evidence, trial: Trial) -> bool:
    return all(
        any(poll.monotonic < trial.until and not event.started for poll, event in evidence.seen.get(event_id, []))
        for event_id in trial.event_ids
    )


def _begun(evidence: Evidence, trial: Trial) -> bool:
    return _is_shown(evidence, trial) and any(event_id in evidence.approved for event_id in trial.event_ids)


def _in_time(evidence: Evidence, trial: Trial, event_id: str) -> bool:
    return any(one.monotonic <= trial.until for one in evidence.approved.get(event_id, []))


def _told(evidence: Evidence, which: Callable[[Life], bool]) -> list[Life]:
    """Events that the client was shown, if it is one that approves at all."""
    return [life for life in evidence.lives.values() if evidence.approvals and life.id in evidence.seen and which(life)]


def _read_started(evidence: Evidence, approval: Exchange, event_id: str) -> bool:
    shown = evidence.seen.get(event_id, [])
    return any(event.started for poll, event in shown if (poll.answered or poll.monotonic) < approval.monotonic)


def _is_gone(evidence: Evidence, approval: Exchange) -> bool:
    approved = (evidence.lives.get(event_id) for event_id, ones in evidence.approved.items() if approval in ones)
    answered = approval.answered or approval.monotonic
    return any(life is not None and life.ended is not None and life.ended <= answered for life in approved)


def _is_too_late(evidence: Evidence, life: Life, approval: Exchange) -> bool:
    if life.ended is None or approval.monotonic < life.ended:
        return False
    answers = (shown.poll.answered for shown in evidence.shown if shown.poll.monotonic >= life.ended)
    has_read = any(answered is not None and approval.monotonic - answered > CROSSING_SECONDS for answered in answers)
    return has_read or approval.monotonic - life.ended > POLL_SECONDS


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(names[:3])
