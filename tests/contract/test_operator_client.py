"""The operator's client against a real service: every verb, through every carrier."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from queue import Queue
from threading import Thread

import pytest

from duenotice.client import AsyncOperatorClient
from duenotice.client.operator.errors import Denied, UnknownToken
from duenotice.errors import Conflict, Malformed, NotFound, Refused, Unavailable
from duenotice.wire import operator as w
from tests.support.node import Node
from tests.support.operators import MakeOperator, operate

__all__ = ["operate"]
SECONDS = 30
FLEET = Path(__file__).parents[1] / "support" / "fleet.toml"
REBOOT_WEB = w.MaintenanceRequest(on=("set=web",), type="Reboot", settle="10s")


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(FLEET, allow_faults=True) as node:
        yield node


def test_vms_are_listed_shown_and_operated(node: Node, operate: MakeOperator) -> None:
    client = operate(node)
    assert [vm.name for vm in client.vms(group="set/web")] == [f"web-{number}" for number in range(5)]
    assert client.listen_vm("web-0").name == "web-0"
    (event,) = client.restart_vm("web-0").events
    assert (event.type, event.resources, event.not_before.tzinfo is not None) == ("Reboot", ("web-0",), True)
    assert client.vm("web-0").events == (event,)
    (shown,) = client.document("web-0").events
    assert shown.event_id == event.id
    assert event.id.encode() in client.document_bytes("web-0", "2019-08-01")
    client.listen_vm("db-0")
    assert [event.type for event in client.redeploy_vm("db-0").events] == ["Redeploy"]
    client.listen_vm("render-0")
    assert [event.type for event in client.evict_vm("render-0").events] == ["Preempt"]
    assert client.delete_vm("db-1").events == ()


def test_what_owners_approve_beforehand(node: Node, operate: MakeOperator) -> None:
    client = operate(node)
    client.listen_vm("web-0")
    client.listen_vm("db-0")
    assert client.set_group_policy("set", "web", w.PolicyRequest(user_initiated_reboot=True)).vms == 5
    assert client.set_vm_policy("db-0", w.PolicyRequest(user_initiated_reboot=False)).policy is not None
    born = [client.restart_vm(name).events[0] for name in ("web-0", "db-0")]
    assert [(event.phase, event.approved_by) for event in born] == [("started", "policy"), ("scheduled", None)]
    assert client.set_vm_policy("db-0", w.PolicyRequest()).policy is None
    with pytest.raises(Refused, match="web-1 is in set/web"):
        client.set_vm_policy("web-1", w.PolicyRequest())
    with pytest.raises(Malformed, match="'2020-07-02' is not an api-version"):
        client.set_vm_policy("db-0", w.PolicyRequest(scheduled_events_api_version="2020-07-02"))


def test_events_go_through_their_life(node: Node, operate: MakeOperator) -> None:
    client = operate(node)
    client.listen_vm("db-0")
    (event,) = client.schedule_event("Freeze", ["db-0"], description="a test", duration=9).events
    assert [each.id for each in client.events(vm="db-0", phase="scheduled")] == [event.id]
    assert client.event(event.id[:8]).description == "a test"
    assert client.approve_event(event.id).phase == "started"
    assert client.report_event(event.id).id == event.id
    assert next(record.action for record in client.event_history(event.id)) == "event-raised"
    assert client.event_life(event.id).outcome == "completed"
    (other,) = client.schedule_event("Reboot", ["db-0"], not_before=client.clock().now + timedelta(hours=2)).events
    assert client.cancel_event(other.id, "no need").id == other.id
    lives = client.timeline(from_=lives_from(client.clock()), vm="db-0")
    assert {life.id: life.outcome for life in lives.items} == {event.id: "completed", other.id: "cancelled"}


def lives_from(clock: w.Clock) -> datetime:
    return clock.now - timedelta(hours=1)


def test_maintenances_are_previewed_begun_and_turned(node: Node, operate: MakeOperator) -> None:
    client = operate(node)
    for number in range(5):
        client.listen_vm(f"web-{number}")
    assert [step.domain for step in client.preview_maintenance(REBOOT_WEB).timeline] == [0, 1, 2, 3, 4]
    assert list(client.maintenances()) == []
    plan = client.begin_maintenance(REBOOT_WEB)
    assert [step.domain for step in client.steps(plan.id)] == [0, 1, 2, 3, 4]
    assert [step.domain for step in client.steps(plan.id, status="under-way")] == [0]
    assert client.pause_maintenance(plan.id).status == "paused"
    assert client.resume_maintenance(plan.id).status == "running"
    assert len(client.outlook(plan.id).timeline) == 4
    assert [each.id for each in client.maintenances(status="running")] == [plan.id]
    assert client.cancel_maintenance(plan.id).status in ("cancelling", "cancelled")
    assert client.maintenance(plan.id).id == plan.id


def test_hosts_and_groups_are_operated(node: Node, operate: MakeOperator) -> None:
    client = operate(node)
    assert "host-1" in [host.name for host in client.hosts()]
    assert client.host("host-1").condition == "healthy"
    client.listen_vm("db-1")
    assert client.degrade_host("host-2", risk="high").events
    assert client.degrade_host("host-3", notice=timedelta(minutes=30)).events
    client.repair_host("host-2")
    assert client.hold_host("host-2").events == ()
    assert client.host("host-2").condition == "drained"
    client.repair_host("host-2")
    client.fail_host("host-3")
    plan = client.drain_host("host-1", settle="5s", at_once=1)
    assert (plan.cause, plan.settle, plan.at_once) == ("live-migration", 5.0, 1)
    assert client.leave_moved("host-1").events == ()
    with pytest.raises(Conflict, match="No VM is away from host-1"):
        client.bring_back("host-1", w.ReturnRequest(redeploy=True))
    assert "scale-set/batch" in [group.key for group in client.groups()]
    size = client.group("scale-set", "batch").vms
    added = client.scale("batch", by=1).added
    assert client.group("scale-set", "batch").vms == size + 1
    assert client.delete_instances("batch", added).removed == added
    assert client.scale("batch", capacity=size + 2).added


def test_the_fleet_its_states_and_faults(node: Node, operate: MakeOperator) -> None:
    client = operate(node)
    before = client.fleet()
    assert client.states(limit=1).vms == before.vms
    assert client.apply_fleet(FLEET.read_text(), dry_run=True).changes == 0
    assert client.set_fault("me", "500", timedelta(seconds=30)).answer == "500"
    client.lift_fault("me")
    assert client.jump_incarnation("me").vm == "me"
    changed = client.apply_fleet(b'[[vms]]\nname = "only"\naddress = "127.0.0.9"\n')
    assert changed.added == ("only",)
    assert client.fleet().vms == 1


def test_clock_tokens_audit_and_probes(node: Node, operate: MakeOperator) -> None:
    client = operate(node)
    before = client.clock().now
    assert client.advance_clock(timedelta(minutes=1.5)).now - before == timedelta(minutes=1.5)
    with pytest.raises(Refused, match="speed cannot be set"):
        client.set_speed("60x")
    made = client.create_token("night", "viewer")
    assert [token.name for token in client.tokens()] == ["admin", "night"]
    guest = operate(node, made.token)
    assert (guest.me().name, guest.me().role) == ("night", "viewer")
    client.revoke_token(made.id)
    with pytest.raises(UnknownToken):
        guest.me()
    actions = [record.action for record in client.audit(actor="token/admin")]
    assert {"token-created", "token-revoked"} <= set(actions) <= set(w.ACTIONS)
    assert (client.alive().status, client.ready().status) == ("ok", "ok")
    assert "engine ok" in client.checks()
    assert client.version().version
    assert "duenotice_" in client.metrics()
    assert "/v1/vms" in client.openapi()["paths"]


def test_a_long_list_is_read_page_after_page(node: Node, operate: MakeOperator) -> None:
    client = operate(node)
    names = [vm.name for vm in client.vms()]
    page = client.vms().page(limit=7)
    walked = [vm.name for vm in page.items]
    while page.next is not None:
        page = client.vms().page(page.next, limit=7)
        walked += [vm.name for vm in page.items]
    assert walked == names == sorted(names)
    assert [vm.name for vm in client.vms().first(3)] == names[:3]
    assert [vm.name for vm in client.vms().first(10**6)] == names


@pytest.mark.parametrize(
    ("ask", "kind", "words", "hint"),
    [
        (lambda client: client.vm("nobody"), NotFound, "There is no VM", "GET /v1/vms"),
        (lambda client: client.events(type="Party").page(), Malformed, "is not an event type", "Use one of Freeze"),
        (lambda client: client.evict_vm("me"), Refused, "spot", ""),
        (lambda client: client.create_token("admin", "viewer"), Conflict, "admin", ""),
        (lambda client: list(client.vms(group="nowhere")), NotFound, "There is no group", "There are"),
    ],
)
def test_what_the_service_says_reaches_the_caller_with_its_hint(
    node: Node, operate: MakeOperator, ask: object, kind: type[Exception], words: str, hint: str
) -> None:
    assert callable(ask)
    with pytest.raises(kind, match=words) as caught:
        ask(operate(node))
    assert type(caught.value) is kind
    assert hint in caught.value.hint  # type: ignore[attr-defined]
    assert caught.value.hint  # type: ignore[attr-defined]


def test_a_role_that_does_not_reach_is_denied(node: Node, operate: MakeOperator) -> None:
    guest = operate(node, operate(node).create_token("guest", "viewer").token)
    with pytest.raises(Denied, match="has the role viewer") as caught:
        guest.restart_vm("me")
    assert not isinstance(caught.value, UnknownToken)
    with pytest.raises(UnknownToken, match="needs a token"):
        operate(node, "").me()


def test_errors_are_told_in_the_words_of_who_asks(node: Node, operate: MakeOperator) -> None:
    def explain(error: Exception) -> Unavailable:
        return Unavailable(f"Sorry: {error}", hint="Another door.")

    with pytest.raises(Unavailable, match="Sorry: There is no VM") as caught:
        operate(node, explain=explain).vm("nobody")
    assert caught.value.hint == "Another door."


def test_the_feed_tells_what_happens_from_its_opening_on(node: Node, operate: MakeOperator) -> None:
    client = operate(node)
    with client.feed() as feed:
        client.listen_vm("db-0")
        (event,) = client.restart_vm("db-0").events
        told = [next(feed), next(feed)]
    assert [record.action for record in told] == ["scope-enabled", "event-raised"]
    assert told[1].details.event == event
    assert feed.position == told[1].position
    with client.feed(after=told[0].position) as again:
        assert next(again) == told[1]


def test_the_feed_ends_with_the_token(node: Node, operate: MakeOperator) -> None:
    client = operate(node)
    made = client.create_token("night", "viewer")
    with operate(node, made.token).feed() as feed:
        client.revoke_token(made.id)
        with pytest.raises(UnknownToken):
            next(feed)


def test_a_feed_that_is_refused_says_why(node: Node, operate: MakeOperator) -> None:
    with pytest.raises(UnknownToken, match="needs a token"), operate(node, "").feed():
        pass


def test_who_gives_up_waiting_can_go_on_later(node: Node) -> None:
    """Nothing is lost, and the connection stays: nobody is told of a loss."""

    async def wait_twice(client: AsyncOperatorClient, vm: str) -> tuple[str, list[object]]:
        lost: list[object] = []
        async with client, client.feed(on_lost=lost.append) as feed:
            for _ in range(3):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.02):
                        await anext(feed)
            await client.listen_vm(vm)
            return (await anext(feed)).action, lost

    network = AsyncOperatorClient("http://{}:{}".format(*node.operator_address), node.token)
    assert asyncio.run(wait_twice(network, "db-0")) == ("scope-enabled", [])
    in_process = AsyncOperatorClient.in_process(node.service.operator_app, node.token, node.emulator._loop)
    assert asyncio.run(wait_twice(in_process, "db-1")) == ("scope-enabled", [])


def test_a_feed_that_nobody_reads_can_be_closed() -> None:
    """However much of it waits."""

    async def talkative(_: object, __: object, send: Callable[[dict[str, object]], Awaitable[None]]) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for number in range(5000):
            await send({"type": "http.response.body", "body": b"id: %d\n\n" % number, "more_body": True})

    async def open_and_leave() -> int | None:
        async with asyncio.timeout(SECONDS), AsyncOperatorClient.in_process(talkative, "").feed() as feed:
            await asyncio.sleep(0.01)
        return feed.position

    assert asyncio.run(open_and_leave()) == 0


def test_a_feed_that_is_closed_while_somebody_waits_for_it_ends(node: Node, operate: MakeOperator) -> None:
    """It is how a program stops listening: no error, and no wait for the next sign of life."""
    told: Queue[str] = Queue()
    feed = operate(node).feed(on_lost=lambda _: told.put("lost"))
    feed.open()

    def listen() -> None:
        for record in feed:
            told.put(record.action)
        told.put("ended")

    Thread(target=listen, daemon=True).start()
    operate(node).listen_vm("db-0")
    assert told.get(timeout=SECONDS) == "scope-enabled"
    feed.close()
    assert told.get(timeout=SECONDS) == "ended"
    assert list(feed) == []
