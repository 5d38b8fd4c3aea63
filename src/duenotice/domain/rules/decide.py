"""From a command to its records: `decide` refuses or answers, and changes nothing.

`RULES` has a row for each command. The small rules stand here: whether a scope listens (F01-F03), tokens and sessions.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, NamedTuple

from duenotice.clock import MICROS, Instant
from duenotice.domain import commands as c
from duenotice.domain import records as t
from duenotice.domain.fleet import scope_of
from duenotice.domain.policy import Policy
from duenotice.domain.rules import (
    creation,
    due,
    fleet_changes,
    hosts,
    lifecycle,
    maintenance,
    receivers,
    scale_sets,
    timing,
)
from duenotice.domain.rules.limits import within
from duenotice.domain.rules.timing import check_dates
from duenotice.domain.state import State, find_vm
from duenotice.domain.token import MOST_OF_A_TOKEN, MOST_SESSIONS, TOKEN_NAME, Role, Session, Token
from duenotice.errors import Conflict, LookAt, NotFound, Refused

SILENCE = 24 * 3600 * MICROS
"""No request for this long turns a scope off (F02)."""


def enable_scope(state: State, command: c.EnableScope, now: Instant, policy: Policy) -> list[t.Transition]:
    """The first request of a scope turns it on (F01); the incarnation goes on from where it was (F03)."""
    scope = scope_of(find_vm(state, command.vm))
    return [] if state.enabled(scope) else [t.ScopeEnabled(scope)]


def disable_scopes(state: State, command: c.DisableScopes, now: Instant, policy: Policy) -> list[t.Transition]:
    """Scopes that have been silent no longer listen (F02)."""
    return [t.ScopeDisabled(scope) for scope in command.scopes if state.enabled(scope)]


MOST_TOKENS = 1000
"""So that state stays bounded (S24)."""

_CLEARED_AT_ONCE = 100
"""Sessions that have run out, and are cleared away by the next sign-in."""


def create_token(state: State, command: c.CreateToken, now: Instant, policy: Policy) -> list[t.Transition]:
    """A new token with a new name; with `replace` it replaces the token of that name."""
    if not re.fullmatch(TOKEN_NAME, command.name):
        raise Refused(
            f"{command.name[:70]!r} is not a valid name for a token.",
            hint="Use 1 to 63 letters, digits and . _ @ -, with a letter or digit first.",
        )
    if command.only and command.role is not Role.FOLLOWER:
        raise Refused(
            f"A token of the role {command.role.value} is for all VMs.", hint="Leave 'only' out, or make it a follower."
        )
    same = [token for token in state.tokens.values() if token.name == command.name]
    if same and not command.replace:
        raise Conflict(f"There is a token {command.name!r} already.", hint="Take another name, or revoke it first.")
    if len(state.tokens) - len(same) >= MOST_TOKENS:
        raise Refused(f"There are {len(state.tokens)} tokens, which is the limit.", hint="Revoke some first.")
    token = Token(command.token_id, command.name, command.role, command.digest, now.at, command.only)
    return [*(t.TokenRevoked(old.id, old.name) for old in same), t.TokenCreated(token)]


def revoke_token(state: State, command: c.RevokeToken, now: Instant, policy: Policy) -> list[t.Transition]:
    """Revoke a token."""
    token = state.tokens.get(command.token_id)
    if token is None:
        raise NotFound(f"There is no token {command.token_id}.", look_at=LookAt.TOKENS)
    admins = [other for other in state.tokens.values() if other.role is Role.ADMIN]
    if admins == [token]:
        raise Conflict("This is the last admin token.", hint="Create another admin token first.")
    return [t.TokenRevoked(token.id, token.name)]


def begin_session(state: State, command: c.BeginSession, now: Instant, policy: Policy) -> list[t.Transition]:
    """A session of a token; asked again, it is the same. With too many, the oldest of one token ends (S24)."""
    token = state.tokens.get(command.token_id)
    if token is None:
        raise NotFound(f"There is no token {command.token_id}.", look_at=LookAt.TOKENS)
    if command.digest in state.sessions:
        return []
    known = state.sessions.values()
    ended = dict.fromkeys(islice((each for each in known if each.is_over(now)), _CLEARED_AT_ONCE), "It has run out.")
    if (before := state.sessions.get(command.instead_of)) is not None:
        ended[before] = "The same browser signed in again."
    left = [each for each in known if each not in ended]
    counts = Counter(each.token_id for each in left)
    if counts[token.id] >= MOST_OF_A_TOKEN:
        ended[_oldest(left, token.id)] = f"Its token had {MOST_OF_A_TOKEN} others."
    elif len(left) >= MOST_SESSIONS:  # the token with the most makes room, so that nobody can sign others out
        ended[_oldest(left, counts.most_common(1)[0][0])] = f"There were {MOST_SESSIONS:,} sessions."
    until = now.after(command.lasts)
    session = Session(command.digest, token.id, until.at, until.steady)
    return [*(_ended(state, each, why) for each, why in ended.items()), t.SessionBegun(session, token.name)]


def _oldest(sessions: Iterable[Session], token_id: str) -> Session:
    return next(each for each in sessions if each.token_id == token_id)


def end_session(state: State, command: c.EndSession, now: Instant, policy: Policy) -> list[t.Transition]:
    """Somebody signs out; once is enough."""
    session = state.sessions.get(command.digest)
    return [] if session is None else [_ended(state, session)]


def _ended(state: State, session: Session, why: str = "") -> t.Transition:
    return t.SessionEnded(session.digest, state.tokens[session.token_id].name, why)


FAR_AHEAD = 1_000_000
"""How far numbers go ahead that were already above `to`: the wall clock was wrong at this restore or the last."""


class Rule(NamedTuple):
    """A rule for one kind of command."""

    decides: Callable[[State, Any, Instant, Policy], list[t.Transition]]
    may_give: tuple[type[t.Change], ...]


def decide(state: State, command: c.Command, now: Instant, policy: Policy) -> list[t.Transition]:
    """The transitions of a command; empty when nothing changes, and an exception from `errors` when it is refused."""
    if type(command) in _TELLS:
        check_dates(now)
    return within(state, RULES[type(command)].decides(state, command, now, policy), policy)


def _lift(state: State, command: c.LiftIncarnations, now: Instant, policy: Policy) -> list[t.Transition]:
    after = command.unless_after
    if after is not None and state.raised_at > after and state.least_incarnation > command.above:
        return []
    highest = max(state.least_incarnation, command.above)
    to = command.to if command.to > highest else highest + FAR_AHEAD
    return [t.IncarnationsLifted(to - state.least_incarnation)]


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

GONE = (t.VmsRemoved, t.EventCancelled, t.EventCompleted)
"""VMs are removed, and with them events that were only waiting for them, or that nobody would end any more."""
MOVED = (t.VmsPut, t.EventCancelled)
"""VMs are on another host, and what was predicted for the old one is cancelled."""

RULES: dict[type[c.Command], Rule] = {
    c.ApplyFleet: Rule(
        fleet_changes.apply_fleet,
        (
            t.FleetDeclared,
            t.HostsPut,
            t.HostsRemoved,
            t.GroupsPut,
            t.GroupsRemoved,
            t.VmsPut,
            t.EventMoved,
            t.EventNarrowed,
            *GONE,
        ),
    ),
    c.ScheduleEvent: Rule(creation.schedule, (t.EventRaised,)),
    c.OperateVm: Rule(creation.operate, (t.EventRaised, t.OperationPerformed, *GONE, *MOVED)),
    c.ScaleSet: Rule(scale_sets.scale, (t.VmsPut, t.EventRaised, *GONE)),
    c.DeleteInstances: Rule(scale_sets.delete_instances, (t.EventRaised, *GONE)),
    c.SetEventsPolicy: Rule(creation.set_events_policy, (t.EventsPolicySet,)),
    c.OperateInstances: Rule(scale_sets.operate_instances, (t.EventRaised, t.OperationPerformed, *GONE)),
    c.ChangeScaleSet: Rule(scale_sets.change, (t.GroupsPut, t.VmsPut, t.EventRaised, *GONE)),
    c.EvictVm: Rule(creation.evict, (t.EventRaised,)),
    c.DegradeHost: Rule(hosts.degrade_host, (t.HostsPut, t.EventRaised, t.EventCancelled, t.MaintenanceChanged)),
    c.ReportHealth: Rule(
        hosts.report_health, (t.HostsPut, t.HealthReported, t.EventRaised, t.EventCancelled, t.MaintenanceChanged)
    ),
    c.FailHost: Rule(hosts.fail_host, (t.HostsPut, t.EventRaised, t.EventCancelled, t.MaintenanceChanged)),
    c.HoldHost: Rule(hosts.hold_host, (t.HostsPut, t.EventCancelled, t.MaintenanceChanged)),
    c.RepairHost: Rule(hosts.repair_host, (t.HostsPut, t.EventCancelled, t.MaintenanceChanged)),
    c.LeaveMoved: Rule(hosts.leave_moved, (t.MaintenanceChanged, *MOVED)),
    c.ApproveEvents: Rule(lifecycle.approve, (t.EventApproved,)),
    c.CancelEvent: Rule(lifecycle.cancel, (t.EventCancelled,)),
    c.AcknowledgeFailures: Rule(lifecycle.acknowledge, (t.FailureAcknowledged,)),
    c.PostponeEvents: Rule(timing.postpone, (t.EventPostponed,)),
    c.MakeUpForDowntime: Rule(timing.make_up_for_downtime, (t.EventPostponed,)),
    c.ReportImpact: Rule(lifecycle.report_impact, (t.EventCompleted, t.EventFailed, *GONE, *MOVED)),
    c.ReportAttempt: Rule(lifecycle.attempt_failed, (t.EventFailed, t.ImpactFailed)),
    c.ClaimImpact: Rule(lifecycle.claim_impact, (t.ImpactClaimed,)),
    c.AcceptImpact: Rule(lifecycle.accept_impact, (t.ImpactAccepted,)),
    c.StartMaintenance: Rule(maintenance.begin, (t.MaintenanceStarted,)),
    c.PauseMaintenance: Rule(maintenance.pause, (t.MaintenanceChanged,)),
    c.ResumeMaintenance: Rule(maintenance.resume, (t.EventCancelled, t.MaintenanceChanged, t.WindowClosed)),
    c.RetryMaintenance: Rule(maintenance.retry, (t.MaintenanceRetried,)),
    c.CancelMaintenance: Rule(maintenance.cancel_all, (t.EventCancelled, t.MaintenanceChanged)),
    c.EnableScope: Rule(enable_scope, (t.ScopeEnabled,)),
    c.DisableScopes: Rule(disable_scopes, (t.ScopeDisabled,)),
    c.CreateToken: Rule(create_token, (t.TokenCreated, t.TokenRevoked)),
    c.RevokeToken: Rule(revoke_token, (t.TokenRevoked,)),
    c.BeginSession: Rule(begin_session, (t.SessionBegun, t.SessionEnded)),
    c.EndSession: Rule(end_session, (t.SessionEnded,)),
    c.CreateSubscription: Rule(receivers.create, (t.SubscriptionCreated,)),
    c.PauseSubscription: Rule(receivers.pause, (t.SubscriptionTurned,)),
    c.ResumeSubscription: Rule(receivers.resume, (t.SubscriptionTurned,)),
    c.DeleteSubscription: Rule(receivers.delete, (t.SubscriptionDeleted,)),
    c.ReplaySubscription: Rule(receivers.replay, (t.SubscriptionReplayed,)),
    c.ClaimPushes: Rule(receivers.claim_pushes, (t.PushesClaimed,)),
    c.ReportReceiver: Rule(receivers.report_receiver, (t.SubscriptionTurned,)),
    c.NotePushes: Rule(receivers.note_pushes, (t.PushNoted, t.PushDeadLettered)),
    c.LiftIncarnations: Rule(_lift, (t.IncarnationsLifted,)),
    c.MarkClock: Rule(_mark_clock, (t.ClockMarked,)),
    c.Tick: Rule(
        due.tick,
        (
            t.EventRaised,
            t.EventStarted,
            t.EventCompleted,
            t.MaintenanceChanged,
            t.WindowClosed,
            t.StepBegun,
            t.StepEnded,
            *GONE,
            *MOVED,
        ),
    ),
}
"""Command, its rule, and the records that it may give; tests hold every command that they give to this table."""
