"""The rules of hosts: a failure that is predicted or has happened, a repair (D03, D04), and what VMs report (M17)."""

from datetime import datetime
from itertools import groupby

from msgspec import structs

from duenotice.clock import MICROS, Instant, seconds
from duenotice.domain import commands as c
from duenotice.domain import records as t
from duenotice.domain.bulk import chunks, derived, in_order
from duenotice.domain.event import LONGEST_PREDICTION_SECONDS, MOST_RESOURCES, Act, Cause, EventType, Phase
from duenotice.domain.fleet import MOST_REPORTS, Condition, HealthReport, Host, Verdict, Vm, domain_of, verdict_of
from duenotice.domain.policy import Policy
from duenotice.domain.rules import timing
from duenotice.domain.rules.creation import event_on, fresh_id
from duenotice.domain.rules.lifecycle import cancel_predictions
from duenotice.domain.rules.maintenance import cancel_plans
from duenotice.domain.rules.timing import started
from duenotice.domain.state import State, find_host, find_standing_host, find_vm
from duenotice.errors import Conflict, Refused

_OUT = "The host is out of service."


def degrade_host(state: State, command: c.DegradeHost, now: Instant, policy: Policy) -> list[t.Transition]:
    """A predicted failure: each VM of the host gets its own move, days ahead (D03)."""
    host = find_standing_host(state, command.host)
    least = timing.MINIMUM_SECONDS[EventType.REDEPLOY]
    if not least * MICROS <= command.notice <= LONGEST_PREDICTION_SECONDS * MICROS:
        raise Refused(
            f"A prediction of {seconds(command.notice):g} seconds is out of bounds.",
            hint=f"Use {least} seconds to {LONGEST_PREDICTION_SECONDS} (7 days).",
        )
    not_before = timing.earliest(now, command.notice + policy.commit_allowance)
    told = [vm for vm in state.fleet.on_host(host.name) if _is_predicted_later(state, vm, not_before)]
    # NotBefore never moves earlier (D02): a higher risk is told as another event in place of the first.
    changes = [
        *cancel_plans(state, _OUT, to=host.name),
        t.HostsPut((Host(host.name, Condition.DEGRADED),)),
        *cancel_predictions(state, told, "The risk has grown."),
    ]
    for vm in told:
        event_id = fresh_id(state, derived(command.seed, vm.name))
        event = event_on([vm], EventType.REDEPLOY, Cause.DEGRADED_HOST, event_id, now)
        told_of = timing.moved_to(event.with_(host=host.name), not_before, now)
        ends = max(told_of.notice_ends, now.steady + command.notice)  # its time of day may be the last that there is
        changes.append(t.EventRaised(told_of.with_(notice_ends=ends)))
    return changes


def fail_host(state: State, command: c.FailHost, now: Instant, policy: Policy) -> list[t.Transition]:
    """A failure that has already happened: events that begin as Started, one for each update domain hit (D04)."""
    host = find_standing_host(state, command.host)
    vms = state.fleet.on_host(host.name)
    changes = [*cancel_plans(state, _OUT, to=host.name), t.HostsPut((Host(host.name, Condition.FAILED),))]
    changes += cancel_predictions(state, vms, "The host has failed.")
    for (scope, _), hit in groupby(in_order(vms, key=_by_domain), key=_by_domain):
        for together in chunks(hit, MOST_RESOURCES):
            event_id = fresh_id(state, derived(command.seed, f"{scope}/{together[0].name}"))
            event = event_on(together, policy.host_failure_type, Cause.HOST_FAILURE, event_id, now)
            changes.append(t.EventRaised(started(event.with_(host=host.name), Act.HAPPEN, now, policy)))
    return changes


def hold_host(state: State, command: c.HoldHost, now: Instant, policy: Policy) -> list[t.Transition]:
    """Out of service; who is on it is told by a maintenance."""
    host = find_standing_host(state, command.host)
    if host.condition is Condition.DRAINED:
        return []
    return [*cancel_plans(state, _OUT, to=host.name), t.HostsPut((Host(host.name, Condition.DRAINED),))]


def repair_host(state: State, command: c.RepairHost, now: Instant, policy: Policy) -> list[t.Transition]:
    """The host is healthy again; what its degradation had scheduled is cancelled, and what still drains it."""
    host = find_host(state, command.host)
    predicted = cancel_predictions(state, state.fleet.on_host(host.name), "The host is healthy again.")
    drains = host.name if host.condition is Condition.DRAINED else None
    stopped = cancel_plans(state, "The host is in service again.", drains=drains)
    return [t.HostsPut((Host(host.name),)), *predicted, *stopped]


def leave_moved(state: State, command: c.LeaveMoved, now: Instant, policy: Policy) -> list[t.Transition]:
    """Nobody goes back there. VMs that were told to come back are told that they stay."""
    host = find_host(state, command.host)
    left = [vm.moved_to(vm.host, None) for vm in state.fleet.away(host.name)]
    return [*cancel_plans(state, "The VMs stay where they are.", to=host.name), *map(t.VmsPut, chunks(left))]


def _is_predicted_later(state: State, vm: Vm, not_before: datetime) -> bool:
    """Whether every predicted event of a VM is still scheduled, and for a later time than this."""
    predicted = [event for event in state.events_of(vm) if event.cause is Cause.DEGRADED_HOST]
    return all(event.phase is Phase.SCHEDULED and event.not_before > not_before for event in predicted)


def _by_domain(vm: Vm) -> tuple[str, int]:
    scope, update_domain = domain_of(vm)
    return scope, -1 if update_domain is None else update_domain


MOST_OF_ONE_VM = 10
"""Open reports: a VM that says the same again and again fills no journal, and leaves room for others (S24)."""
LONGEST_WORDS = 1000
MOST_PROPERTIES, LONGEST_PROPERTY = 20, 500
_SOON = 24 * 3600 * MICROS
"""How long the VMs of a host that is reported as unhealthy are told before, if it is degraded at once (D03)."""


def report_health(state: State, command: c.ReportHealth, now: Instant, policy: Policy) -> list[t.Transition]:
    """A VM says how its host is. What it has said already changes nothing."""
    vm = find_vm(state, command.vm)
    host = find_host(state, _host_of(command.host or vm.host, vm.name))
    _check(command)
    new = HealthReport(
        command.name, vm.name, host.name, command.category, command.description, command.began, now.at, command.more
    )
    known = state.reports.get(new.key)
    if known is not None:
        if structs.replace(known, name=new.name, at=new.at, steps=()) != new:
            raise Conflict(f"There is already a report {command.name}.", hint="Give each report a name of its own.")
        return []
    verdict = verdict_of(new.category)
    if verdict is Verdict.HEALTHY:
        others = [each for each in state.reports.values() if each.is_open and each.host == host.name]
        is_calm = host.condition is Condition.SUSPECT and all(each.vm == vm.name for each in others)
        return [t.HealthReported(new), *([t.HostsPut((Host(host.name),))] if is_calm else [])]
    _refuse_too_many(state, vm.name)
    return [t.HealthReported(new), *_suspected(state, host, verdict, command.seed, now, policy)]


def _suspected(
    state: State, host: Host, verdict: Verdict, seed: str, now: Instant, policy: Policy
) -> list[t.Transition]:
    """What follows for the host: nothing if an operator has decided already."""
    if host.condition not in (Condition.HEALTHY, Condition.SUSPECT):
        return []
    if verdict is Verdict.UNHEALTHY and policy.degrade_unhealthy:
        return degrade_host(state, c.DegradeHost(host.name, _SOON, seed), now, policy)
    return [] if host.condition is Condition.SUSPECT else [t.HostsPut((Host(host.name, Condition.SUSPECT),))]


def _host_of(name: str | None, vm: str) -> str:
    if name is None:
        raise Refused(f"It is not known on which host {vm} runs.", hint="Name the host in the fleet file.")
    return name


def _check(command: c.ReportHealth) -> None:
    if len(command.description) > LONGEST_WORDS:
        raise Refused(
            f"The description has {len(command.description)} characters.", hint=f"Use {LONGEST_WORDS} at the most."
        )
    longest = max((len(part) for pair in command.more for part in pair), default=0)
    if len(command.more) > MOST_PROPERTIES or longest > LONGEST_PROPERTY:
        raise Refused(
            f"The report has {len(command.more)} more properties; the longest text in them has {longest} characters.",
            hint=f"Use {MOST_PROPERTIES} with {LONGEST_PROPERTY} characters at the most.",
        )


def _refuse_too_many(state: State, vm: str) -> None:
    still_open = [each for each in state.reports.values() if each.is_open]
    if sum(each.vm == vm for each in still_open) >= MOST_OF_ONE_VM or len(still_open) >= MOST_REPORTS:
        raise Refused(
            f"{len(still_open)} reports are open; {MOST_OF_ONE_VM} of one VM and {MOST_REPORTS} of all are the most.",
            hint="An operator has to look at the suspect hosts first: repair, degrade or drain them.",
        )
