"""What to do next, as pure rules: a document gives records, records add up to events, events give steps. No clock.

`observe` says what a document changes, `next_steps` what to do about it. Both may be called at any time, any number of
times: what was done is in the events, so what is planned after a crash or a reboot goes on where the last one stopped.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple

from duenotice.agent.state import Events, HandlerRun, LedgerRecord, TrackedEvent, unfinished
from duenotice.wire.seen_documents import SeenEvent

RESERVE = 2.0
"""Seconds of the notice that handlers cannot use: they are for asking peers and for the approval (H07)."""
LOOK_AGAIN = 10.0
"""Seconds from the end of a handler's work until it may be looked at again."""


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
    """What the planner needs to know about a handler."""

    name: str
    required: bool = True
    timeout: float = 60.0
    holds: float = 900.0
    """For how many seconds the way back of handlers before it waits while it is stuck."""
    looks: bool = False
    """Whether it can tell that what it prepared was undone."""
    healthy: tuple[str, ...] | str = ()
    """A command, or an address, that must say that the machine is healthy before it puts back."""


def match_rule(rules: Sequence[HandlerRule], event: SeenEvent) -> HandlerRule | None:
    """The first rule that matches; with None the event is left alone."""
    return next((rule for rule in rules if rule.matches(event)), None)


class ApprovalPolicy(NamedTuple):
    """When to approve; `keep` of `group` must stay in service."""

    policy: Literal["never", "own", "all-ready"] = "never"
    group: tuple[str, ...] = ()
    keep: int = 0


class PeerAnswers(NamedTuple):
    """What the peers said about one revision of an event."""

    revision: str
    ready: frozenset[str] = frozenset()
    in_service: frozenset[str] = frozenset()


class World(NamedTuple):
    """All that the next steps depend on, in addition to the events."""

    me: str
    boot: str
    now: datetime
    rules: Sequence[HandlerRule] = ()
    handlers: Mapping[str, HandlerSpec] = {}
    approval: ApprovalPolicy = ApprovalPolicy()
    peer_answers: Mapping[str, PeerAnswers] = {}
    document_read: bool = True
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


def observe(document: Iterable[SeenEvent], events: Events, world: World, drill: bool = False) -> Iterator[LedgerRecord]:
    """What a document changes. Only events that hit this VM count (H01); one that no longer hits it is gone."""
    mine = {seen.event_id: seen for seen in document if seen.hits(world.me)}
    for event_id, seen in mine.items():
        event = events.get(event_id)
        if event is None:
            is_news = True
        elif event.is_closed:
            is_news = not seen.started  # a Scheduled event begins again
        else:
            is_news = not event.recovering and event.seen != seen  # what is put back now is put back to its end
        if is_news:
            yield LedgerRecord("seen", event_id, world.now, world.boot, seen=seen, drill=drill)
    for event_id, event in events.items():
        if event.drill == drill and not event.recovering and event_id not in mine:
            yield LedgerRecord("returning", event_id, world.now, world.boot, reason="gone")


def unprepared(events: Events, world: World) -> Iterator[LedgerRecord]:
    """The events for which it is too late now, and not all was done that a rule calls for: what, and why (S32)."""
    for event_id, event in events.items():
        if event.drill or event.recovering or event.unprepared or not world.document_read or event.seen.is_advice:
            continue
        if not event.seen.started and event.not_before is not None and world.now < event.not_before:
            continue
        if (rule := match_rule(world.rules, event.seen)) is not None and (missing := _missing(event, rule, world)):
            yield LedgerRecord("unprepared", event_id, world.now, world.boot, reason=missing)


def _missing(event: TrackedEvent, rule: HandlerRule, world: World) -> str:
    """What was not done for it, in words; empty when all that is required was done."""
    if event.not_before is None:
        return "it had started when it was first seen." if rule.handlers else ""
    reasons = []
    for name in rule.handlers:
        run = event.runs.get(name)
        if not world.handlers[name].required or (run and run.skipped and run.revision == event.revision):
            continue
        if run is None:
            reasons.append(f"there was no time for {name}")
        elif run.state == "preparing":
            reasons.append(f"{name} was not done in time")
        elif run.revision != event.revision:
            reasons.append(f"{name} was done for what the event was before" if run.revision else f"{name} was undone")
        elif run.state == "failed":
            reasons.append(f"{name} has failed: {run.reason.rstrip('.')}")
    return "; ".join(reasons) + "." if reasons else ""


def on_boot(events: Events, world: World) -> Iterator[LedgerRecord]:
    """What a new boot changes, whatever the document says: all that was begun before it is put back (H05, S15).

    Usually the event was the reboot. If not, and the event is still Scheduled, it begins again: a reboot may have
    undone what the handlers had done, so nothing done before it counts as ready. Where the kernel does not tell the
    boot, it is taken for the same one.
    """
    for event_id, event in events.items():
        is_older = any(run.boot and world.boot and run.boot != world.boot for run in event.runs.values())
        if is_older and not event.recovering:
            yield LedgerRecord("returning", event_id, world.now, world.boot, reason="rebooted")


def next_steps(events: Events, world: World) -> list[Step]:
    """Everything that may be done now. Each event is planned by itself; none waits for another event's handlers."""
    steps: list[Step] = []
    in_use = _handlers_in_use(events, world)
    for event_id, event in events.items():
        if event.recovering:
            steps += _recovery(event_id, event, in_use, world)
        elif world.document_read or event.drill:  # before the first document nothing is prepared or approved (S14)
            steps += _preparation(event_id, event, world)
    return steps


def _preparation(event_id: str, event: TrackedEvent, world: World) -> Iterator[Step]:
    """The handlers of its rule one after another, then the approval, if the peers agree and enough are in service."""
    rule = match_rule(world.rules, event.seen)
    if rule is None:
        return
    begin, pending = _prepare_from(event, rule), _pending_handler(event, rule, world)
    if begin is not None and begin > world.now:
        yield Wait(event_id, begin)
        return
    if pending is not None:
        if (left := notice_left(event, world.now)) > 0:
            yield Prepare(event_id, pending.name, min(pending.timeout, left))
        return
    yield from _looks(event_id, event, rule, world)
    if may_approve(event, world):
        policy = world.approval
        peers = tuple(vm for vm in event.seen.resources if vm != world.me) if policy.policy == "all-ready" else ()
        guarded = tuple(vm for vm in policy.group if not event.seen.hits(vm)) if policy.keep else ()
        answers = world.peer_answers.get(event_id, PeerAnswers(event.revision))
        all_ready = answers.revision == event.revision and answers.ready.issuperset(peers)
        if all_ready and sum(vm in answers.in_service for vm in guarded) >= policy.keep:
            yield Approve(event_id)
        else:
            yield AskPeers(event_id, peers, guarded)


def _looks(event_id: str, event: TrackedEvent, rule: HandlerRule, world: World) -> Iterator[Step]:
    """Once all is prepared, somebody may undo it before the event starts (S12).

    What is undone at once, each time, is prepared again only so often.
    """
    if notice_left(event, world.now) <= 0:
        return
    for name in rule.handlers:
        run = event.runs[name]
        is_due = run.state == "prepared" and (world.now - run.at).total_seconds() >= LOOK_AGAIN
        if world.handlers[name].looks and is_due and not run.skipped:
            yield LookAgain(event_id, name)


def _recovery(event_id: str, event: TrackedEvent, in_use: Set[str], world: World) -> Iterator[Step]:
    """What to recover, last prepared first (S15).

    A handler that is stuck delays the rest only if it is required, and not for ever: a machine whose last step cannot
    be put back would else stay drained as a whole.
    """
    for name, run in reversed(event.runs.items()):
        if run.state == "recovered" or name not in world.handlers or name in in_use:
            continue
        yield Recover(event_id, name)
        spec = world.handlers[name]
        if not run.is_stuck or (spec.required and not has_held_enough(run, spec, world)):
            return


def _handlers_in_use(events: Events, world: World) -> set[str]:
    """Those whose work some event needs, or that may still prepare for it: another event must not put that back."""
    in_use: set[str] = set()
    for event in events.values():
        if event.recovering:
            continue
        in_use.update(event.runs)
        rule = match_rule(world.rules, event.seen)
        if rule is not None and notice_left(event, world.now) > 0:
            begin = _prepare_from(event, rule)
            if begin is None or begin <= world.now:
                in_use.update(rule.handlers)
    return in_use


def _prepare_from(event: TrackedEvent, rule: HandlerRule) -> datetime | None:
    """When a rule with `within` begins; None when it begins at once, or has begun."""
    if rule.within is None or event.not_before is None or event.seen.started or event.runs or event.seen.is_advice:
        return None
    return event.not_before - timedelta(seconds=rule.within)


def notice_left(event: TrackedEvent, now: datetime) -> float:
    """Seconds for handlers (H07). An event that was Started when we first saw it gave no notice: nothing begins.

    Advice has no deadline.
    """
    if event.seen.is_advice:
        return math.inf
    if event.not_before is None:
        return 0.0
    return (event.not_before - now).total_seconds() - RESERVE


def _pending_handler(event: TrackedEvent, rule: HandlerRule, world: World) -> HandlerSpec | None:
    """The first handler of the rule that has not finished with this revision of the event (S12, S13)."""
    for name in rule.handlers:
        run = event.runs.get(name)
        if run is None or not run.is_settled or run.revision != event.revision:
            return world.handlers[name]
    return None


def has_held_enough(run: HandlerRun, spec: HandlerSpec, world: World) -> bool:
    """Whether it has been stuck for so long that the others do not wait for it any more."""
    return run.is_stuck and (world.now - run.at).total_seconds() >= spec.holds


def is_ready(event: TrackedEvent, world: World) -> bool:
    """Whether our own work for this revision is done (H04); also what we tell a peer that asks."""
    rule = match_rule(world.rules, event.seen)
    if rule is None or event.recovering or not (world.document_read or event.drill):
        return False
    if _pending_handler(event, rule, world) is not None:
        return False
    failed = any(world.handlers[name].required and event.runs[name].has_failed for name in rule.handlers)
    return rule.approve_after_failure or not failed


def is_in_service(events: Events) -> bool:
    """Whether everything is put back and no event is approved or Started; a peer's guard counts this."""
    return all(
        event.recovering or event.drill or not (event.seen.started or event.approved) for event in events.values()
    ) and not unfinished(events)


def may_approve(event: TrackedEvent, world: World) -> bool:
    """Never a drill, advice or a Started event, never twice, only as the leader (H03), only when ready (H04)."""
    seen = event.seen
    if event.drill or seen.is_advice or seen.status != "Scheduled" or event.approved == event.revision:
        return False
    return world.approval.policy != "never" and seen.leader == world.me and is_ready(event, world)
