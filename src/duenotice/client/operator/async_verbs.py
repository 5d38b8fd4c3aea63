"""The verbs of `verbs.py` with `await`: made from it by `tools/async_verbs.py`; change that one."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from datetime import datetime
from typing import Any, TypeVar

from msgspec.structs import asdict

from duenotice.client.operator.async_listing import AsyncListing
from duenotice.client.operator.request import (
    OperatorRequest,
    QueryValue,
    SpanToGive,
    delete,
    get,
    post,
    probe,
    put,
    spelt,
)
from duenotice.wire import operator as w

T = TypeVar("T")


class AsyncVerbs(ABC):
    """What an operator can ask and do. The beginning of an id is enough, if no other id begins like it."""

    @abstractmethod
    async def _do(self, request: OperatorRequest[T]) -> T: ...

    @abstractmethod
    def _all(self, kind: type[T], *path: str, **query: QueryValue) -> AsyncListing[T]: ...

    def vms(
        self, *, group: str = "", host: str = "", state: str = "", q: str = "", listens: str = ""
    ) -> AsyncListing[w.Vm]:
        """All VMs by name, or those of a group, on a host, in some states, with `q` in their name, or that listen."""
        return self._all(w.Vm, "vms", group=group, host=host, state=state, q=q, listens=listens)

    async def vm_table(self, asked: w.VmQuery, *, offset: int = 0, limit: int = 100) -> w.VmTable:
        """VMs as a table, by name (failed ones first) or as `sort` says: some rows of it, and how many match in all."""
        return await self._do(get(w.VmTable, "vm-table", **asdict(asked), offset=offset, limit=limit))

    async def vm(self, name: str) -> w.VmWithEvents:
        """One VM and the events that hit it."""
        return await self._do(get(w.VmWithEvents, "vms", name))

    async def document(self, vm: str, api_version: str = "") -> w.Document:
        """The document as this VM reads it, by default in the newest api-version."""
        return await self._do(get(w.Document, "vms", vm, "document", api_version=api_version))

    async def document_bytes(self, vm: str, api_version: str = "") -> bytes:
        """The same, byte for byte."""
        return await self._do(get(bytes, "vms", vm, "document", api_version=api_version))

    async def listen_vm(self, name: str) -> w.Vm:
        """Poll for the first time on behalf of a VM: from then on it is told of events."""
        return await self._do(post(w.Vm, "vms", name, "listen"))

    async def restart_vm(self, name: str) -> w.Raised:
        """Restart it, as its user would."""
        return await self._do(post(w.Raised, "vms", name, "restart"))

    async def redeploy_vm(self, name: str) -> w.Raised:
        """Redeploy it, as its user would."""
        return await self._do(post(w.Raised, "vms", name, "redeploy"))

    async def delete_vm(self, name: str) -> w.Raised:
        """Delete it, as its user would."""
        return await self._do(post(w.Raised, "vms", name, "delete"))

    async def evict_vm(self, name: str) -> w.Raised:
        """Evict a spot VM."""
        return await self._do(post(w.Raised, "vms", name, "evict"))

    async def set_vm_policy(self, name: str, policy: w.PolicyRequest) -> w.Vm:
        """Say which events of a VM are approved beforehand; what is left out is left to its set."""
        return await self._do(put(w.Vm, "vms", name, "policy", body=policy))

    async def set_fault(self, vm: str, answer: str, lasts: SpanToGive) -> w.Fault:
        """Give a VM wrong answers for a while, to test its client."""
        return await self._do(put(w.Fault, "vms", vm, "fault", body=w.FaultRequest(answer, spelt(lasts))))

    async def lift_fault(self, vm: str) -> None:
        """Answer a VM correctly again."""
        return await self._do(delete("vms", vm, "fault"))

    async def jump_incarnation(self, vm: str) -> w.Jumped:
        """Let incarnations jump ahead, as after a restore. It cannot be undone."""
        return await self._do(post(w.Jumped, "vms", vm, "jump"))

    # groups

    def groups(self) -> AsyncListing[w.Group]:
        """All sets, scale sets and cloud services by key."""
        return self._all(w.Group, "groups")

    async def group(self, kind: str, name: str) -> w.Group:
        """One group; its kind is one of `GROUP_KINDS`."""
        return await self._do(get(w.Group, "groups", kind, name))

    async def set_group_policy(self, kind: str, name: str, policy: w.PolicyRequest) -> w.Group:
        """Say which events of a set or scale set are approved beforehand, where a VM says nothing itself."""
        return await self._do(put(w.Group, "groups", kind, name, "policy", body=policy))

    async def scale(self, scale_set: str, *, capacity: int | None = None, by: int | None = None) -> w.Scaled:
        """Give a scale set another capacity, or add or remove a number of instances."""
        return await self._do(post(w.Scaled, "scale-sets", scale_set, "scale", body=w.ScaleRequest(capacity, by)))

    async def delete_instances(self, scale_set: str, instances: Iterable[str]) -> w.Scaled:
        """Delete these instances of a scale set; if one does not exist, delete none."""
        body = w.DeleteRequest(tuple(instances))
        return await self._do(post(w.Scaled, "scale-sets", scale_set, "delete-instances", body=body))

    # hosts

    def hosts(self) -> AsyncListing[w.Host]:
        """All hosts by name."""
        return self._all(w.Host, "hosts")

    async def host(self, name: str) -> w.Host:
        """Its condition, and how many VMs run there."""
        return await self._do(get(w.Host, "hosts", name))

    async def drain_host(
        self, name: str, *, settle: SpanToGive = "0s", at_once: int = 0, stop: bool = False
    ) -> w.Maintenance:
        """Move all VMs of a host away: a maintenance of live migrations; with `stop` shut them down meanwhile."""
        asked = w.DrainRequest(spelt(settle), at_once, stop)
        return await self._do(post(w.Maintenance, "hosts", name, "drain", body=asked))

    async def bring_back(self, name: str, asked: w.ReturnRequest | None = None) -> w.Maintenance:
        """Bring back the VMs that were moved away while a host was drained; it must be in service again."""
        return await self._do(post(w.Maintenance, "hosts", name, "return", body=asked or w.ReturnRequest()))

    async def leave_moved(self, name: str) -> w.Raised:
        """VMs that were moved away from a host stay where they are."""
        return await self._do(post(w.Raised, "hosts", name, "leave"))

    async def degrade_host(self, name: str, *, risk: str | None = None, notice: SpanToGive | None = None) -> w.Raised:
        """Predict a host's failure, by a risk (one of `RISKS`) or by the notice itself."""
        body = w.DegradeRequest(risk, None if notice is None else spelt(notice))
        return await self._do(post(w.Raised, "hosts", name, "degrade", body=body))

    async def fail_host(self, name: str) -> w.Raised:
        """A host has failed: its VMs are hit already."""
        return await self._do(post(w.Raised, "hosts", name, "fail"))

    async def hold_host(self, name: str) -> w.Raised:
        """Take a host out of service: nothing moves there until it is repaired."""
        return await self._do(post(w.Raised, "hosts", name, "hold"))

    async def repair_host(self, name: str) -> w.Raised:
        """A host is healthy again: what its degradation had scheduled is cancelled, and what still drains it."""
        return await self._do(post(w.Raised, "hosts", name, "repair"))

    # the fleet

    async def fleet(self) -> w.Fleet:
        """How much there is of everything, and how far the journal has come."""
        return await self._do(get(w.Fleet, "fleet"))

    async def apply_fleet(self, toml: str | bytes, *, dry_run: bool = False) -> w.FleetChange:
        """Apply a fleet file; with `dry_run` only say what would change."""
        return await self._do(put(w.FleetChange, "fleet", toml=toml, dry_run=dry_run))

    async def states(
        self, *, group: str = "", host: str = "", state: str = "", q: str = "", listens: str = "", limit: int = 100
    ) -> w.States:
        """The fleet in numbers, its most urgent groups first; `limit` is how many groups."""
        chosen = {"group": group, "host": host, "state": state, "q": q, "listens": listens}
        return await self._do(get(w.States, "states", **chosen, limit=limit))

    async def attention(self) -> w.Attention:
        """What needs a person now, and how far each maintenance is."""
        return await self._do(get(w.Attention, "attention"))

    # events

    def events(self, *, vm: str = "", scope: str = "", type: str = "", phase: str = "") -> AsyncListing[w.Event]:
        """All live events, soonest first, or those that hit a VM, of a scope, a type, a phase."""
        return self._all(w.Event, "events", vm=vm, scope=scope, type=type, phase=phase)

    async def event_table(self, asked: w.EventQuery, *, offset: int = 0, limit: int = 100) -> w.EventTable:
        """Events as a table, the most urgent first: some rows of it, and how many match in all."""
        return await self._do(get(w.EventTable, "event-table", **asdict(asked), offset=offset, limit=limit))

    async def event(self, event_id: str) -> w.Event:
        """One live event."""
        return await self._do(get(w.Event, "events", event_id))

    async def schedule_event(
        self,
        type: str,
        vms: Iterable[str],
        *,
        not_before: datetime | None = None,
        description: str | None = None,
        duration: int | None = None,
        cause: str = w.CAUSES_TO_GIVE[0],
    ) -> w.Raised:
        """Schedule one event, of one of `EVENT_TYPES`, that hits these VMs."""
        body = w.ScheduleRequest(type, tuple(vms), not_before, description, duration, cause)
        return await self._do(post(w.Raised, "events", body=body))

    async def approve_event(self, event_id: str) -> w.Event:
        """Approve an event: it starts now. The answer is the event as it is then."""
        return await self._do(post(w.Event, "events", event_id, "approve"))

    async def report_event(self, event_id: str, failure: str = "") -> w.Event:
        """Report that an impact is over, or why it failed. The answer is the event as it was."""
        return await self._do(post(w.Event, "events", event_id, "report", body=w.ReportRequest(failure)))

    async def cancel_event(self, event_id: str, reason: str = "") -> w.Event:
        """Cancel a scheduled event. The answer is the event as it was."""
        return await self._do(post(w.Event, "events", event_id, "cancel", body=w.CancelRequest(reason)))

    async def acknowledge_event(self, event_id: str, note: str = "") -> w.Event:
        """Say that somebody takes care of an event that failed. The answer is the event as it failed."""
        return await self._do(post(w.Event, "events", event_id, "acknowledge", body=w.AcknowledgeRequest(note)))

    def event_history(self, event_id: str) -> AsyncListing[w.Record]:
        """What happened to an event, also when it is over: its records, oldest first."""
        return self._all(w.Record, "events", event_id, "history")

    async def event_life(self, event_id: str) -> w.Life:
        """One event with its moments, also when it is over."""
        return await self._do(get(w.Life, "timeline", event_id))

    async def timeline(
        self, *, from_: datetime | None = None, to: datetime | None = None, type: str = "", vm: str = ""
    ) -> w.Lives:
        """Events of a span of time with their moments; by default from an hour ago to a week ahead."""
        return await self._do(get(w.Lives, "timeline", from_=from_, to=to, type=type, vm=vm))

    async def search(self, q: str, *, limit: int = 20) -> w.Hits:
        """VMs, groups, hosts, events and maintenances by a part of what names them, the best hits first."""
        return await self._do(get(w.Hits, "search", q=q, limit=limit))

    async def history(
        self, *, from_: datetime | None = None, to: datetime | None = None, group: str = "", vm: str = ""
    ) -> w.History:
        """The past in numbers, day by day; by default the last 30 days."""
        return await self._do(get(w.History, "history", from_=from_, to=to, group=group, vm=vm))

    # maintenances

    def maintenances(self, *, status: str = "") -> AsyncListing[w.Maintenance]:
        """All maintenances, oldest first, or those in one of `MAINTENANCE_STATUSES`."""
        return self._all(w.Maintenance, "maintenances", status=status)

    async def maintenance(self, plan_id: str) -> w.Maintenance:
        """One maintenance."""
        return await self._do(get(w.Maintenance, "maintenances", plan_id))

    def steps(self, plan_id: str, *, status: str = "") -> AsyncListing[w.Step]:
        """The steps of a maintenance, or those in one of `STEP_STATUSES`; `NotFound` when they are kept no more."""
        return self._all(w.Step, "maintenances", plan_id, "steps", status=status)

    async def begin_maintenance(self, plan: w.MaintenanceRequest) -> w.Maintenance:
        """Begin to work through VMs, one update domain of a set at a time; `preview_maintenance` shows it before."""
        return await self._do(post(w.Maintenance, "maintenances", body=plan))

    async def preview_maintenance(
        self, plan: w.MaintenanceRequest, *, cursor: str = "", limit: int = 1000
    ) -> w.Timeline:
        """When the steps of a maintenance would begin, if nobody approved anything: one page. Nothing is done."""
        return await self._do(post(w.Timeline, "maintenances", body=plan, dry_run=True, cursor=cursor, limit=limit))

    async def outlook(self, plan_id: str, *, cursor: str = "", limit: int = 1000) -> w.Timeline:
        """When the steps to come of a maintenance would begin: one page."""
        return await self._do(get(w.Timeline, "maintenances", plan_id, "outlook", cursor=cursor, limit=limit))

    async def pause_maintenance(self, plan_id: str) -> w.Maintenance:
        """Begin no more steps of it."""
        return await self._do(post(w.Maintenance, "maintenances", plan_id, "pause"))

    async def resume_maintenance(
        self, plan_id: str, *, window: str = "", start: datetime | None = None
    ) -> w.Maintenance:
        """Go on with it; a new window or start replaces what it had."""
        return await self._do(post(w.Maintenance, "maintenances", plan_id, "resume", body=w.TurnRequest(start, window)))

    async def retry_maintenance(
        self, plan_id: str, *, window: str = "", start: datetime | None = None
    ) -> w.Maintenance:
        """Try the steps again that have failed, and go on with it."""
        return await self._do(post(w.Maintenance, "maintenances", plan_id, "retry", body=w.TurnRequest(start, window)))

    async def acknowledge_maintenance(self, plan_id: str, note: str = "") -> w.Maintenance:
        """Say that somebody takes care of all that has failed in it."""
        return await self._do(
            post(w.Maintenance, "maintenances", plan_id, "acknowledge", body=w.AcknowledgeRequest(note))
        )

    async def cancel_maintenance(self, plan_id: str) -> w.Maintenance:
        """Cancel what has not started of it."""
        return await self._do(post(w.Maintenance, "maintenances", plan_id, "cancel"))

    # the clock

    async def clock(self) -> w.Clock:
        """What time it is at the service."""
        return await self._do(get(w.Clock, "clock"))

    async def advance_clock(self, by: SpanToGive) -> w.Clock:
        """Let time pass on a manual clock; all that is due has happened when this returns."""
        return await self._do(post(w.Clock, "clock", "advance", body=w.AdvanceRequest(spelt(by))))

    async def set_speed(self, speed: str) -> w.Clock:
        """Another speed for a scaled clock: `60x`."""
        return await self._do(post(w.Clock, "clock", "speed", body=w.SpeedRequest(speed)))

    async def azure(self) -> w.AzureDoor:
        """Where `az` and the Azure SDKs find this service."""
        return await self._do(get(w.AzureDoor, "azure"))

    # tokens

    async def me(self) -> w.Token:
        """Whose token this is."""
        return await self._do(get(w.Token, "me"))

    def tokens(self) -> AsyncListing[w.Token]:
        """All tokens by name, without their secrets."""
        return self._all(w.Token, "tokens")

    async def create_token(self, name: str, role: str, only: str = "") -> w.NewToken:
        """A new token with one of `ROLES`, of which the secret is only in this answer; `only` is for followers."""
        return await self._do(post(w.NewToken, "tokens", body=w.TokenRequest(name, role, only), once=True))

    async def revoke_token(self, token_id: str) -> None:
        """Refuse everybody who uses it from now on; a revoked token stays revoked."""
        return await self._do(delete("tokens", token_id))

    # subscriptions

    def subscriptions(self) -> AsyncListing[w.Subscription]:
        """All subscriptions, without their secrets."""
        return self._all(w.Subscription, "subscriptions")

    async def subscription(self, subscription_id: str) -> w.SubscriptionWithMessages:
        """One subscription, with its dead letters."""
        return await self._do(get(w.SubscriptionWithMessages, "subscriptions", subscription_id))

    async def create_subscription(self, request: w.SubscriptionRequest) -> w.NewSubscription:
        """Tell a receiver of events by push; its secret is only in this answer, so this is never tried again."""
        return await self._do(post(w.NewSubscription, "subscriptions", body=request, once=True))

    async def pause_subscription(self, subscription_id: str) -> w.Subscription:
        """Deliver nothing until it is resumed."""
        return await self._do(post(w.Subscription, "subscriptions", subscription_id, "pause"))

    async def resume_subscription(self, subscription_id: str) -> w.Subscription:
        """Ask its receiver again, then go on where it was."""
        return await self._do(post(w.Subscription, "subscriptions", subscription_id, "resume"))

    async def replay_subscription(self, subscription_id: str, events: Iterable[str] = ()) -> w.Subscription:
        """Deliver dead letters again: all of it, or what is about these events."""
        body = w.ReplayRequest(tuple(events))
        return await self._do(post(w.Subscription, "subscriptions", subscription_id, "replay", body=body))

    async def delete_subscription(self, subscription_id: str) -> None:
        """Tell this receiver nothing any more."""
        return await self._do(delete("subscriptions", subscription_id))

    # what has happened

    def audit(
        self,
        *,
        actor: str = "",
        action: str = "",
        event: str = "",
        from_: datetime | None = None,
        to: datetime | None = None,
        after: int | None = None,
        before: int | None = None,
    ) -> AsyncListing[w.Record]:
        """What has happened, oldest first, or with `before` newest first; an action is one of `ACTIONS`."""
        asked: dict[str, QueryValue] = {"actor": actor, "action": action, "event": event, "from_": from_, "to": to}
        return self._all(w.Record, "audit", **asked, after=after, before=before)

    # nodes

    async def nodes(self) -> w.NodesSeen:
        """The nodes of the service, as the asked one sees them: who leads, how far each is, and who is away."""
        return await self._do(get(w.NodesSeen, "nodes"))

    # the service itself: these need no token

    async def alive(self) -> w.Health:
        """Whether the process lives."""
        return await self._do(probe(w.Health, "/livez"))

    async def ready(self) -> w.Health:
        """Whether it takes requests; if not, that is Unavailable."""
        return await self._do(probe(w.Health, "/readyz"))

    async def checks(self) -> str:
        """What it checks to be ready, one line for each."""
        return await self._do(probe(str, "/readyz", verbose="1"))

    async def version(self) -> w.Version:
        """Which duenotice this is."""
        return await self._do(probe(w.Version, "/version"))

    async def metrics(self) -> str:
        """Its metrics, in the text format of Prometheus."""
        return await self._do(probe(str, "/metrics"))

    async def openapi(self) -> dict[str, Any]:
        """The description of the whole API."""
        return await self._do(probe(dict[str, Any], "/openapi.json"))
