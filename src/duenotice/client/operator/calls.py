"""Every call of the operator's API: what is sent, and the type of the answer. Pure.

`client` binds each of them to both clients by one line. The beginning of an id is enough, if no other begins like it.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from msgspec.structs import asdict

from duenotice.client.operator.request import (
    ListRequest,
    OperatorRequest,
    QueryValue,
    SpanToGive,
    delete,
    format_span,
    get,
    post,
    probe,
    put,
)
from duenotice.wire import operator as w


def vms(*, group: str = "", host: str = "", state: str = "", q: str = "", listens: str = "") -> ListRequest[w.Vm]:
    """All VMs by name, or those of a group, on a host, in some states, with `q` in their name, or that listen."""
    return ListRequest(w.Vm, "vms", group=group, host=host, state=state, q=q, listens=listens)


def vm_table(asked: w.VmQuery, *, offset: int = 0, limit: int = 100) -> OperatorRequest[w.VmTable]:
    """VMs as a table, by name (failed ones first) or as `sort` says: some rows of it, and how many match in all."""
    return get(w.VmTable, "vm-table", **asdict(asked), offset=offset, limit=limit)


def vm(name: str) -> OperatorRequest[w.VmWithEvents]:
    """One VM and the events that hit it."""
    return get(w.VmWithEvents, "vms", name)


def document(vm: str, api_version: str = "") -> OperatorRequest[w.Document]:
    """The document as this VM reads it, by default in the newest api-version."""
    return get(w.Document, "vms", vm, "document", api_version=api_version)


def document_bytes(vm: str, api_version: str = "") -> OperatorRequest[bytes]:
    """The same, byte for byte."""
    return get(bytes, "vms", vm, "document", api_version=api_version)


def listen_vm(name: str) -> OperatorRequest[w.Vm]:
    """Poll for the first time on behalf of a VM: from then on it is told of events."""
    return post(w.Vm, "vms", name, "listen")


def restart_vm(name: str) -> OperatorRequest[w.Raised]:
    """Restart it, as its user would."""
    return post(w.Raised, "vms", name, "restart")


def redeploy_vm(name: str) -> OperatorRequest[w.Raised]:
    """Redeploy it, as its user would."""
    return post(w.Raised, "vms", name, "redeploy")


def delete_vm(name: str) -> OperatorRequest[w.Raised]:
    """Delete it, as its user would."""
    return post(w.Raised, "vms", name, "delete")


def evict_vm(name: str) -> OperatorRequest[w.Raised]:
    """Evict a spot VM."""
    return post(w.Raised, "vms", name, "evict")


def set_vm_policy(name: str, policy: w.PolicyRequest) -> OperatorRequest[w.Vm]:
    """Say which events of a VM are approved beforehand; what is left out is left to its set."""
    return put(w.Vm, "vms", name, "policy", body=policy)


def set_fault(vm: str, answer: str, lasts: SpanToGive) -> OperatorRequest[w.Fault]:
    """Give a VM wrong answers for a while, to test its client."""
    return put(w.Fault, "vms", vm, "fault", body=w.FaultRequest(answer, format_span(lasts)))


def lift_fault(vm: str) -> OperatorRequest[None]:
    """Answer a VM correctly again."""
    return delete("vms", vm, "fault")


def jump_incarnation(vm: str) -> OperatorRequest[w.Jumped]:
    """Let incarnations jump ahead, as after a restore. It cannot be undone."""
    return post(w.Jumped, "vms", vm, "jump")


# groups


def groups() -> ListRequest[w.Group]:
    """All sets, scale sets and cloud services by key."""
    return ListRequest(w.Group, "groups")


def group(kind: str, name: str) -> OperatorRequest[w.Group]:
    """One group; its kind is one of `GROUP_KINDS`."""
    return get(w.Group, "groups", kind, name)


def set_group_policy(kind: str, name: str, policy: w.PolicyRequest) -> OperatorRequest[w.Group]:
    """Say which events of a set or scale set are approved beforehand, where a VM says nothing itself."""
    return put(w.Group, "groups", kind, name, "policy", body=policy)


def scale(scale_set: str, *, capacity: int | None = None, by: int | None = None) -> OperatorRequest[w.Scaled]:
    """Give a scale set another capacity, or add or remove a number of instances."""
    return post(w.Scaled, "scale-sets", scale_set, "scale", body=w.ScaleRequest(capacity, by))


def delete_instances(scale_set: str, instances: Iterable[str]) -> OperatorRequest[w.Scaled]:
    """Delete these instances of a scale set; if one does not exist, delete none."""
    body = w.DeleteRequest(tuple(instances))
    return post(w.Scaled, "scale-sets", scale_set, "delete-instances", body=body)


# hosts


def hosts() -> ListRequest[w.Host]:
    """All hosts by name."""
    return ListRequest(w.Host, "hosts")


def host(name: str) -> OperatorRequest[w.Host]:
    """Its condition, and how many VMs run there."""
    return get(w.Host, "hosts", name)


def drain_host(
    name: str, *, settle: SpanToGive = "0s", at_once: int = 0, stop: bool = False
) -> OperatorRequest[w.Maintenance]:
    """Move all VMs of a host away: a maintenance of live migrations; with `stop` shut them down meanwhile."""
    asked = w.DrainRequest(format_span(settle), at_once, stop)
    return post(w.Maintenance, "hosts", name, "drain", body=asked)


def bring_back(name: str, asked: w.ReturnRequest | None = None) -> OperatorRequest[w.Maintenance]:
    """Bring back the VMs that were moved away while a host was drained; it must be in service again."""
    return post(w.Maintenance, "hosts", name, "return", body=asked or w.ReturnRequest())


def leave_moved(name: str) -> OperatorRequest[w.Raised]:
    """VMs that were moved away from a host stay where they are."""
    return post(w.Raised, "hosts", name, "leave")


def degrade_host(name: str, *, risk: str | None = None, notice: SpanToGive | None = None) -> OperatorRequest[w.Raised]:
    """Predict a host's failure, by a risk (one of `RISKS`) or by the notice itself."""
    body = w.DegradeRequest(risk, None if notice is None else format_span(notice))
    return post(w.Raised, "hosts", name, "degrade", body=body)


def fail_host(name: str) -> OperatorRequest[w.Raised]:
    """A host has failed: its VMs are hit already."""
    return post(w.Raised, "hosts", name, "fail")


def hold_host(name: str) -> OperatorRequest[w.Raised]:
    """Take a host out of service: nothing moves there until it is repaired."""
    return post(w.Raised, "hosts", name, "hold")


def repair_host(name: str) -> OperatorRequest[w.Raised]:
    """A host is healthy again: what its degradation had scheduled is cancelled, and what still drains it."""
    return post(w.Raised, "hosts", name, "repair")


# the fleet


def fleet() -> OperatorRequest[w.Fleet]:
    """How much there is of everything, and how far the journal has come."""
    return get(w.Fleet, "fleet")


def apply_fleet(toml: str | bytes, *, dry_run: bool = False) -> OperatorRequest[w.FleetChange]:
    """Apply a fleet file; with `dry_run` only say what would change."""
    return put(w.FleetChange, "fleet", toml=toml, dry_run=dry_run)


def states(
    *, group: str = "", host: str = "", state: str = "", q: str = "", listens: str = "", limit: int = 100
) -> OperatorRequest[w.States]:
    """The fleet in numbers, its most urgent groups first; `limit` is how many groups."""
    chosen = {"group": group, "host": host, "state": state, "q": q, "listens": listens}
    return get(w.States, "states", **chosen, limit=limit)


def attention() -> OperatorRequest[w.Attention]:
    """What needs a person now, and how far each maintenance is."""
    return get(w.Attention, "attention")


# events


def events(*, vm: str = "", scope: str = "", type: str = "", phase: str = "") -> ListRequest[w.Event]:
    """All live events, soonest first, or those that hit a VM, of a scope, a type, a phase."""
    return ListRequest(w.Event, "events", vm=vm, scope=scope, type=type, phase=phase)


def event_table(asked: w.EventQuery, *, offset: int = 0, limit: int = 100) -> OperatorRequest[w.EventTable]:
    """Events as a table, the most urgent first: some rows of it, and how many match in all."""
    return get(w.EventTable, "event-table", **asdict(asked), offset=offset, limit=limit)


def event(event_id: str) -> OperatorRequest[w.Event]:
    """One live event."""
    return get(w.Event, "events", event_id)


def schedule_event(
    type: str,
    vms: Iterable[str],
    *,
    not_before: datetime | None = None,
    description: str | None = None,
    duration: int | None = None,
    cause: str = w.CAUSES_TO_GIVE[0],
) -> OperatorRequest[w.Raised]:
    """Schedule one event, of one of `EVENT_TYPES`, that hits these VMs."""
    body = w.ScheduleRequest(type, tuple(vms), not_before, description, duration, cause)
    return post(w.Raised, "events", body=body)


def approve_event(event_id: str) -> OperatorRequest[w.Event]:
    """Approve an event: it starts now. The answer is the event as it is then."""
    return post(w.Event, "events", event_id, "approve")


def report_event(event_id: str, failure: str = "") -> OperatorRequest[w.Event]:
    """Report that an impact is over, or why it failed. The answer is the event as it was."""
    return post(w.Event, "events", event_id, "report", body=w.ReportRequest(failure))


def cancel_event(event_id: str, reason: str = "") -> OperatorRequest[w.Event]:
    """Cancel a scheduled event. The answer is the event as it was."""
    return post(w.Event, "events", event_id, "cancel", body=w.CancelRequest(reason))


def acknowledge_event(event_id: str, note: str = "") -> OperatorRequest[w.Event]:
    """Say that somebody takes care of an event that failed. The answer is the event as it failed."""
    return post(w.Event, "events", event_id, "acknowledge", body=w.AcknowledgeRequest(note))


def event_history(event_id: str) -> ListRequest[w.Record]:
    """What happened to an event, also when it is over: its records, oldest first."""
    return ListRequest(w.Record, "events", event_id, "history")


def event_life(event_id: str) -> OperatorRequest[w.Life]:
    """One event with its moments, also when it is over."""
    return get(w.Life, "timeline", event_id)


def timeline(
    *, from_: datetime | None = None, to: datetime | None = None, type: str = "", vm: str = ""
) -> OperatorRequest[w.Lives]:
    """Events of a span of time with their moments; by default from an hour ago to a week ahead."""
    return get(w.Lives, "timeline", from_=from_, to=to, type=type, vm=vm)


def search(q: str, *, limit: int = 20) -> OperatorRequest[w.Hits]:
    """VMs, groups, hosts, events and maintenances by a part of what names them, the best hits first."""
    return get(w.Hits, "search", q=q, limit=limit)


def history(
    *, from_: datetime | None = None, to: datetime | None = None, group: str = "", vm: str = ""
) -> OperatorRequest[w.History]:
    """The past in numbers, day by day; by default the last 30 days."""
    return get(w.History, "history", from_=from_, to=to, group=group, vm=vm)


# maintenances


def maintenances(*, status: str = "") -> ListRequest[w.Maintenance]:
    """All maintenances, oldest first, or those in one of `MAINTENANCE_STATUSES`."""
    return ListRequest(w.Maintenance, "maintenances", status=status)


def maintenance(plan_id: str) -> OperatorRequest[w.Maintenance]:
    """One maintenance."""
    return get(w.Maintenance, "maintenances", plan_id)


def steps(plan_id: str, *, status: str = "") -> ListRequest[w.Step]:
    """The steps of a maintenance, or those in one of `STEP_STATUSES`; `NotFound` when they are kept no more."""
    return ListRequest(w.Step, "maintenances", plan_id, "steps", status=status)


def begin_maintenance(plan: w.MaintenanceRequest) -> OperatorRequest[w.Maintenance]:
    """Begin to work through VMs, one update domain of a set at a time; `preview_maintenance` shows it before."""
    return post(w.Maintenance, "maintenances", body=plan)


def preview_maintenance(
    plan: w.MaintenanceRequest, *, cursor: str = "", limit: int = 1000
) -> OperatorRequest[w.Timeline]:
    """When the steps of a maintenance would begin, if nobody approved anything: one page. Nothing is done."""
    return post(w.Timeline, "maintenances", body=plan, dry_run=True, cursor=cursor, limit=limit)


def outlook(plan_id: str, *, cursor: str = "", limit: int = 1000) -> OperatorRequest[w.Timeline]:
    """When the steps to come of a maintenance would begin: one page."""
    return get(w.Timeline, "maintenances", plan_id, "outlook", cursor=cursor, limit=limit)


def pause_maintenance(plan_id: str) -> OperatorRequest[w.Maintenance]:
    """Begin no more steps of it."""
    return post(w.Maintenance, "maintenances", plan_id, "pause")


def resume_maintenance(
    plan_id: str, *, window: str = "", start: datetime | None = None
) -> OperatorRequest[w.Maintenance]:
    """Go on with it; a new window or start replaces what it had."""
    return post(w.Maintenance, "maintenances", plan_id, "resume", body=w.TurnRequest(start, window))


def retry_maintenance(
    plan_id: str, *, window: str = "", start: datetime | None = None
) -> OperatorRequest[w.Maintenance]:
    """Try the steps again that have failed, and go on with it."""
    return post(w.Maintenance, "maintenances", plan_id, "retry", body=w.TurnRequest(start, window))


def acknowledge_maintenance(plan_id: str, note: str = "") -> OperatorRequest[w.Maintenance]:
    """Say that somebody takes care of all that has failed in it."""
    return post(w.Maintenance, "maintenances", plan_id, "acknowledge", body=w.AcknowledgeRequest(note))


def cancel_maintenance(plan_id: str) -> OperatorRequest[w.Maintenance]:
    """Cancel what has not started of it."""
    return post(w.Maintenance, "maintenances", plan_id, "cancel")


# the clock


def clock() -> OperatorRequest[w.Clock]:
    """What time it is at the service."""
    return get(w.Clock, "clock")


def advance_clock(by: SpanToGive) -> OperatorRequest[w.Clock]:
    """Let time pass on a manual clock; all that is due has happened when this returns."""
    return post(w.Clock, "clock", "advance", body=w.AdvanceRequest(format_span(by)))


def set_speed(speed: str) -> OperatorRequest[w.Clock]:
    """Another speed for a scaled clock: `60x`."""
    return post(w.Clock, "clock", "speed", body=w.SpeedRequest(speed))


def azure() -> OperatorRequest[w.AzureDoor]:
    """Where `az` and the Azure SDKs find this service."""
    return get(w.AzureDoor, "azure")


# tokens


def me() -> OperatorRequest[w.Token]:
    """Whose token this is."""
    return get(w.Token, "me")


def tokens() -> ListRequest[w.Token]:
    """All tokens by name, without their secrets."""
    return ListRequest(w.Token, "tokens")


def create_token(name: str, role: str, only: str = "") -> OperatorRequest[w.NewToken]:
    """A new token with one of `ROLES`, of which the secret is only in this answer; `only` is for followers."""
    return post(w.NewToken, "tokens", body=w.TokenRequest(name, role, only), once=True)


def revoke_token(token_id: str) -> OperatorRequest[None]:
    """Refuse everybody who uses it from now on; a revoked token stays revoked."""
    return delete("tokens", token_id)


# subscriptions


def subscriptions() -> ListRequest[w.Subscription]:
    """All subscriptions, without their secrets."""
    return ListRequest(w.Subscription, "subscriptions")


def subscription(subscription_id: str) -> OperatorRequest[w.SubscriptionWithMessages]:
    """One subscription, with its dead letters."""
    return get(w.SubscriptionWithMessages, "subscriptions", subscription_id)


def create_subscription(request: w.SubscriptionRequest) -> OperatorRequest[w.NewSubscription]:
    """Tell a receiver of events by push; its secret is only in this answer, so this is never tried again."""
    return post(w.NewSubscription, "subscriptions", body=request, once=True)


def pause_subscription(subscription_id: str) -> OperatorRequest[w.Subscription]:
    """Deliver nothing until it is resumed."""
    return post(w.Subscription, "subscriptions", subscription_id, "pause")


def resume_subscription(subscription_id: str) -> OperatorRequest[w.Subscription]:
    """Ask its receiver again, then go on where it was."""
    return post(w.Subscription, "subscriptions", subscription_id, "resume")


def replay_subscription(subscription_id: str, events: Iterable[str] = ()) -> OperatorRequest[w.Subscription]:
    """Deliver dead letters again: all of it, or what is about these events."""
    body = w.ReplayRequest(tuple(events))
    return post(w.Subscription, "subscriptions", subscription_id, "replay", body=body)


def delete_subscription(subscription_id: str) -> OperatorRequest[None]:
    """Tell this receiver nothing any more."""
    return delete("subscriptions", subscription_id)


# what has happened


def audit(
    *,
    actor: str = "",
    action: str = "",
    event: str = "",
    from_: datetime | None = None,
    to: datetime | None = None,
    after: int | None = None,
    before: int | None = None,
) -> ListRequest[w.Record]:
    """What has happened, oldest first, or with `before` newest first; an action is one of `ACTIONS`."""
    asked: dict[str, QueryValue] = {"actor": actor, "action": action, "event": event, "from_": from_, "to": to}
    return ListRequest(w.Record, "audit", **asked, after=after, before=before)


# nodes


def nodes() -> OperatorRequest[w.NodesSeen]:
    """The nodes of the service, as the asked one sees them: who leads, how far each is, and who is away."""
    return get(w.NodesSeen, "nodes")


# the service itself: these need no token


def alive() -> OperatorRequest[w.Health]:
    """Whether the process lives."""
    return probe(w.Health, "/livez")


def ready() -> OperatorRequest[w.Health]:
    """Whether it takes requests; if not, that is Unavailable."""
    return probe(w.Health, "/readyz")


def checks() -> OperatorRequest[str]:
    """What it checks to be ready, one line for each."""
    return probe(str, "/readyz", verbose="1")


def version() -> OperatorRequest[w.Version]:
    """Which duenotice this is."""
    return probe(w.Version, "/version")


def metrics() -> OperatorRequest[str]:
    """Its metrics, in the text format of Prometheus."""
    return probe(str, "/metrics")


def openapi() -> OperatorRequest[dict[str, Any]]:
    """The description of the whole API."""
    return probe(dict[str, Any], "/openapi.json")
