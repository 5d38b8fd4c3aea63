"""The rules of hosts: a failure that is predicted, one that has happened, a repair (D03, D04)."""

from datetime import datetime
from itertools import groupby

from duenotice.clock import MICROS, Instant, seconds
from duenotice.domain import commands as c
from duenotice.domain import notice
from duenotice.domain import transitions as t
from duenotice.domain.ending import cancel_predictions
from duenotice.domain.event import MOST_RESOURCES, Cause, EventType, Phase
from duenotice.domain.fleet import Condition, Host, Vm
from duenotice.domain.ids import derived
from duenotice.domain.lifecycle import Act
from duenotice.domain.lookup import find_host, find_standing_host
from duenotice.domain.pieces import chunks, in_order
from duenotice.domain.planning import taken_back
from duenotice.domain.policy import Policy
from duenotice.domain.raising import event_on, fresh_id
from duenotice.domain.scope import domain_of
from duenotice.domain.starting import started
from duenotice.domain.state import State
from duenotice.errors import Refused

_OUT = "The host is out of service."


def degrade_host(state: State, command: c.DegradeHost, now: Instant, policy: Policy) -> list[t.Transition]:
    """A predicted failure: each VM of the host gets its own move, days ahead (D03)."""
    host = find_standing_host(state, command.host)
    least = notice.MINIMUM_SECONDS[EventType.REDEPLOY]
    if not least * MICROS <= command.notice <= notice.LONGEST_PREDICTION_SECONDS * MICROS:
        raise Refused(
            f"A prediction of {seconds(command.notice):g} seconds is out of bounds.",
            hint=f"Use {least} seconds to {notice.LONGEST_PREDICTION_SECONDS} (7 days).",
        )
    not_before = notice.earliest(now, command.notice + policy.commit_allowance)
    told = [vm for vm in state.fleet.on_host(host.name) if _is_predicted_later(state, vm, not_before)]
    # NotBefore never moves earlier (D02): a higher risk is told as another event in place of the first.
    changes = [
        *taken_back(state, _OUT, to=host.name),
        t.HostsPut((Host(host.name, Condition.DEGRADED),)),
        *cancel_predictions(state, told, "The risk has grown."),
    ]
    for vm in told:
        event_id = fresh_id(state, derived(command.seed, vm.name))
        event = event_on([vm], EventType.REDEPLOY, Cause.DEGRADED_HOST, event_id, now)
        told_of = notice.moved_to(event.with_(host=host.name), not_before, now)
        ends = max(told_of.notice_ends, now.steady + command.notice)  # its time of day may be the last that there is
        changes.append(t.EventRaised(told_of.with_(notice_ends=ends)))
    return changes


def fail_host(state: State, command: c.FailHost, now: Instant, policy: Policy) -> list[t.Transition]:
    """A failure that has already happened: events that begin as Started, one for each update domain hit (D04)."""
    host = find_standing_host(state, command.host)
    vms = state.fleet.on_host(host.name)
    changes = [*taken_back(state, _OUT, to=host.name), t.HostsPut((Host(host.name, Condition.FAILED),))]
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
    return [*taken_back(state, _OUT, to=host.name), t.HostsPut((Host(host.name, Condition.DRAINED),))]


def repair_host(state: State, command: c.RepairHost, now: Instant, policy: Policy) -> list[t.Transition]:
    """The host is healthy again; what its degradation had scheduled is cancelled, and what still drains it."""
    host = find_host(state, command.host)
    predicted = cancel_predictions(state, state.fleet.on_host(host.name), "The host is healthy again.")
    drains = host.name if host.condition is Condition.DRAINED else None
    stopped = taken_back(state, "The host is in service again.", drains=drains)
    return [t.HostsPut((Host(host.name),)), *predicted, *stopped]


def leave_moved(state: State, command: c.LeaveMoved, now: Instant, policy: Policy) -> list[t.Transition]:
    """Nobody goes back there. VMs that were told to come back are told that they stay."""
    host = find_host(state, command.host)
    left = [vm.on(vm.host, None) for vm in state.fleet.away(host.name)]
    return [*taken_back(state, "The VMs stay where they are.", to=host.name), *map(t.VmsPut, chunks(left))]


def _is_predicted_later(state: State, vm: Vm, not_before: datetime) -> bool:
    """Whether every predicted event of a VM is still scheduled, and for a later time than this."""
    predicted = [event for event in state.events_of(vm) if event.cause is Cause.DEGRADED_HOST]
    return all(event.phase is Phase.SCHEDULED and event.not_before > not_before for event in predicted)


def _by_domain(vm: Vm) -> tuple[str, int]:
    scope, update_domain = domain_of(vm)
    return scope, -1 if update_domain is None else update_domain
