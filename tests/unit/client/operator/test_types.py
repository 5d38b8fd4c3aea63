"""An example of each call, for the type checker: a caller gets the type that is said here, from either client."""

import asyncio
import inspect
from datetime import timedelta
from typing import Any, TypeVar, assert_type, get_origin

from duenotice.client.operator.client import AsyncOperatorClient, OperatorClient
from duenotice.client.operator.pages import AsyncPages, Pages
from duenotice.client.operator.request import ListRequest, OperatorRequest
from duenotice.wire import operator as w
from tests.unit.client.operator.test_calls import VERBS

T = TypeVar("T")
PLAN = w.MaintenanceRequest(("set=web",), "Reboot")
RECEIVER = w.SubscriptionRequest("https://hook.example/", "eventgrid")


def blocking(client: OperatorClient) -> None:
    """Each call, as a program writes it."""
    assert_type(client.vms(), Pages[w.Vm])
    assert_type(client.vm_table(w.VmQuery()), w.VmTable)
    assert_type(client.vm("x"), w.VmWithEvents)
    assert_type(client.document("x"), w.Document)
    assert_type(client.document_bytes("x"), bytes)
    assert_type(client.listen_vm("x"), w.Vm)
    assert_type(client.restart_vm("x"), w.Raised)
    assert_type(client.redeploy_vm("x"), w.Raised)
    assert_type(client.delete_vm("x"), w.Raised)
    assert_type(client.evict_vm("x"), w.Raised)
    assert_type(client.set_vm_policy("x", w.PolicyRequest()), w.Vm)
    assert_type(client.set_fault("x", "x", timedelta(seconds=30)), w.Fault)
    assert_type(client.lift_fault("x"), None)
    assert_type(client.jump_incarnation("x"), w.Jumped)
    assert_type(client.groups(), Pages[w.Group])
    assert_type(client.group("x", "x"), w.Group)
    assert_type(client.set_group_policy("x", "x", w.PolicyRequest()), w.Group)
    assert_type(client.scale("x"), w.Scaled)
    assert_type(client.delete_instances("x", ["x"]), w.Scaled)
    assert_type(client.hosts(), Pages[w.Host])
    assert_type(client.host("x"), w.Host)
    assert_type(client.drain_host("x"), w.Maintenance)
    assert_type(client.bring_back("x"), w.Maintenance)
    assert_type(client.leave_moved("x"), w.Raised)
    assert_type(client.degrade_host("x"), w.Raised)
    assert_type(client.fail_host("x"), w.Raised)
    assert_type(client.hold_host("x"), w.Raised)
    assert_type(client.repair_host("x"), w.Raised)
    assert_type(client.fleet(), w.Fleet)
    assert_type(client.apply_fleet(b""), w.FleetChange)
    assert_type(client.states(), w.States)
    assert_type(client.attention(), w.Attention)
    assert_type(client.events(), Pages[w.Event])
    assert_type(client.event_table(w.EventQuery()), w.EventTable)
    assert_type(client.event("x"), w.Event)
    assert_type(client.schedule_event("x", ["x"]), w.Raised)
    assert_type(client.approve_event("x"), w.Event)
    assert_type(client.report_event("x"), w.Event)
    assert_type(client.cancel_event("x"), w.Event)
    assert_type(client.acknowledge_event("x"), w.Event)
    assert_type(client.event_history("x"), Pages[w.Record])
    assert_type(client.event_life("x"), w.Life)
    assert_type(client.timeline(), w.Lives)
    assert_type(client.search("x"), w.Hits)
    assert_type(client.history(), w.History)
    assert_type(client.maintenances(), Pages[w.Maintenance])
    assert_type(client.maintenance("x"), w.Maintenance)
    assert_type(client.steps("x"), Pages[w.Step])
    assert_type(client.begin_maintenance(PLAN), w.Maintenance)
    assert_type(client.preview_maintenance(PLAN), w.Timeline)
    assert_type(client.outlook("x"), w.Timeline)
    assert_type(client.pause_maintenance("x"), w.Maintenance)
    assert_type(client.resume_maintenance("x"), w.Maintenance)
    assert_type(client.retry_maintenance("x"), w.Maintenance)
    assert_type(client.acknowledge_maintenance("x"), w.Maintenance)
    assert_type(client.cancel_maintenance("x"), w.Maintenance)
    assert_type(client.clock(), w.Clock)
    assert_type(client.advance_clock(timedelta(seconds=30)), w.Clock)
    assert_type(client.set_speed("x"), w.Clock)
    assert_type(client.azure(), w.AzureDoor)
    assert_type(client.me(), w.Token)
    assert_type(client.tokens(), Pages[w.Token])
    assert_type(client.create_token("x", "x"), w.NewToken)
    assert_type(client.revoke_token("x"), None)
    assert_type(client.subscriptions(), Pages[w.Subscription])
    assert_type(client.subscription("x"), w.SubscriptionWithMessages)
    assert_type(client.create_subscription(RECEIVER), w.NewSubscription)
    assert_type(client.pause_subscription("x"), w.Subscription)
    assert_type(client.resume_subscription("x"), w.Subscription)
    assert_type(client.replay_subscription("x"), w.Subscription)
    assert_type(client.delete_subscription("x"), None)
    assert_type(client.audit(), Pages[w.Record])
    assert_type(client.nodes(), w.NodesSeen)
    assert_type(client.alive(), w.Health)
    assert_type(client.ready(), w.Health)
    assert_type(client.checks(), str)
    assert_type(client.version(), w.Version)
    assert_type(client.metrics(), str)
    assert_type(client.openapi(), dict[str, Any])


async def streaming(client: AsyncOperatorClient) -> None:
    """The same with `await`."""
    assert_type(client.vms(), AsyncPages[w.Vm])
    assert_type(await client.vm_table(w.VmQuery()), w.VmTable)
    assert_type(await client.vm("x"), w.VmWithEvents)
    assert_type(await client.document("x"), w.Document)
    assert_type(await client.document_bytes("x"), bytes)
    assert_type(await client.listen_vm("x"), w.Vm)
    assert_type(await client.restart_vm("x"), w.Raised)
    assert_type(await client.redeploy_vm("x"), w.Raised)
    assert_type(await client.delete_vm("x"), w.Raised)
    assert_type(await client.evict_vm("x"), w.Raised)
    assert_type(await client.set_vm_policy("x", w.PolicyRequest()), w.Vm)
    assert_type(await client.set_fault("x", "x", timedelta(seconds=30)), w.Fault)
    assert_type(await client.lift_fault("x"), None)
    assert_type(await client.jump_incarnation("x"), w.Jumped)
    assert_type(client.groups(), AsyncPages[w.Group])
    assert_type(await client.group("x", "x"), w.Group)
    assert_type(await client.set_group_policy("x", "x", w.PolicyRequest()), w.Group)
    assert_type(await client.scale("x"), w.Scaled)
    assert_type(await client.delete_instances("x", ["x"]), w.Scaled)
    assert_type(client.hosts(), AsyncPages[w.Host])
    assert_type(await client.host("x"), w.Host)
    assert_type(await client.drain_host("x"), w.Maintenance)
    assert_type(await client.bring_back("x"), w.Maintenance)
    assert_type(await client.leave_moved("x"), w.Raised)
    assert_type(await client.degrade_host("x"), w.Raised)
    assert_type(await client.fail_host("x"), w.Raised)
    assert_type(await client.hold_host("x"), w.Raised)
    assert_type(await client.repair_host("x"), w.Raised)
    assert_type(await client.fleet(), w.Fleet)
    assert_type(await client.apply_fleet(b""), w.FleetChange)
    assert_type(await client.states(), w.States)
    assert_type(await client.attention(), w.Attention)
    assert_type(client.events(), AsyncPages[w.Event])
    assert_type(await client.event_table(w.EventQuery()), w.EventTable)
    assert_type(await client.event("x"), w.Event)
    assert_type(await client.schedule_event("x", ["x"]), w.Raised)
    assert_type(await client.approve_event("x"), w.Event)
    assert_type(await client.report_event("x"), w.Event)
    assert_type(await client.cancel_event("x"), w.Event)
    assert_type(await client.acknowledge_event("x"), w.Event)
    assert_type(client.event_history("x"), AsyncPages[w.Record])
    assert_type(await client.event_life("x"), w.Life)
    assert_type(await client.timeline(), w.Lives)
    assert_type(await client.search("x"), w.Hits)
    assert_type(await client.history(), w.History)
    assert_type(client.maintenances(), AsyncPages[w.Maintenance])
    assert_type(await client.maintenance("x"), w.Maintenance)
    assert_type(client.steps("x"), AsyncPages[w.Step])
    assert_type(await client.begin_maintenance(PLAN), w.Maintenance)
    assert_type(await client.preview_maintenance(PLAN), w.Timeline)
    assert_type(await client.outlook("x"), w.Timeline)
    assert_type(await client.pause_maintenance("x"), w.Maintenance)
    assert_type(await client.resume_maintenance("x"), w.Maintenance)
    assert_type(await client.retry_maintenance("x"), w.Maintenance)
    assert_type(await client.acknowledge_maintenance("x"), w.Maintenance)
    assert_type(await client.cancel_maintenance("x"), w.Maintenance)
    assert_type(await client.clock(), w.Clock)
    assert_type(await client.advance_clock(timedelta(seconds=30)), w.Clock)
    assert_type(await client.set_speed("x"), w.Clock)
    assert_type(await client.azure(), w.AzureDoor)
    assert_type(await client.me(), w.Token)
    assert_type(client.tokens(), AsyncPages[w.Token])
    assert_type(await client.create_token("x", "x"), w.NewToken)
    assert_type(await client.revoke_token("x"), None)
    assert_type(client.subscriptions(), AsyncPages[w.Subscription])
    assert_type(await client.subscription("x"), w.SubscriptionWithMessages)
    assert_type(await client.create_subscription(RECEIVER), w.NewSubscription)
    assert_type(await client.pause_subscription("x"), w.Subscription)
    assert_type(await client.resume_subscription("x"), w.Subscription)
    assert_type(await client.replay_subscription("x"), w.Subscription)
    assert_type(await client.delete_subscription("x"), None)
    assert_type(client.audit(), AsyncPages[w.Record])
    assert_type(await client.nodes(), w.NodesSeen)
    assert_type(await client.alive(), w.Health)
    assert_type(await client.ready(), w.Health)
    assert_type(await client.checks(), str)
    assert_type(await client.version(), w.Version)
    assert_type(await client.metrics(), str)
    assert_type(await client.openapi(), dict[str, Any])


class Noted(OperatorClient):
    """Sends nothing."""

    def __init__(self) -> None:
        self.targets: list[str] = []

    def _send(self, request: OperatorRequest[T]) -> T:
        self.targets.append(f"{request.method} {request.target}")
        nothing: Any = None
        return nothing  # type: ignore[no-any-return]


class AsyncNoted(AsyncOperatorClient):
    """Sends nothing."""

    def __init__(self) -> None:
        self.targets: list[str] = []

    async def _send(self, request: OperatorRequest[T]) -> T:
        self.targets.append(f"{request.method} {request.target}")
        nothing: Any = None
        return nothing  # type: ignore[no-any-return]


def test_both_clients_ask_the_same_with_each_example() -> None:
    """Lists are asked for when they are read."""
    first, second = Noted(), AsyncNoted()
    blocking(first)
    asyncio.run(streaming(second))
    assert first.targets == second.targets
    lists = [verb for verb in VERBS.values() if get_origin(inspect.signature(verb).return_annotation) is ListRequest]
    assert len(first.targets) + len(lists) == len(VERBS)
