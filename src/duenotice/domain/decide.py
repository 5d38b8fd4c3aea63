"""From a command to its transitions. `decide` refuses or answers, and changes nothing."""

from collections.abc import Callable
from typing import Any

from duenotice.clock import Instant
from duenotice.domain import (
    absence,
    access,
    approval,
    due,
    enablement,
    fleet_change,
    health,
    host_events,
    owners_policy,
    planning,
    postponing,
    raising,
    reporting,
    scaling,
    subscribing,
)
from duenotice.domain import commands as c
from duenotice.domain import transitions as t
from duenotice.domain.limits import within
from duenotice.domain.notice import check_dates
from duenotice.domain.policy import Policy
from duenotice.domain.state import State

FAR_AHEAD = 1_000_000
"""How far numbers go ahead that were already above `to`: the wall clock was wrong at this restore or the last."""

Rule = Callable[[State, Any, Instant, Policy], list[t.Transition]]


def decide(state: State, command: c.Command, now: Instant, policy: Policy) -> list[t.Transition]:
    """The transitions of a command; empty when nothing changes, and an exception from `errors` when it is refused."""
    if type(command) in _TELLS:
        check_dates(now)
    return within(state, _RULES[type(command)](state, command, now, policy), policy)


def _lift(state: State, command: c.LiftIncarnations, now: Instant, policy: Policy) -> list[t.Transition]:
    after = command.unless_after
    if after is not None and state.lifted_at > after and state.floor > command.above:
        return []
    highest = max(state.floor, command.above)
    to = command.to if command.to > highest else highest + FAR_AHEAD
    return [t.IncarnationsLifted(to - state.floor)]


def _mark_clock(state: State, command: c.MarkClock, now: Instant, policy: Policy) -> list[t.Transition]:
    return [t.ClockMarked(command.mark)]


_TELLS = frozenset(
    {
        c.ScheduleEvent,
        c.OperateVm,
        c.ScaleSet,
        c.DeleteInstances,
        c.OperateInstances,
        c.EvictVm,
        c.DegradeHost,
        c.ReportHealth,
        c.ResumeMaintenance,
        c.RetryMaintenance,
    }
)
"""After these VMs are told of a time that is ahead."""

_RULES: dict[type[c.Command], Rule] = {
    c.ApplyFleet: fleet_change.apply_fleet,
    c.ScheduleEvent: raising.schedule,
    c.OperateVm: raising.operate,
    c.ScaleSet: scaling.scale,
    c.DeleteInstances: scaling.delete_instances,
    c.SetEventsPolicy: owners_policy.put,
    c.OperateInstances: scaling.operate_instances,
    c.ChangeScaleSet: scaling.change,
    c.EvictVm: raising.evict,
    c.DegradeHost: host_events.degrade_host,
    c.ReportHealth: health.report,
    c.FailHost: host_events.fail_host,
    c.HoldHost: host_events.hold_host,
    c.RepairHost: host_events.repair_host,
    c.LeaveMoved: host_events.leave_moved,
    c.ApproveEvents: approval.approve,
    c.CancelEvent: approval.cancel,
    c.AcknowledgeFailures: approval.acknowledge,
    c.PostponeEvents: postponing.postpone,
    c.MakeUpForAbsence: absence.make_up,
    c.ReportImpact: reporting.report,
    c.ReportAttempt: reporting.attempt_failed,
    c.ClaimImpact: reporting.claim,
    c.AcceptImpact: reporting.accept,
    c.StartMaintenance: planning.begin,
    c.PauseMaintenance: planning.pause,
    c.ResumeMaintenance: planning.resume,
    c.RetryMaintenance: planning.retry,
    c.CancelMaintenance: planning.cancel_all,
    c.EnableScope: enablement.enable,
    c.DisableScopes: enablement.disable,
    c.CreateToken: access.create,
    c.RevokeToken: access.revoke,
    c.BeginSession: access.begin_session,
    c.EndSession: access.end_session,
    c.CreateSubscription: subscribing.create,
    c.PauseSubscription: subscribing.pause,
    c.ResumeSubscription: subscribing.resume,
    c.DeleteSubscription: subscribing.delete,
    c.ReplaySubscription: subscribing.replay,
    c.ClaimPushes: subscribing.claim,
    c.ReportReceiver: subscribing.report,
    c.NotePushes: subscribing.note,
    c.LiftIncarnations: _lift,
    c.MarkClock: _mark_clock,
    c.Tick: due.tick,
}
