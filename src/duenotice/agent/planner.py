"""What to do next, as pure rules: a document gives records, records give cases, and cases give steps. No I/O, no clock.

`sight` says what a document changes, `plan` says what to do about it. Both may be called at any time, any number of
times: what was done is in the cases, so a plan made after a crash or a reboot goes on where the last one stopped.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple

from duenotice.agent.state import Case, Cases, LedgerRecord, Work, unfinished
from duenotice.wire.seen_documents import SeenEvent


class HandlerRule(NamedTuple):
    """One `[[rules]]` table; an empty field matches everything, but advice has to be named. Spans are in seconds."""

    handlers: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    shorter_than: float | None = None
    longer_than: float | None = None
    within: float | None = None
    approve_after_failure: bool = False

    def matches(self, event: SeenEvent) -> bool:
        is_meant = event.type in self.types or (not self.types and not event.is_advice)
        return (
            is_meant
            and (not self.sources or event.source in self.sources)
            and (not self.resources or any(fnmatchcase(vm, each) for vm in event.resources for each in self.resources))
            and self._fits(event.duration)
        )

    def _fits(self, duration: int) -> bool:
        """An unknown duration (-1) is neither shorter nor longer than anything."""
        if duration < 0:
            return self.shorter_than is None and self.longer_than is None
        shorter = self.shorter_than is None or duration < self.shorter_than
        return shorter and (self.longer_than is None or duration > self.longer_than)


class HandlerSpec(NamedTuple):
    """What the plan needs to know about a handler."""

    name: str
    required: bool = True
    timeout: float = 60.0
    holds: float = 900.0
    """For how many seconds the way back of handlers before it waits while it is stuck."""
    looks: bool = False
    """Whether it can tell that what it prepared was undone."""
    healthy: tuple[str, ...] | str = ()
    """A command, or an address, that must say that the machine is healthy before it puts back."""


def rule_for(rules: Sequence[HandlerRule], event: SeenEvent) -> HandlerRule | None:
    """The first rule that matches; with None the event is left alone."""
    return next((rule for rule in rules if rule.matches(event)), None)


RESERVE = 2.0
"""Seconds of the notice that handlers cannot use: they are for asking peers and for the approval (H07)."""


LOOK_AGAIN = 10.0
"""Seconds from the end of a handler's work until it may be looked at again."""


class ApprovalPolicy(NamedTuple):
    """When to approve; `keep` of `group` must stay in service."""

    policy: Literal["never", "own", "all-ready"] = "never"
    group: tuple[str, ...] = ()
    keep: int = 0


class PeerNews(NamedTuple):
    """What the peers said about one event's content."""

    content: str
    ready: frozenset[str] = frozenset()
    in_service: frozenset[str] = frozenset()


class PlanView(NamedTuple):
    """All that a plan depends on, in addition to the cases."""

    me: str
    boot: str
    now: datetime
    rules: Sequence[HandlerRule] = ()
    handlers: Mapping[str, HandlerSpec] = {}
    approval: ApprovalPolicy = ApprovalPolicy()
    news: Mapping[str, PeerNews] = {}
    heard: bool = True
    """Whether a document was read since the agent started: before that nothing is prepared or approved (S14)."""


class Prepare(NamedTuple):
    """Let a handler prepare, in at most this many seconds from when it begins: it may wait for another event's work."""

    event_id: str
    handler: str
    seconds: float


class AskPeers(NamedTuple):
    """Ask some VMs whether they are ready, and some whether they are in service."""

    event_id: str
    ready: tuple[str, ...]
    in_service: tuple[str, ...]


class Approve(NamedTuple):
    """Tell the service that the event may start."""

    event_id: str


class LookAgain(NamedTuple):
    """Ask a handler whether what it prepared is still so."""

    event_id: str
    handler: str


class Recover(NamedTuple):
    """Let a handler put back what it changed."""

    event_id: str
    handler: str


class Wait(NamedTuple):
    """Plan again at that time."""

    event_id: str
    until: datetime


Step = Prepare | LookAgain | AskPeers | Approve | Recover | Wait


def sight(events: Iterable[SeenEvent], cases: Cases, view: PlanView, drill: bool = False) -> Iterator[LedgerRecord]:
    """What a document changes. Only events that hit this VM count (H01); one that no longer hits it is gone."""
    mine = {event.event_id: event for event in events if event.hits(view.me)}
    for event in mine.values():
        if _is_news(event, cases.get(event.event_id)):
            yield LedgerRecord("seen", event.event_id, view.now, view.boot, seen=event, drill=drill)
    for event_id, case in cases.items():
        if case.drill == drill and not case.returning and event_id not in mine:
            yield _turn(event_id, "gone", view)


def _is_news(event: SeenEvent, case: Case | None) -> bool:
    """A case that is recovering ignores news; once it is closed, a Scheduled event opens a new case."""
    if case is None:
        return True
    return not event.started if case.is_closed else not case.returning and case.event != event


def unprepared(cases: Cases, view: PlanView) -> Iterator[LedgerRecord]:
    """The events for which it is too late now, and not all was done that a rule calls for: what, and why (S32)."""
    for event_id, case in cases.items():
        if case.drill or case.returning or case.unprepared or not view.heard or case.event.is_advice:
            continue
        if not case.event.started and case.not_before is not None and view.now < case.not_before:
            continue
        if (rule := rule_for(view.rules, case.event)) is not None and (missing := _missing(case, rule, view)):
            yield LedgerRecord("unprepared", event_id, view.now, view.boot, reason=missing)


def _missing(case: Case, rule: HandlerRule, view: PlanView) -> str:
    """What was not done for it, in words; empty when all that is required was done."""
    if case.not_before is None:
        return "it had started when it was first seen." if rule.handlers else ""
    reasons = []
    for name in rule.handlers:
        work = case.works.get(name)
        if not view.handlers[name].required or (work and work.skipped and work.content == case.content):
            continue
        if work is None:
            reasons.append(f"there was no time for {name}")
        elif work.state == "preparing":
            reasons.append(f"{name} was not done in time")
        elif work.content != case.content:
            reasons.append(f"{name} was done for what the event was before" if work.content else f"{name} was undone")
        elif work.state == "failed":
            reasons.append(f"{name} has failed: {work.reason.rstrip('.')}")
    return "; ".join(reasons) + "." if reasons else ""


def woken(cases: Cases, view: PlanView) -> Iterator[LedgerRecord]:
    """What a new boot changes, whatever the document says: all that was begun before it is put back (H05, S15).

    Usually the event was the reboot. If not, and the event is still Scheduled, it becomes a new case: a reboot may have
    undone what the handlers had done, so nothing done before it counts as ready.
    """
    for event_id, case in cases.items():
        if not case.returning and any(_is_of_another_boot(work, view) for work in case.works.values()):
            yield _turn(event_id, "rebooted", view)


def _turn(event_id: str, reason: str, view: PlanView) -> LedgerRecord:
    return LedgerRecord("returning", event_id, view.now, view.boot, reason=reason)


def _is_of_another_boot(work: Work, view: PlanView) -> bool:
    return (
        bool(work.boot and view.boot) and work.boot != view.boot
    )  # the kernel does not tell the boot: assume the same one


def plan(cases: Cases, view: PlanView) -> list[Step]:
    """Everything that may be done now. Each event is planned by itself; none waits for another event's handlers."""
    steps: list[Step] = []
    held = _held(cases, view)
    for event_id, case in cases.items():
        if case.returning:
            steps += _way_back(event_id, case, held, view)
        elif view.heard or case.drill:
            steps += _way_out(event_id, case, view)
    return steps


def _way_out(event_id: str, case: Case, view: PlanView) -> Iterator[Step]:
    rule = rule_for(view.rules, case.event)
    if rule is None:
        return
    if (begin := _not_yet(case, rule, view)) is not None:
        yield Wait(event_id, begin)
    elif (spec := _next_handler(case, rule, view)) is None:
        yield from _looks(event_id, case, rule, view)
        yield from _approval(event_id, case, view)
    elif (left := notice_left(case, view.now)) > 0:
        yield Prepare(event_id, spec.name, min(spec.timeout, left))


def _not_yet(case: Case, rule: HandlerRule, view: PlanView) -> datetime | None:
    """When to begin, if the rule wants to begin later."""
    if rule.within is None or case.not_before is None or case.event.started or case.works or case.event.is_advice:
        return None
    begin = case.not_before - timedelta(seconds=rule.within)
    return begin if begin > view.now else None


def notice_left(case: Case, now: datetime) -> float:
    """Seconds for handlers (H07). An event that was Started when we first saw it gave no notice: nothing begins.

    Advice has no deadline.
    """
    if case.event.is_advice:
        return math.inf
    if case.not_before is None:
        return 0.0
    return (case.not_before - now).total_seconds() - RESERVE


def _next_handler(case: Case, rule: HandlerRule, view: PlanView) -> HandlerSpec | None:
    """The first handler of the rule that has not finished with this content (S12, S13)."""
    specs = (view.handlers[name] for name in rule.handlers)
    return next((spec for spec in specs if not _is_through(case.works.get(spec.name), case)), None)


def _looks(event_id: str, case: Case, rule: HandlerRule, view: PlanView) -> Iterator[Step]:
    """Once all is prepared, somebody may undo it before the event starts (S12).

    What is undone at once, each time, is prepared again only so often.
    """
    if notice_left(case, view.now) <= 0:
        return
    for name in rule.handlers:
        work = case.works[name]
        is_due = work.state == "prepared" and (view.now - work.at).total_seconds() >= LOOK_AGAIN
        if view.handlers[name].looks and is_due and not work.skipped:
            yield LookAgain(event_id, name)


def _is_through(work: Work | None, case: Case) -> bool:
    return work is not None and work.is_settled and work.content == case.content


def is_ready(case: Case, view: PlanView) -> bool:
    """Whether our own work for this content is done (H04); also what we tell a peer that asks."""
    rule = rule_for(view.rules, case.event)
    if not (view.heard or case.drill) or rule is None or case.returning or _next_handler(case, rule, view) is not None:
        return False
    failed = any(view.handlers[name].required and case.works[name].has_failed for name in rule.handlers)
    return rule.approve_after_failure or not failed


def is_in_service(cases: Cases) -> bool:
    """Whether everything is put back and no event is approved or Started; a peer's guard counts this."""
    return all(
        case.returning or case.drill or not (case.event.started or case.approved) for case in cases.values()
    ) and not unfinished(cases)


def may_approve(case: Case, view: PlanView) -> bool:
    """Never a drill, advice or a Started event, never twice, only as the leader (H03), only when ready (H04)."""
    if case.drill or case.event.is_advice or case.event.status != "Scheduled" or case.approved == case.content:
        return False
    return view.approval.policy != "never" and case.event.leader == view.me and is_ready(case, view)


def _approval(event_id: str, case: Case, view: PlanView) -> Iterator[Step]:
    """Approve, if the peers agree and enough of them are in service."""
    event, approval = case.event, view.approval
    if not may_approve(case, view):
        return
    peers = tuple(vm for vm in event.resources if vm != view.me) if approval.policy == "all-ready" else ()
    guarded = tuple(vm for vm in approval.group if not event.hits(vm)) if approval.keep else ()
    news = view.news.get(event_id, PeerNews(case.content))
    if _peers_agree(news, case, peers) and _enough_left(news, guarded, approval):
        yield Approve(event_id)
    else:
        yield AskPeers(event_id, peers, guarded)


def _peers_agree(news: PeerNews, case: Case, peers: Sequence[str]) -> bool:
    return news.content == case.content and news.ready.issuperset(peers)


def _enough_left(news: PeerNews, guarded: Sequence[str], approval: ApprovalPolicy) -> bool:
    return sum(vm in news.in_service for vm in guarded) >= approval.keep


def _way_back(event_id: str, case: Case, held: Set[str], view: PlanView) -> Iterator[Step]:
    """What to recover, last prepared first (S15).

    A handler that is stuck delays the rest only if it is required, and not for ever: a machine whose last step cannot
    be put back would else stay drained as a whole.
    """
    for name, work in reversed(case.works.items()):
        if work.state == "recovered" or name not in view.handlers or name in held:
            continue
        yield Recover(event_id, name)
        if not work.is_stuck or (view.handlers[name].required and not has_held_enough(work, view.handlers[name], view)):
            return


def has_held_enough(work: Work, spec: HandlerSpec, view: PlanView) -> bool:
    """Whether it has been stuck for so long that the others do not wait for it any more."""
    return work.is_stuck and (view.now - work.at).total_seconds() >= spec.holds


def _held(cases: Cases, view: PlanView) -> set[str]:
    """The handlers whose work some event still needs: another event must not put it back."""
    return {name for case in cases.values() if not case.returning for name in (*case.works, *_wanted(case, view))}


def _wanted(case: Case, view: PlanView) -> tuple[str, ...]:
    """The handlers that may still prepare for it."""
    rule = rule_for(view.rules, case.event)
    if rule is None or _not_yet(case, rule, view) is not None or notice_left(case, view.now) <= 0:
        return ()
    return rule.handlers
