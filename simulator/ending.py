"""The end of a world: all faults are over; what was promised is there, what is due comes, and everything ends."""

import asyncio
import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from duenotice.clock import micros_of
from duenotice.domain.event import Phase
from duenotice.domain.fleet import scope_of
from simulator.agents_in_world import heal_agents, settle_agents
from simulator.clients import FAILURES, poll
from simulator.machine import BEGIN
from simulator.sweep import sweep

if TYPE_CHECKING:
    from simulator.world import World

PATIENCE = 6 * 3600.0
"""Seconds within which all maintenances and events must have ended."""
HOUR = timedelta(hours=1)
STARTS = 300.0
"""Seconds within which every node must be up again."""
MOST_CONNECTIONS = 200
"""Far more than there are VMs, each of which keeps one connection to a node."""
NOTICE = 603.0
"""Seconds of notice before a Redeploy, with what is added for the commit and for rounding."""


async def come_to_rest(world: "World") -> None:
    """Heal, and hold the world against the liveness list."""
    await sweep(world, waits=False)
    await _heal(world)
    await _let_operators_finish(world)
    world.judge.check_promises()
    await _let_all_end(world)
    await _probe(world)
    await _compare_audit(world)
    world.judge.check_promises()
    world.judge.check_looks()
    _check_bounds(world)
    await settle_agents(world)
    await sweep(world, waits=True)


async def _heal(world: "World") -> None:
    world.say("world", "all faults are over")
    world.network.chances = dict.fromkeys(world.network.chances, 0.0)
    world.network.cut.clear()
    world.heal_stores()
    _set_clocks(world)
    heal_agents(world)
    world.outside.heal()
    for follower in world.followers.values():
        follower.heal()
    for node in world.nodes.values():
        node.machine.set_drift(0.0)
        if node.process is not None:
            node.process.go_on()
        if not node.is_there:
            world.start_later(node, 1.0)
    world.wake_old_processes()
    world.look_around()
    while world.shape.nodes > 1 and world.store.is_away:  # noqa: ASYNC110 - made-up time passes at once
        await asyncio.sleep(5.0)
    waited = 0.0
    while not all(node.is_up and node.runs for node in world.nodes.values()) or _silent_followers(world):
        await asyncio.sleep(5.0)
        waited += 5.0
        if waited > STARTS:
            down = [f"{node.name}: {node.trouble}" for node in world.nodes.values() if not node.is_up]
            down += _silent_followers(world)
            world.broken(f"liveness: nodes do not come up: {down}")
            return
    # A follower that was killed is waited for until its right is over; a leader that waits for it may lose the lead.
    await asyncio.sleep(15.0 if not world.followers else 15.0 + 3 * world.shape.lease)


def _silent_followers(world: "World") -> list[str]:
    return [follower.name for follower in world.followers.values() if not follower.may_answer]


def _set_clocks(world: "World") -> None:
    """Somebody sets the clocks of nodes that are behind the journal: time of day stands still at such a leader (N10).

    That is how it should be, for what NotBefore says stays true. But if a clock was days ahead it takes days. So no
    clock is left ahead of the others either: its node may lead for a moment.
    """
    told = [stored.record.at for stored in world.observatory.log.values()]
    last = max([BEGIN, *told, *(node.machine.wall() for node in world.nodes.values())])
    if world.shape.nodes > 1:
        for node in world.nodes.values():
            node.machine.set_wall_right(last)


async def _let_operators_finish(world: "World") -> None:
    """Requests of operators that were lost are sent again, until they are answered or given up.

    What they ask for must not come later: advice that nobody withdraws would stay for ever, and a fleet that is applied
    again may take the VM away that is probed.
    """
    end = world.loop.time() + PATIENCE
    while world.operator.under_way and world.loop.time() < end:  # noqa: ASYNC110 - time costs nothing here
        await asyncio.sleep(1.0)


async def _let_all_end(world: "World") -> None:
    """A maintenance always ends; so does every event. What would take days is cancelled first, and advice withdrawn."""
    for plan in sorted(world.judge.plans):
        await world.operator.ask("POST", f"/v1/maintenances/{plan}/resume", {})
        status, answer = await world.operator.ask("GET", f"/v1/maintenances/{plan}")
        if status == 200 and answer["waits_until"]:
            await world.operator.ask("POST", f"/v1/maintenances/{plan}/cancel", {})
    now = max(node.machine.wall() for node in world.nodes.values())
    steady = max((stored.record.steady for stored in world.observatory.log.values()), default=0)
    for event in list(world.observatory.live.values()):
        # In steady time it may be far away although that hour has come: it was told while a time of day was days back.
        is_far = event.not_before > now + HOUR or event.notice_ends > steady + micros_of(HOUR)
        if (event.phase is Phase.SCHEDULED and is_far) or event.is_advice:
            await world.operator.ask("POST", f"/v1/events/{event.id}/cancel", {})
    end = world.loop.time() + PATIENCE
    while world.observatory.live or await _open_plans(world):
        if world.loop.time() > end:
            left = [(event.id, event.phase.value, str(event.not_before)) for event in world.observatory.live.values()]
            world.broken(f"liveness: these are not over: {left} {await _open_plans(world)}")
            return
        await asyncio.sleep(60.0)


async def _open_plans(world: "World") -> list[str]:
    _, page = await world.operator.ask("GET", "/v1/maintenances?status=running")
    return [plan["id"] for plan in page["items"]] if page else ["unknown"]


async def _probe(world: "World") -> None:
    """A new event is visible in a second, an approved one starts in a second, and both at every node."""
    clients = world.clients.values()
    listening = [client for client in clients if client.document and client.version == "2020-07-01"]
    vms = world.observatory.by_address
    chosen = next((client for client in listening if client.address in vms), None)
    if chosen is None:
        return
    await _look_at(world, chosen.address, world.doors[-1])
    before = await _look_at(world, chosen.address, world.doors[-1])
    if before is None:
        return
    waiting = world.begin(_woken(world, chosen.address, world.doors[-1], before["DocumentIncarnation"]))
    await asyncio.sleep(1.0)
    event_id = await _scheduled(world, vms[chosen.address], "Freeze")
    if event_id is None:
        return
    await asyncio.sleep(1.0)
    if not waiting.done():
        world.broken(f"liveness: {chosen.address} waits for news, and is not told of {event_id} after a second")
    for name in world.doors:
        if event_id not in await _shown(world, chosen.address, name):
            world.broken(f"liveness: {event_id} is not visible at {name} after a second")
    await world.operator.ask("POST", f"/v1/events/{event_id}/approve", {})
    await asyncio.sleep(1.0)
    for name in world.doors:
        if (await _shown(world, chosen.address, name)).get(event_id) == "Scheduled":
            world.broken(f"liveness: {event_id} is approved, and has not started at {name} after a second")

    await _probe_due(world, chosen.address)


async def _probe_due(world: "World", address: str) -> None:
    """An event that is due starts within a second, also if nobody approves it."""
    event_id = await _scheduled(world, world.observatory.by_address[address], "Redeploy")
    if event_id is None:
        return
    document = await _look_at(world, address, world.doors[0])
    await asyncio.sleep(NOTICE + 1.0)
    for name in world.doors:
        if (await _shown(world, address, name)).get(event_id) == "Scheduled":
            world.broken(f"liveness: {event_id} is due, and has not started at {name} after a second: {document}")


async def _scheduled(world: "World", vm: str, kind: str) -> str | None:
    mark = f"event {world.mark()}"
    status, answer = await world.operator.ask(
        "POST", "/v1/events", {"type": kind, "resources": [vm], "description": mark}, mark
    )
    if status != 201:
        world.broken(f"liveness: an event for {vm} is answered {status}: {answer}")
        return None
    return str(answer["events"][0]["id"])


async def _woken(world: "World", address: str, node: str, known: int) -> None:
    """Wait for news at a node."""
    try:
        await world.network.request(address, node, poll(query="&wait=40", known=known), 60.0)
    except FAILURES as error:
        world.broken(f"liveness: {node} does not answer a poll that waits: {error!r}")


async def _shown(world: "World", address: str, node: str) -> dict[str, str]:
    document = await _look_at(world, address, node)
    return {} if document is None else {event["EventId"]: event["EventStatus"] for event in document["Events"]}


async def _look_at(world: "World", address: str, node: str) -> dict[str, Any] | None:
    try:
        answer = await world.network.request(address, node, poll())
        # Its own client has just asked; or it has left many connections whose end was lost, and they take their time.
        for pause in (1.5, 5.0, 30.0, 120.0):
            if answer.startswith(b"HTTP/1.1 429"):
                await asyncio.sleep(pause)
                answer = await world.network.request(address, node, poll())
    except FAILURES as error:
        world.broken(f"liveness: {node} does not answer: {error!r}")
        return None
    head, _, body = answer.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        world.broken(f"liveness: {node} answers {answer[:200]!r}")
        return None
    document: dict[str, Any] = json.loads(body)
    return document


async def _compare_audit(world: "World") -> None:
    """The audit trail has every record that was ever shown, in order, and no other."""
    after, found = 0, []
    while True:
        _, page = await world.operator.ask("GET", f"/v1/audit?after={after}&limit=1000")
        if not page or not page["items"]:
            break
        found += page["items"]
        after = found[-1]["position"]
    shown = {item["position"]: item["event_id"] for item in found}
    for position, stored in world.observatory.log.items():
        event = getattr(stored.record.transition, "event", None)
        if event is not None and position <= after and shown.get(position) != event.id:
            world.broken(f"S5: the audit trail has {shown.get(position)} at {position}, not {event.id}")
            return


def _check_bounds(world: "World") -> None:
    """S24: nothing has piled up."""
    for node in world.nodes.values():
        assert node.service is not None
        open_now = node.service.metadata.connections
        if open_now > MOST_CONNECTIONS:
            world.broken(f"S24: {node.name} has {open_now} open connections")
        state, pages = node.service.state, node.service.publisher.pages
        of_nobody = pages.keys() - state.scopes.keys() - set(map(scope_of, state.fleet.vms.values()))
        if of_nobody:
            world.broken(f"S24: {node.name} keeps pages that nobody can read: {sorted(of_nobody)}")
