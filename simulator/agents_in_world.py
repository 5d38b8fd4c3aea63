"""Real agents on some of the VMs of a world: they reach its nodes over its network, and reboot when events start."""

import asyncio
import json
from datetime import UTC, datetime
from functools import lru_cache, partial
from random import Random
from typing import TYPE_CHECKING, Any

from duenotice.domain import records as t
from duenotice.domain.records import Record
from duenotice.wire.api_versions import TYPE_NAMES
from duenotice.wire.spans import parse_time
from simulator.agents_checks import AgentChecker
from simulator.agents_faults import hit_by, pauses
from simulator.agents_line import Connection, Told
from simulator.agents_machine import AgentVm
from simulator.agents_service import ToldDocument, ToldEvent
from simulator.faults import act
from simulator.network import is_whole

if TYPE_CHECKING:
    from simulator.world import World

LONGEST = 20.0
"""Seconds until an answer that has not come is lost; a poll is held for 10."""
CALM = 500.0
"""Seconds in which everything must be put back once all is over."""
PAUSED_WITHIN = 60.0
"""Seconds from its start in which an event that is no reboot pauses its VMs."""
_LATE = datetime(9999, 1, 1, tzinfo=UTC)


@act("schedule-for-agent", "An operator schedules an event for a VM with an agent.", 8.0, ("agents among VMs",))
def _schedule(world: "World", dice: Random) -> bool | None:
    name = checker_of(dice.choice(world.agents)).name
    if not name:
        return False
    mark, kind = f"event {world.mark()}", dice.choice(("Freeze", "Reboot", "Redeploy"))
    body = {"type": kind, "resources": [name], "description": mark}
    world.begin(world.operator.ask("POST", "/v1/events", body, mark, dice))
    return None


class NetworkDoor:
    """The way from one VM to the nodes."""

    def __init__(self, world: "World", address: str, checker: AgentChecker) -> None:
        self._world, self._address, self._checker = world, address, checker
        self._dice = world.dice(f"agent/{address}")

    def connect(self) -> Connection:
        """It is made when the first request is sent."""
        self._checker.asked("CONNECT", "")
        return Connection(self._world.loop, self._taken)

    def ask(self, connection: Connection, request: bytes) -> None:
        """Send a request; whatever becomes of the agent, it arrives."""
        method, target = request.split(b" ", 2)[:2]
        self._checker.asked(method.decode(), target.decode())
        for event_id in _approved(request) if method == b"POST" else ():
            self._checker.approving(event_id)
        self._world.begin(self._carry(connection, request))

    async def _carry(self, connection: Connection, request: bytes) -> None:
        node = self._world.any_door(self._dice)
        try:
            answer = await self._world.network.request(self._address, node, request, LONGEST)
        except TimeoutError:
            return
        except OSError as error:
            connection.push(error)
            return
        whole = is_whole(answer)
        connection.push(answer, _told(request, answer) if whole else None)
        if not whole:
            connection.push(b"")
        if whole and request.startswith(b"POST"):
            head, _, body = answer.partition(b"\r\n\r\n")
            self._world.judge.approved(self._address, _approved(request), int(head[9:12]), body)

    def _taken(self, told: Told) -> None:
        if isinstance(told, str):
            self._checker.called(told)
        else:
            self._checker.read(told)


def _approved(request: bytes) -> list[str]:
    return [each["EventId"] for each in json.loads(request.partition(b"\r\n\r\n")[2])["StartRequests"]]


def _told(request: bytes, answer: bytes) -> Told:
    """What the agent knows when it has read this answer: a document, or its name."""
    head, _, body = answer.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200") or request.startswith(b"POST"):
        return None
    if request.startswith(b"GET /metadata/instance"):
        return json.loads(body)["compute"]["name"]
    return _document(body)


@lru_cache(maxsize=1000)
def _document(body: bytes) -> ToldDocument:
    document = json.loads(body)
    return ToldDocument(document["DocumentIncarnation"], {each["EventId"]: _event(each) for each in document["Events"]})


def _event(shown: dict[str, Any]) -> ToldEvent:
    not_before = parse_time(shown["NotBefore"]) if shown["NotBefore"] else _LATE
    names = tuple(shown["Resources"])
    return ToldEvent(shown["EventId"], shown["EventType"], names, shown["EventStatus"], not_before)


def begin_agents(world: "World", count: int) -> list[str]:
    """Start agents on so many VMs; their addresses."""
    addresses = [vm.address for vm in world.fleet.listed()]
    chosen = world.dice("agents").sample(addresses, min(count, len(addresses)))
    for address in chosen:
        vm = _agent(world, address)
        world.agents.append(vm)
        vm.later(1.0, vm.start)
    world.observatory.on_record.append(partial(_impact, world))
    return chosen


def _agent(world: "World", address: str) -> AgentVm:
    checker = AgentChecker(say_to=world.say, broken=world.broken)
    door = NetworkDoor(world, address, checker)
    vm = checker.vm = AgentVm(world.loop, address, door, checker, world.seed, world.transcripts, named=False)
    vm.counts = world.faults.counts
    return vm


def _impact(world: "World", record: Record) -> None:
    """A VM is rebooted by its event, most of the time; else it is paused (D07)."""
    if not isinstance(record.transition, t.EventStarted):
        return
    event = record.transition.event
    for vm in world.agents:
        dice = world.dice(f"impact/{event.id}/{vm.name}")
        if checker_of(vm).name in event.resources and not hit_by(TYPE_NAMES[event.type], vm, dice):
            pauses(vm, dice, PAUSED_WITHIN)


def checker_of(vm: AgentVm) -> AgentChecker:
    """Who watches it."""
    assert isinstance(vm.watcher, AgentChecker)
    return vm.watcher


def heal_agents(world: "World") -> None:
    """All faults are over."""
    for vm in world.agents:
        vm.heal()


async def settle_agents(world: "World") -> None:
    """All events are gone: everything must be put back; what is no VM any more is not told so."""
    if not world.agents:
        return
    await asyncio.sleep(CALM)
    for vm in world.agents:
        if vm.name in world.observatory.by_address:
            checker_of(vm).settle()
