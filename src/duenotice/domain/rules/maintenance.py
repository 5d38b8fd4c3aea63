"""The rules of maintenances: begin, pause, resume, cancel; which step is next; the window (G01, S11, decision 0014)."""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from operator import itemgetter
from uuid import UUID

from msgspec import structs

from duenotice.clock import MICROS, Instant, micros_of
from duenotice.domain import commands as c
from duenotice.domain import records as t
from duenotice.domain.bulk import derived, in_order
from duenotice.domain.event import MAINTENANCES, By, Cause, Consent, Event, EventType, Phase, size_of
from duenotice.domain.fleet import Condition, Vm, scope_of
from duenotice.domain.plan import MOST, Maintenance, PlanProgress, Status, Step, StepStatus, Tally, cut, domain_by
from duenotice.domain.policy import Policy
from duenotice.domain.rules.creation import APPROVED_BEFOREHAND, AT_ONCE, check_description, planned_event
from duenotice.domain.rules.limits import no_room
from duenotice.domain.rules.timing import can_be_given, check_dates, earliest, minimum_notice
from duenotice.domain.state import State, find_host, find_plan, find_vm
from duenotice.domain.window import Opening, Window, WindowSpan, announced_from, check, next_of
from duenotice.errors import Conflict, Refused

WINDOW_ENDED = "Its window has ended."
NEW_WINDOW = "The maintenance has a new window."
CLOCK_SET_BACK = "The clock was set back: the maintenance has an earlier window."
NOT_SURE_YET = "By the time of day its window has ended. It is paused when the steady clock says so too."


def lets_begin(plan: Maintenance, now: Instant, policy: Policy) -> bool:
    """Whether VMs may be told of a step now: it would hit inside the present span, if nobody approved it."""
    span, notice = plan.present_span, minimum_notice(plan.type, None)
    if not can_be_given(now):
        return False
    if span is None:
        return plan.window is None
    return now.at >= announced_from(span, notice) and _fits(span, notice, now, policy)


def _fits(span: WindowSpan, notice: int, now: Instant, policy: Policy) -> bool:
    """Whether what VMs are told of now, or later, can hit in this span."""
    return not span.is_over(max(span.begins, earliest(now, notice + policy.commit_allowance)))


def waits_until(plan: Maintenance, at: datetime) -> datetime | None:
    """The begin of the span that a running plan waits for; None when it waits for no window."""
    span = plan.present_span
    if span is None or plan.status is not Status.RUNNING or at >= span.begins:
        return None
    return span.begins


def reason_of(plan: Maintenance, tally: Tally) -> str:
    """Why it stands as it does. If steps wait while it is in none of its spans, the pause is not sure yet (S34).

    Of a plan that has failed, steps that were under way may fail after it.
    """
    if plan.status is Status.FAILED:
        return too_many_failed(tally.count(StepStatus.FAILED), plan.failures_allowed)
    waits = plan.status is Status.RUNNING and plan.is_out_of_window and tally.count(StepStatus.WAITING)
    return NOT_SURE_YET if waits else plan.reason


def too_many_failed(failed: int, allowed: int) -> str:
    """Why a plan has failed."""
    return f"{failed} failed, {allowed} allowed."


def is_due(progress: PlanProgress, now: Instant, policy: Policy) -> bool:
    """Whether the time of day lets something happen by itself: a span has ended, or steps may begin in it."""
    plan = progress.plan
    if plan.window is None or not progress.is_open:
        return False
    return (
        next_of(plan.window, now.at) != plan.span
        or _pauses(progress, now)
        or (progress.has_ready(now.steady) and lets_begin(plan, now, policy))
    )


def next_moment(progress: PlanProgress, now: Instant) -> int | None:
    """When the window next matters, later than now, in steady time on an undisturbed clock."""
    plan, span = progress.plan, progress.plan.present_span
    if plan.window is None or not progress.is_open:
        return None
    moments = [] if span is None else [announced_from(span, minimum_notice(plan.type, None)), span.ends]
    steady = [now.steady + micros_of(moment - now.at) for moment in moments if moment is not None]
    return min((moment for moment in (*steady, plan.window.closes) if moment > now.steady), default=None)


def closed(state: State, progress: PlanProgress, now: Instant, policy: Policy) -> list[t.Transition]:
    """A plan is in the span that the time of day says, also when somebody sets it back.

    So no clock that is wrong for a moment makes it miss one. After the last span it pauses, unless all that is left is
    under way; for that both faces of time have to say so, as nothing takes it back (S34).
    """
    plan = progress.plan
    if plan.window is None:
        return []
    present = next_of(plan.window, now.at)
    if present < plan.span:
        span = plan.window.spans[present]
        is_of_use = _fits(span, minimum_notice(plan.type, None), now, policy)
        early = _scheduled(state, progress, lambda its: is_of_use and its is not None and its.begins > span.begins)
        return _withdrawn(progress, early, present, CLOCK_SET_BACK)
    if present > plan.span:
        return [t.WindowClosed(plan.id, present)]
    return [t.MaintenanceChanged(plan.id, Status.PAUSED, WINDOW_ENDED)] if _pauses(progress, now) else []


def _pauses(progress: PlanProgress, now: Instant) -> bool:
    plan = progress.plan
    is_told = plan.status is Status.PAUSED and plan.reason == WINDOW_ENDED
    return bool(progress.waiting) and not is_told and plan.window is not None and plan.window.is_over(now)


def missed(state: State, event: Event, now: Instant) -> list[t.Transition]:
    """An event has missed its span: what its plan has only scheduled and has missed it is taken back, and waits."""
    under_way = state.step_of_event.get(event.id)
    if under_way is None:
        return [t.EventCancelled(event.id, event.scope, WINDOW_ENDED)]
    progress = state.plans[under_way[0]]
    assert progress.plan.window is not None
    present = max(progress.plan.span, next_of(progress.plan.window, now.at))
    late = _scheduled(state, progress, lambda its: its is not None and its.is_over(now))
    return _withdrawn(progress, late, present, WINDOW_ENDED)


def moved(state: State, progress: PlanProgress) -> list[t.Transition]:
    """The plan gets a new window: what is only scheduled would hit outside of it, so it is taken back and waits."""
    scheduled = _scheduled(state, progress, lambda _: True)
    return _withdrawn(progress, scheduled, progress.plan.span, NEW_WINDOW) if scheduled else []


def _withdrawn(progress: PlanProgress, events: dict[int, Event], present: int, reason: str) -> list[t.Transition]:
    cancelled = [t.EventCancelled(event.id, event.scope, reason) for event in events.values()]
    return [*cancelled, t.WindowClosed(progress.plan.id, present, tuple(events))]


def _scheduled(state: State, progress: PlanProgress, wanted: Callable[[Opening | None], bool]) -> dict[int, Event]:
    """The events of the plan that have not started and whose span is wanted, by their steps."""
    known = ((number, state.events.get(step.event_id or "")) for number, step in progress.running())
    return {
        number: event
        for number, event in known
        if event is not None and event.phase is Phase.SCHEDULED and wanted(event.opening)
    }


CAUSES = frozenset({Cause.MAINTENANCE, Cause.LIVE_MIGRATION})
LONGEST_SETTLE = 7 * 24 * 3600 * MICROS
NO_ROOM = "Resume it when some of its events have ended."
A_RULE_FAILED = "A rule of duenotice has failed at this plan; the log says which. Report it. To try again, resume it."


def begin(state: State, command: c.StartMaintenance, now: Instant, policy: Policy) -> list[t.Transition]:
    """From now on the sets of these VMs belong to this plan until it is over."""
    return [t.MaintenanceStarted(planned(state, command, now))]


def planned(state: State, command: c.StartMaintenance, now: Instant) -> Maintenance:
    """The VMs cut into steps; refused if another plan is in the way."""
    check_dates(now)
    if command.type not in MAINTENANCES:
        raise Refused("A maintenance is a Freeze, a Reboot or a Redeploy.", hint="Evict or delete VMs one by one.")
    if command.cause not in CAUSES:
        raise Refused("A maintenance is host maintenance or live migration.", hint="Leave the cause out.")
    counts = command.at_once, command.failures_allowed
    if not 0 <= command.settle <= LONGEST_SETTLE or not all(0 <= count <= MOST for count in counts):
        raise Refused(
            "settle, at_once and failures_allowed cannot be negative; settle is at most 7 days, the others at most "
            f"{MOST:,}.",
            hint="Fix these values. Leave at_once out for no limit.",
        )
    if command.consent is Consent.HOST and command.at_once:
        raise Refused(
            "With the consent of a host all its VMs are hit together: at_once cannot limit that.",
            hint="Leave at_once out, or choose the consent of scopes.",
        )
    if command.by is By.FAULT_DOMAIN and command.type is not EventType.FREEZE:
        raise Refused("Only work without a reboot goes by fault domain.", hint="Leave that out, or choose Freeze.")
    _check_words(state, command)
    steps = cut((find_vm(state, name) for name in _unique(command.vms)), command.by)
    _refuse_held_sets(state, {step.group for step in steps})
    return Maintenance(
        id=_fresh(state, command.maintenance_id),
        type=command.type,
        cause=command.cause,
        steps=steps,
        description=command.description,
        settle=command.settle,
        at_once=command.at_once,
        failures_allowed=command.failures_allowed,
        window=check(command.window, now),
        title=command.title,
        author=command.author,
        asked_at=now.at,
        drains=command.drains,
        to=command.to,
        consent=command.consent,
        by=command.by,
    )


def _check_words(state: State, command: c.StartMaintenance) -> None:
    check_description(command.description or "")
    check_description(command.title)
    if not command.vms:
        raise Refused("No VM is chosen.", hint="Choose a set, a scale set, a host or a VM that is in the fleet.")
    if command.to is not None and (host := find_host(state, command.to)).condition is not Condition.HEALTHY:
        raise Conflict(f"The host {host.name} is {host.condition.value}.", hint="Take it into service first.")


def cancel_plans(state: State, reason: str, *, to: str | None = None, drains: str | None = None) -> list[t.Transition]:
    """Cancel the plans that bring VMs back to a host, or that empty it; what has started runs to its end."""
    plans = [progress for progress in state.plans.values() if progress.is_open]
    wanted = [each for each in plans if (to and each.plan.to == to) or (drains and each.plan.drains == drains)]
    early = [each for each in wanted if each.waiting or _scheduled_by(state, each)]  # else all of it is under way
    return [change for progress in early for change in _stop(state, progress, Status.CANCELLED, reason)]


def pause(state: State, command: c.PauseMaintenance, now: Instant, policy: Policy) -> list[t.Transition]:
    """Begin no further step."""
    return [*_turned(state, command.maintenance_id, Status.RUNNING, Status.PAUSED)]


def resume(state: State, command: c.ResumeMaintenance, now: Instant, policy: Policy) -> list[t.Transition]:
    """Go on; when its window is over, a new one is needed."""
    changes = _turned(state, command.maintenance_id, Status.PAUSED, Status.RUNNING)
    window = _window(state, command, now)
    cancelled = [] if window is None else moved(state, find_plan(state, command.maintenance_id))
    return [*cancelled, *(structs.replace(change, window=window) for change in changes)]


def retry(state: State, command: c.RetryMaintenance, now: Instant, policy: Policy) -> list[t.Transition]:
    """Steps that have failed wait again, with those that were not run, and the plan goes on."""
    progress = find_plan(state, command.maintenance_id)
    if progress.plan.status in (Status.RUNNING, Status.CANCELLED):
        hint = "Pause it or wait for its end." if progress.is_open else "Start a new maintenance."
        raise Conflict(f"The maintenance is {progress.plan.status.value}.", hint=hint)
    if progress.running_count:
        raise Conflict("Steps of this maintenance are still under way.", hint="Wait until they have ended.")
    if progress.plan.tally is not None:
        raise Conflict("The steps of this maintenance are not kept any more.", hint="Start a new maintenance.")
    again = tuple(number for number, step in enumerate(progress.steps) if _has_failed(step))
    if not again:
        raise Conflict("No step of this maintenance has failed.", hint="There is nothing to try again.")
    if not progress.is_open:
        _refuse_held_sets(state, set(progress.groups()))
    return [t.MaintenanceRetried(progress.plan.id, again, _window(state, command, now))]


def cancel_all(state: State, command: c.CancelMaintenance, now: Instant, policy: Policy) -> list[t.Transition]:
    """Cancel what is only scheduled; what has started runs to its end."""
    progress = find_plan(state, command.maintenance_id)
    if not progress.is_open:
        raise Conflict(f"The maintenance is {progress.plan.status.value} already.", hint="Nothing is left to cancel.")
    return _stop(state, progress, Status.CANCELLED, "")


def next_steps(state: State, progress: PlanProgress, now: Instant, policy: Policy) -> Iterator[list[t.Transition]]:
    """What is due of one plan, when `ended` has nothing left: it is over, or steps begin.

    Apply each before you ask for the next; when something has changed, ask again.
    """
    if changes := _conclusion(state, progress) or closed(state, progress, now, policy):
        yield changes
    elif lets_begin(progress.plan, now, policy):
        yield from _beginning(state, progress, now, policy)


def _beginning(state: State, progress: PlanProgress, now: Instant, policy: Policy) -> Iterator[list[t.Transition]]:
    """Steps begin, as far as their scopes have room for more events (S24): the others wait for those under way to end.

    If none is under way, what fills the scope is not of this plan, and may stay for long: the plan pauses and says so.
    """
    full: dict[str, str] = {}
    for number in progress.ready(now.steady):
        scope = progress.steps[number].scope
        if scope in full:
            continue
        changes = _begun(state, progress, number, now, policy)
        sizes = [size_of(change.event) for change in changes if isinstance(change, t.EventRaised)]
        if sizes and (why := no_room(state, scope, len(sizes), sum(sizes), policy)):
            full[scope] = why
        else:
            yield changes
    if full and not progress.running_count:
        yield [t.MaintenanceChanged(progress.plan.id, Status.PAUSED, f"{next(iter(full.values()))} {NO_ROOM}")]


def halted(state: State, maintenance_id: str) -> list[t.Transition]:
    """A rule has failed at this plan: it pauses and says so, and all others go on."""
    progress = state.plans.get(maintenance_id)
    is_running = progress is not None and progress.plan.status is Status.RUNNING
    return [t.MaintenanceChanged(maintenance_id, Status.PAUSED, A_RULE_FAILED)] if is_running else []


def _unique(names: Iterable[str]) -> Iterator[str]:
    """Each once. A dict would do the same, but with a million names it stops all other threads."""
    seen: set[str] = set()
    for name in names:
        if name not in seen:
            seen.add(name)
            yield name


def _fresh(state: State, maintenance_id: str) -> str:
    try:
        UUID(maintenance_id)
    except ValueError:
        raise Refused(f"{maintenance_id!r} is not an id.", hint="Use a new UUID for every maintenance.") from None
    used = (event.maintenance for event in state.events.values())
    if maintenance_id in state.plans or maintenance_id in used:
        raise Conflict(f"There is already a maintenance {maintenance_id}.", hint="Use a new id.")
    return maintenance_id


def _refuse_held_sets(state: State, groups: set[str]) -> None:
    holders = {plan_id for group in groups for plan_id in state.plans_by_group.get(group, ())}
    for plan_id in [plan_id for plan_id in state.plans if plan_id in holders]:
        held = _held_by(state, state.plans[plan_id], groups)
        if held:
            raise Conflict(
                f"{min(held)} is under maintenance {plan_id} already.", hint="Wait until it is over, or cancel it."
            )


def _held_by(state: State, progress: PlanProgress, groups: set[str]) -> set[str]:
    if progress.is_open:
        return {group for group in groups if progress.plan.id in state.plans_by_group.get(group, ())}
    return groups & {step.group for _, step in progress.running() if _still_hit(state, step)}


def _still_hit(state: State, step: Step) -> bool:
    """Whether a step of a plan that was stopped is running to its end."""
    event = state.events.get(step.event_id or "")
    return event is not None and any(name in state.fleet.vms for name in event.resources)


def _has_failed(step: Step) -> bool:
    """Whether it has failed, or its event was taken back because others had."""
    return step.status is StepStatus.FAILED or (
        step.status is StepStatus.SKIPPED and step.reason.endswith(_why_cancelled(Status.FAILED))
    )


def _why_cancelled(status: Status) -> str:
    return f"The maintenance is {status.value}."


def _window(state: State, command: c.ResumeMaintenance | c.RetryMaintenance, now: Instant) -> Window | None:
    plan = find_plan(state, command.maintenance_id).plan
    if command.window is None and plan.is_out_of_window:
        raise Conflict("The window of this maintenance is over.", hint="Give a new window, or cancel it.")
    return check(command.window, now)


def _turned(state: State, maintenance_id: str, before: Status, after: Status) -> list[t.MaintenanceChanged]:
    plan = find_plan(state, maintenance_id).plan
    if plan.status is not before:
        raise Conflict(f"The maintenance is {plan.status.value}, not {before.value}.", hint="Look at its state first.")
    return [t.MaintenanceChanged(plan.id, after)]


def ended(state: State, now: Instant) -> list[t.StepEnded]:
    """Steps of all plans whose event is gone: they are over."""
    if not state.unprocessed_outcomes:
        return []  # as nearly always when a command is done
    known = [(state.step_of_event.get(event_id), *outcome) for event_id, outcome in state.unprocessed_outcomes.items()]
    ends = ((step, status, reason) for step, status, reason in known if step is not None)
    return [
        t.StepEnded(*step, status, now.steady, reason) for step, status, reason in in_order(ends, key=itemgetter(0))
    ]


def _conclusion(state: State, progress: PlanProgress) -> list[t.Transition]:
    failed, allowed = progress.failed, progress.plan.failures_allowed
    if failed > allowed:
        return _stop(state, progress, Status.FAILED, too_many_failed(failed, allowed))
    if not progress.waiting and not progress.running_count:
        return [t.MaintenanceChanged(progress.plan.id, Status.DONE)]
    return []


def _stop(state: State, progress: PlanProgress, status: Status, reason: str) -> list[t.Transition]:
    scheduled = _scheduled_by(state, progress)
    cancelled = [t.EventCancelled(event.id, event.scope, _why_cancelled(status)) for event in scheduled]
    return [*cancelled, t.MaintenanceChanged(progress.plan.id, status, reason)]


def _scheduled_by(state: State, progress: PlanProgress) -> list[Event]:
    """The events of its steps that have not started."""
    raised = (state.events.get(step.event_id or "") for _, step in progress.running())
    return [event for event in raised if event is not None and event.phase is Phase.SCHEDULED]


def _begun(state: State, progress: PlanProgress, number: int, now: Instant, policy: Policy) -> list[t.Transition]:
    plan, step = progress.plan, progress.steps[number]
    there = [vm for name in step.resources if (vm := state.fleet.vms.get(name)) and _belongs(vm, step, plan.by)]
    vms = [vm for vm in there if _is_to_move(vm, step, plan)]
    if not vms:
        reason = _why_skipped(state, step, there, plan.by)
        return [t.StepEnded(plan.id, number, StepStatus.SKIPPED, now.steady, reason)]
    event_id = derived(plan.id, f"{number}.{step.tries}" if step.tries else str(number))
    event = planned_event(state, vms, plan, event_id, now, policy)
    if plan.cause is Cause.LIVE_MIGRATION or plan.to:  # a VM that has left that host was already moved: once is enough
        event = event.with_(host=step.host, to=plan.to)
    if plan.consent is Consent.HOST and step.host is not None:
        event = event.with_(host=step.host, consent=Consent.HOST)
    if plan.by is By.FAULT_DOMAIN and event.update_domain is not None:
        event = event.with_(fault_domain=step.domain)
    left_out = set(step.resources).difference(event.resources)
    named = (name for name in step.resources if name in left_out)
    reasons = [f"No longer there: {', '.join(named)}."] if left_out else []
    reasons += [AT_ONCE] if event.approved_by == APPROVED_BEFOREHAND else []
    return [t.EventRaised(event), t.StepBegun(plan.id, number, event_id, " ".join(reasons))]


def _is_to_move(vm: Vm, step: Step, plan: Maintenance) -> bool:
    """Whether a VM is still where the plan has found it, and still away from where the plan brings it back to."""
    if plan.to is not None:
        return vm.away_from == plan.to and vm.host == step.host
    is_about_host = plan.cause is Cause.LIVE_MIGRATION or plan.consent is Consent.HOST
    return not is_about_host or step.host in (None, vm.host)


def _why_skipped(state: State, step: Step, there: list[Vm], by: By) -> str:
    if there:
        return f"Its VMs have left {step.host}."
    if any(name in state.fleet.vms for name in step.resources):
        return f"Its VMs have left {by.value.replace('-', ' ')} {step.domain} of {step.group}."
    return "Its VMs are gone."


def _belongs(vm: Vm, step: Step, by: By) -> bool:
    is_in_domain = step.update_domain is None or step.update_domain == (vm.update_domain or 0)  # S10
    return scope_of(vm) == step.scope and domain_by(vm, by) == step.domain and is_in_domain
