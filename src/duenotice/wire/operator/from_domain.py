"""The answers of the operator's API, each made from its domain value; the only place where that happens."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

import msgspec
from msgspec import structs

from duenotice.clock import Instant, later, seconds
from duenotice.domain import event as e
from duenotice.domain import fleet as f
from duenotice.domain import plan as m
from duenotice.domain import records as t
from duenotice.domain import subscription as u
from duenotice.domain import token as k
from duenotice.domain.failure import Failure
from duenotice.domain.fleet import scope_of
from duenotice.domain.rules import preview
from duenotice.domain.rules.maintenance import reason_of, waits_until
from duenotice.domain.token import session_id
from duenotice.wire.api_versions import SOURCE_NAMES, TYPE_NAMES
from duenotice.wire.operator.events import Event, Life
from duenotice.wire.operator.fleet import EventsPolicy, Group, HealthReport, Host, Site, Vm, VmFailure, VmWithEvents
from duenotice.wire.operator.maintenances import Maintenance, PlannedStep, Step
from duenotice.wire.operator.records import Details, Record
from duenotice.wire.operator.service import NewToken, Token, unpacked
from duenotice.wire.operator.subscriptions import DeadLetter, NewSubscription, Subscription, SubscriptionWithMessages
from duenotice.wire.operator.tables import EventRow, VmRow
from duenotice.wire.operator.words import QUIET_ACTIONS

S = TypeVar("S", bound=msgspec.Struct)

MOST_CATEGORIES = 10
"""What VMs report of one host; there may be hundreds."""
_A_MOMENT = timedelta(seconds=2)
"""How far the two faces of time may differ without a message."""


def whole_second(moment: datetime) -> datetime:
    """A moment as answers tell it: nobody needs fractions of a second."""
    return moment.replace(microsecond=0)


def _maybe(moment: datetime | None) -> datetime | None:
    return None if moment is None else whole_second(moment)


def _with(base: msgspec.Struct, kind: type[S], **more: object) -> S:
    """The fields of `base`, and more; if a field is in both, `more` counts."""
    return kind(**(msgspec.structs.asdict(base) | more))


MOST_AWAITED = 20
"""Scopes that are named."""


def event(event: e.Event, now: Instant | None = None, awaited: Sequence[str] = ()) -> Event:
    """One event; give `now` for a live event, because time may have stood still (S25)."""
    return Event(
        id=event.id,
        type=TYPE_NAMES[event.type],
        phase=event.phase.value,
        scope=event.scope,
        resources=event.resources,
        update_domain=event.update_domain,
        cause=event.cause.value,
        source=SOURCE_NAMES[event.source],
        description=event.description,
        duration=event.duration,
        not_before=whole_second(event.not_before),
        approved_by=event.approved_by or None,
        started_at=_maybe(event.started_at),
        ends_at=_ends_at(event, now),
        consent=event.consent.value,
        awaited=tuple(awaited[:MOST_AWAITED]),
        awaited_in_all=len(awaited),
    )


def _ends_at(event: e.Event, now: Instant | None) -> datetime | None:
    """When Started will be over, if that is known."""
    if event.impact_ends is None:
        return None
    ends = later(event.not_before, timedelta(microseconds=event.impact_ends - event.notice_ends))
    ends_from_now = ends if now is None else now.after(event.impact_ends - now.steady).at
    return whole_second(ends if abs(ends_from_now - ends) <= _A_MOMENT else ends_from_now)


def life(
    event: Event,
    *,
    raised_at: datetime | None,
    approved_at: datetime | None,
    approved_by: str,
    ended_at: datetime | None,
    outcome: str,
    reason: str,
    state: str,
    maintenance: str | None,
) -> Life:
    """An event with its moments; `approved_by` is who did it by name, if that is known."""
    return _with(
        event,
        Life,
        raised_at=_maybe(raised_at),
        approved_at=_maybe(approved_at),
        approved_by=approved_by or event.approved_by,
        ended_at=_maybe(ended_at),
        outcome=outcome or None,
        reason=reason,
        state=state,
        maintenance=maintenance,
    )


def is_quiet(record: t.Record) -> bool:
    """Whether a record is about the service itself, so that it is shown only when it is asked for by its action.

    That somebody has set another speed is shown: a mark of the service's own has nobody's name.
    """
    change = record.transition
    by_somebody = record.actor.startswith("token/") and isinstance(change, t.ClockMarked) and change.mark.speed > 0
    return action_of(record) in QUIET_ACTIONS and not by_somebody


def event_row(life: Life, *, group: str | None, host: str | None) -> EventRow:
    """An event with its moments and what it belongs to."""
    return _with(life, EventRow, group=group, host=host)


def vm_row(vm: Vm, last_seen: datetime | None, next_event: Event | None) -> VmRow:
    """A VM, when it last asked, and what comes next."""
    return _with(vm, VmRow, last_seen=_maybe(last_seen), next_event=next_event)


def events_policy(policy: f.EventsPolicy) -> EventsPolicy | None:
    """What an owner says about events; None when that is nothing."""
    return None if policy == f.SAYS_NOTHING else EventsPolicy(*msgspec.structs.astuple(policy))


def _failure(failure: Failure) -> VmFailure:
    event = failure.event
    return VmFailure(
        event.id, TYPE_NAMES[event.type], whole_second(failure.failed_at), failure.reason, event.maintenance
    )


def vm(vm: f.Vm, listens: bool, state: str, failure: Failure | None) -> Vm:
    """As operators read it; all but itself is of the whole service, so the caller has looked it up."""
    return Vm(
        name=vm.name,
        state=state,
        address=vm.address,
        scope=scope_of(vm),
        listens=listens,
        group=vm.group,
        placement_group=vm.placed_in,
        update_domain=vm.update_domain,
        fault_domain=vm.fault_domain,
        zone=vm.zone,
        host=vm.host,
        spot=vm.spot,
        size=vm.size,
        os=vm.os,
        tags=dict(vm.tags),
        policy=events_policy(vm.events_policy),
        failure=None if failure is None else _failure(failure),
    )


def vm_with_events(vm: Vm, last_seen: datetime | None, events: tuple[Event, ...]) -> VmWithEvents:
    """One VM with the events that hit it."""
    return _with(vm, VmWithEvents, last_seen=_maybe(last_seen), events=events)


def group(group: f.Group, vms: int) -> Group:
    """With how many VMs it has now, which the group itself does not know."""
    return Group(
        key=group.key,
        kind=group.kind.value,
        name=group.name,
        update_domains=group.update_domains,
        fault_domains=group.fault_domains,
        terminate_notice=group.terminate_notice,
        vms=vms,
        policy=events_policy(group.events_policy),
        os_image_notice=group.os_image_notice,
    )


def host(host: f.Host, vms: int, listening: int, away: int, reports: Sequence[f.HealthReport], shown: int) -> Host:
    """With how many VMs run there, listen, and are away from it, which the host itself does not know.

    Of its open reports the first categories are told, and the newest are shown.
    """
    said = tuple(dict.fromkeys(report.category for report in reports))[:MOST_CATEGORIES]
    newest = tuple(health_report(report) for report in reversed(reports[max(0, len(reports) - shown) :]))
    return Host(host.name, host.condition.value, vms, listening, away, said, newest)


def health_report(report: f.HealthReport) -> HealthReport:
    """What a VM has said of a host."""
    return HealthReport(
        report.name,
        report.vm,
        report.host,
        report.category,
        report.description,
        whole_second(report.began),
        whole_second(report.at),
        dict(report.more),
    )


def site(site: f.Site) -> Site:
    """What all VMs have in common."""
    return Site(site.location, site.resource_group, site.subscription_id)


def token(token: k.Token) -> Token:
    """One token as an admin sees it: nothing that could be used in its place."""
    return Token(token.id, token.name, token.role.value, whole_second(token.created_at), token.only)


def new_token(made: k.Token, secret: str) -> NewToken:
    """A token with its secret."""
    return _with(token(made), NewToken, token=secret)


def subscription(known: u.Subscription) -> Subscription:
    """A subscription as operators see it: nothing by which somebody could pass for us."""
    told = known.without_secrets()
    return Subscription(
        id=told.id,
        url=told.url,
        format=told.format.value,
        types=tuple(TYPE_NAMES[each] for each in told.types),
        groups=told.groups,
        vms=told.vms,
        bearer=bool(known.bearer),
        status=told.status.value,
        reason=told.reason,
        trouble=told.trouble,
        created_at=whole_second(told.created_at),
        position=told.position,
        pending=len(told.pending),
        dead_letters=len(told.dead_letters),
        dropped=told.dropped,
    )


def subscription_with_messages(known: u.Subscription) -> SubscriptionWithMessages:
    """With its dead letters."""
    return _with(subscription(known), SubscriptionWithMessages, messages=tuple(map(_dead_letter, known.dead_letters)))


def new_subscription(made: u.Subscription) -> NewSubscription:
    """With its secret."""
    return _with(subscription(made), NewSubscription, secret=made.secret)


def _dead_letter(given_up: u.DeadLetter) -> DeadLetter:
    return DeadLetter(given_up.position, given_up.event_id, whole_second(given_up.at), given_up.reason)


def maintenance(
    plan: m.Maintenance, tally: m.Tally, at: datetime | None = None, awaited: Sequence[str] = ()
) -> Maintenance:
    """A plan without its steps; spans are in seconds outside. `at` is the time of day: for what it waits until."""
    span = plan.present_span
    moment = None if at is None else waits_until(plan, at)
    return Maintenance(
        id=plan.id,
        type=TYPE_NAMES[plan.type],
        cause=plan.cause.value,
        status=plan.status.value,
        reason=reason_of(plan, tally),
        description=plan.description,
        settle=seconds(plan.settle),
        at_once=plan.at_once,
        failures_allowed=plan.failures_allowed,
        progress=by_status(tally.steps),
        vms=by_status(tally.vms),
        groups=tally.groups,
        groups_in_all=tally.groups_in_all,
        steps_kept=plan.tally is None,
        title=plan.title,
        author=plan.author,
        asked_at=_second(plan.asked_at),
        over_at=_second(plan.over_at),
        window="" if plan.window is None else plan.window.said,
        window_begins=_second(None if span is None else span.begins),
        window_ends=_second(None if span is None else span.ends),
        waits_until=_second(moment),
        consent=plan.consent.value,
        awaited=tuple(awaited[:MOST_AWAITED]),
        awaited_in_all=len(awaited),
        by=plan.by.value,
    )


def _second(moment: datetime | None) -> datetime | None:
    return None if moment is None else whole_second(moment)


def by_status(counts: Iterable[int]) -> dict[str, int]:
    """The numbers of a tally, with the names of their statuses."""
    return {status.value: count for status, count in zip(m.StepStatus, counts, strict=True)}


def step(step: m.Step) -> Step:
    """One step of a plan."""
    return Step(
        group=step.group,
        domain=step.domain,
        scope=step.scope,
        host=step.host,
        resources=step.resources,
        status=step.status.value,
        event_id=step.event_id,
        reason=step.reason,
    )


def planned_step(planned: preview.PlannedStep) -> PlannedStep:
    """One step of a timeline."""
    step = planned.step
    return PlannedStep(
        group=step.group,
        domain=step.domain,
        scope=step.scope,
        host=step.host,
        resources=step.resources,
        status=m.StepStatus.WAITING.value,
        event_id=step.event_id,
        reason=step.reason,
        scheduled_at=whole_second(planned.scheduled_at),
        not_before=whole_second(planned.not_before),
        starts_at=whole_second(planned.starts_at),
        ends_at=whole_second(planned.ends_at),
        silent=planned.silent,
    )


def action_of(record: t.Record) -> str:
    """What happened, as the journal names it: `event-raised`."""
    return str(record.transition.__struct_config__.tag)


def event_id_of(record: t.Record) -> str | None:
    """The event that a record is about, if it is about one."""
    change = record.transition
    if isinstance(change, t.EventRaised | t.EventMoved | t.EventNarrowed | t.EventPostponed | t.EventStarted):
        return change.event.id
    return getattr(change, "event_id", None)


def record(record: t.Record) -> Record:
    """One record of the journal."""
    return Record(
        position=record.position,
        at=whole_second(record.at),
        actor=record.actor,
        action=action_of(record),
        event_id=event_id_of(record),
        details=_details(record.transition),
    )


def _details(change: t.Transition) -> Details:
    """What a record says: as it is stored, but events, plans and tokens as everywhere, and spans in seconds."""
    match change:
        case t.EventMoved(moved, from_scope):
            return Details(event=event(moved), from_scope=from_scope)
        case t.EventRaised(shown) | t.EventNarrowed(shown) | t.EventPostponed(shown) | t.EventStarted(shown):
            return Details(event=event(shown))
        case t.HealthReported(report):
            return Details(report=health_report(report))
        case t.VmsPut(vms):
            return Details(names=tuple(vm.name for vm in vms))
        case t.VmsRemoved(names):
            return Details(names=names)
        case t.FleetDeclared():
            return _as_stored(structs.replace(change, file=None))
        case t.MaintenanceStarted(plan):
            return Details(maintenance=maintenance(plan, m.tally_of(plan.steps)))
        case t.RequestAnswered(answer=answer):
            said = unpacked(answer)
            return Details(status=said.status, location=said.location)
        case t.TokenCreated(created):
            return Details(token=token(created))
        case t.SessionBegun(session, name):
            return Details(session=session_id(session.digest), name=name)
        case t.SessionEnded(digest, name, reason):
            return Details(session=session_id(digest), name=name, reason=reason or None)
        case t.SubscriptionCreated(made):
            return Details(subscription=subscription(made))
        case t.PushDeadLettered(subscription_id, given_up):
            return Details(subscription_id=subscription_id, dead_letters=tuple(map(_dead_letter, given_up)))
    return _as_stored(change)


def _as_stored(change: t.Transition) -> Details:
    stored = msgspec.to_builtins(change)
    if isinstance(change, t.StepEnded):
        stored["ended"] = seconds(change.ended)
    if isinstance(change, t.EventCompleted | t.EventFailed) and change.took is not None:
        stored["took"] = round(seconds(change.took), 2)
    if isinstance(change, t.MaintenanceChanged | t.MaintenanceRetried):
        stored["window"] = None if change.window is None else change.window.said
    if isinstance(change, t.ClockMarked):
        at, _, boot_id, _, *speeds = stored["mark"]
        stored["mark"] = [at, seconds(change.mark.steady), boot_id, seconds(change.mark.boot_micros), *speeds]
    return msgspec.convert(stored, Details)
