"""What operators do, through the operator's API of any node, as people do it: again with the same key, if need be."""

import asyncio
import json
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Any

from duenotice.domain.event import Phase
from duenotice.http.fetch import HttpAnswer
from simulator.faults import act, fault
from simulator.fleets import DeclaredVm, put

if TYPE_CHECKING:
    from simulator.world import World

TRIES = 6
TYPES = ("Freeze", "Reboot", "Redeploy")
FAILURES = (OSError, TimeoutError)


class Operator:
    """Asks nodes; a request that was not answered is sent again with its key, to any node (S6)."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._keys, self._tokens, self._token = 0, 0, ""
        self.under_way = 0
        """Requests that are not answered yet, and may still be sent again."""

    async def ask(
        self, method: str, target: str, body: Any = None, mark: str = "", dice: Random | None = None
    ) -> tuple[int, Any]:
        """The status and the JSON of the answer; 0 when nobody knows what came of it."""
        self.under_way += 1
        try:
            return await self._ask(method, target, body, mark, dice)
        finally:
            self.under_way -= 1

    async def _ask(self, method: str, target: str, body: Any, mark: str, dice: Random | None) -> tuple[int, Any]:
        self._keys += 1
        headers = {"idempotency-key": f"key-{self._keys}"} if method == "POST" else {}
        data = body.encode() if isinstance(body, str) else b"" if body is None else json.dumps(body).encode()
        headers["content-type"] = "application/toml" if isinstance(body, str) else "application/json"
        unknown = False
        for _ in range(TRIES):
            try:
                answer = await self._once(method, target, headers, data, dice)
            except FAILURES as error:
                self._world.say("operator", f"{method} {target}: {error or type(error).__name__}")
                unknown = True
                await asyncio.sleep(5.0)
                continue
            said = self._world.judge.answered("" if unknown else mark, method, target, answer)
            if answer.status not in (401, 429, 503):
                told = body if isinstance(body, dict) else ""
                self._world.say("operator", f"{method} {target} {told}: {answer.status}")
                return answer.status, said
            unknown |= answer.status == 503
            await asyncio.sleep(3.0)
        self._world.say("operator", f"{method} {target}: gives up")
        return 0, None

    async def _once(
        self, method: str, target: str, headers: dict[str, str], data: bytes, dice: Random | None
    ) -> HttpAnswer:
        world = self._world
        node = world.any_node(dice or world.dice(f"{target}/{self._keys}"))
        token = self._token or await self._new_token(node)
        whole = {**headers, "authorization": f"Bearer {token}"}
        answer = await world.network.call("operator", node, method, target, whole, data)
        if answer.status == 401:  # it came after the last backup
            self._token = ""
        return answer

    async def _new_token(self, node: str) -> str:
        """A token of our own, made with that of the node: the node's is another one after each start."""
        self._tokens += 1
        body = json.dumps({"name": f"operator-{self._tokens}", "role": "admin"}).encode()
        headers = {"authorization": f"Bearer {self._world.token_of(node)}", "content-type": "application/json"}
        answer = await self._world.network.call("operator", node, "POST", "/v1/tokens", headers, body)
        if answer.status == 201:
            self._token = json.loads(answer.body)["token"]
        return self._token


def _soon(world: "World", method: str, target: str, body: Any, mark: str, dice: Random) -> None:
    world.begin(world.operator.ask(method, target, body, mark, dice))


def _a_vm(world: "World", dice: Random) -> str | None:
    names = sorted(world.observatory.known.vms)
    return dice.choice(names) if names else None


@act("schedule", "An operator schedules an event for a VM or a whole update domain.", 6.0)
def schedule(world: "World", dice: Random) -> bool | None:
    if (name := _a_vm(world, dice)) is None:
        return False
    known = world.observatory.known.vms
    me = known[name]
    mates = [vm.name for vm in known.values() if (vm.group, vm.placement_group) == (me.group, me.placement_group)]
    company = [mate for mate in sorted(mates) if known[mate].update_domain == me.update_domain]
    resources = company if me.group and dice.random() < 0.5 else [name]
    if dice.random() < 0.05:
        resources = [*resources, dice.choice(["no-such-vm", resources[0]])]
    mark = f"event {world.mark()}"
    kind = dice.choice((*TYPES, "Preempt", "Terminate"))
    body: dict[str, Any] = {"type": kind, "resources": resources, "description": mark}
    if dice.random() < 0.3:
        body["duration"] = dice.choice((-1, 0, 5, 60, 9))
    if dice.random() < 0.3:
        body["cause"] = dice.choice(("maintenance", "live-migration", "user"))
    _soon(world, "POST", "/v1/events", body, mark, dice)
    return None


@act("advise", "An operator advises a VM to move: only spot VMs can be.", 1.0)
def advise(world: "World", dice: Random) -> bool | None:
    if (name := _a_vm(world, dice)) is None:
        return False
    mark = f"event {world.mark()}"
    body = {"type": "SpotRebalanceRecommendation", "resources": [name], "description": mark}
    _soon(world, "POST", "/v1/events", body, mark, dice)
    return None


@act("plan", "An operator plans a maintenance.", 5.0)
def plan(world: "World", dice: Random) -> bool | None:
    selectors = [f"host={name}" for name in world.fleet.hosts]
    selectors += [f"{_KIND[each.kind]}={each.name}" for each in world.fleet.sets if each.vms]
    selectors += [f"scale-set={each.name}" for each in world.fleet.scale_sets]
    selectors += [f"vm={vm.name}" for vm in world.fleet.listed()]
    on = dice.sample(selectors, min(len(selectors), dice.randint(1, 3)))
    mark = f"plan {world.mark()}"
    body = {
        "on": on,
        "type": dice.choice(TYPES),
        "settle": dice.choice(("0s", "30s", "5m")),
        "at_once": dice.choice((0, 0, 1, 2)),
        "failures_allowed": dice.choice((0, 0, 1)),
        "description": mark,
    }
    if body["type"] == "Freeze" and dice.random() < 0.3:
        body["by"] = "fault-domain"
    if body["at_once"] == 0 and dice.random() < 0.4:
        body["consent"] = "host"
    if dice.random() < 0.3:
        begins = world.nodes[dice.choice(world.names)].machine.wall() + timedelta(seconds=dice.uniform(0, 1800))
        ends = begins + timedelta(seconds=dice.uniform(600, 7200))
        body["window"] = f"{begins:%Y-%m-%dT%H:%M:%SZ}/{ends:%Y-%m-%dT%H:%M:%SZ}"
    _soon(world, "POST", "/v1/maintenances", body, mark, dice)
    return None


_KIND = {"availability_sets": "set", "cloud_services": "service"}


def _turn(verb: str) -> Any:
    def do(world: "World", dice: Random) -> bool | None:
        if not world.judge.plans:
            return False
        chosen = dice.choice(sorted(world.judge.plans)[-4:])
        _soon(world, "POST", f"/v1/maintenances/{chosen}/{verb}", {}, "", dice)
        return None

    return do


act("pause", "An operator pauses a maintenance.", 1.0)(_turn("pause"))
act("resume", "An operator resumes a maintenance.", 2.0)(_turn("resume"))
act("end-plan", "An operator cancels a maintenance.", 0.7)(_turn("cancel"))


@act("cancel", "An operator cancels an event.", 2.0)
def cancel(world: "World", dice: Random) -> bool | None:
    if not world.observatory.live:
        return False
    chosen = dice.choice(sorted(world.observatory.live))
    _soon(world, "POST", f"/v1/events/{chosen}/cancel", {"reason": f"reason {world.mark()}"}, "", dice)
    return None


@act("approve", "An operator approves an event.", 1.0)
def approve(world: "World", dice: Random) -> bool | None:
    waiting = [event.id for event in world.observatory.live.values() if event.phase is Phase.SCHEDULED]
    if not waiting:
        return False
    _soon(world, "POST", f"/v1/events/{dice.choice(sorted(waiting))}/approve", {}, "", dice)
    return None


@act("race", "A VM approves an event while an operator cancels it, at the same moment.", 1.5)
def race(world: "World", dice: Random) -> bool | None:
    waiting = [event for event in world.observatory.live.values() if event.phase is Phase.SCHEDULED]
    if not waiting:
        return False
    event = dice.choice(sorted(waiting, key=lambda each: each.id))
    vm = world.observatory.known.vms.get(event.resources[0])
    if vm is not None and vm.address in world.clients:
        world.begin(world.clients[vm.address].approve(event.id))
    _soon(world, "POST", f"/v1/events/{event.id}/cancel", {}, "", dice)
    return None


def _host(verb: str, body: dict[str, Any]) -> Any:
    def do(world: "World", dice: Random) -> bool | None:
        if not world.fleet.hosts:
            return False
        _soon(world, "POST", f"/v1/hosts/{dice.choice(world.fleet.hosts)}/{verb}", body, "", dice)
        return None

    return do


act("degrade", "An operator predicts that a host will fail.", 0.7)(_host("degrade", {"notice": "20m"}))
act("fail", "A host fails.", 0.7)(_host("fail", {}))
act("repair", "A host is healthy again.", 1.5)(_host("repair", {}))
act("drain", "An operator empties a host.", 0.7)(_host("drain", {"settle": "10s"}))


@act("user-operation", "The user of a VM restarts, redeploys, deletes or evicts it.", 2.0)
def user_operation(world: "World", dice: Random) -> bool | None:
    if (name := _a_vm(world, dice)) is None:
        return False
    verb = dice.choices(("restart", "redeploy", "evict", "delete"), (4, 3, 1, 0.3))[0]
    _soon(world, "POST", f"/v1/vms/{name}/{verb}", {}, "", dice)
    return None


@act("scale", "An operator scales a scale set out or in.", 1.5)
def scale(world: "World", dice: Random) -> bool | None:
    if not world.fleet.scale_sets:
        return False
    group = dice.choice(world.fleet.scale_sets)
    target = f"/v1/scale-sets/{group.name}"
    if dice.random() < 0.2:
        _soon(world, "POST", f"{target}/delete-instances", {"instances": [f"{group.name}_0"]}, "", dice)
    else:
        body = {"by": dice.choice((-2, -1, 1, 1))} if dice.random() < 0.6 else {"capacity": dice.randint(0, group.most)}
        _soon(world, "POST", f"{target}/scale", body, "", dice)
    return None


@act("policy", "An owner says which events are approved beforehand.", 0.7)
def policy(world: "World", dice: Random) -> bool | None:
    if (name := _a_vm(world, dice)) is None:
        return False
    keys = ("user_initiated_reboot", "user_initiated_redeploy", "all_instances_down")
    body = {key: dice.choice((True, False, None)) for key in keys}
    group = world.observatory.known.vms[name].group or ""
    is_of_set = group.startswith(("set/", "scale-set/"))  # a policy belongs to all of it (M14)
    _soon(world, "PUT", f"/v1/groups/{group}/policy" if is_of_set else f"/v1/vms/{name}/policy", body, "", dice)
    return None


@act("odd-request", "Somebody asks the operator's API for something odd.", 1.5)
def odd_request(world: "World", dice: Random) -> None:
    method, target, body = dice.choice(_ODD)
    _soon(world, method, target, body, "", dice)


_ODD: tuple[tuple[str, str, Any], ...] = (
    ("POST", "/v1/events", {"type": "Reboot", "resources": []}),
    ("POST", "/v1/events", {"type": "Explode", "resources": ["a"]}),
    ("POST", "/v1/events", [1, 2, {"type": None}]),
    ("POST", "/v1/events", {"type": "Reboot", "resources": ["\u0000", "\ud7ff", "a" * 5000]}),
    ("POST", "/v1/events", {"type": "Reboot", "resources": ["vm-0"], "not_before": "0001-01-01T00:00:00Z"}),
    ("POST", "/v1/events", {"type": "Reboot", "resources": ["vm-0"], "not_before": "9999-12-31T23:59:59Z"}),
    ("POST", "/v1/events", {"type": "Reboot", "resources": ["vm-0"], "duration": 10**30}),
    ("POST", "/v1/events", {"type": "Freeze", "resources": ["vm-1"], "description": "\u202e\u0000\U0001f525" * 20}),
    ("POST", "/v1/maintenances", {"on": ["tag=a=b", "zone="], "type": "Reboot"}),
    ("POST", "/v1/maintenances", {"on": ["vm=vm-0"], "type": "Reboot", "settle": "99999999999d"}),
    ("POST", "/v1/maintenances", {"on": ["vm=vm-1"], "type": "Reboot", "at_once": 2**63}),
    ("POST", "/v1/maintenances", {"on": ["vm=vm-1"], "type": "Reboot", "failures_allowed": 10**30}),
    ("POST", "/v1/events/00000000/cancel", {"reason": "\u0000" * 100}),
    ("POST", "/v1/hosts/..%2f..%2f/degrade", {"notice": "-1s"}),
    ("POST", "/v1/scale-sets/batch0/scale", {"capacity": -(10**20)}),
    ("PUT", "/v1/fleet", "[[vms]]\nname = 7\n"),
    ("GET", "/v1/audit?limit=1000000", None),
    ("GET", "/v1/vms?cursor=%00%ff", None),
    ("GET", "/v1/timeline?from=0001-01-01T00:00:00Z&to=9999-01-01T00:00:00Z", None),
    ("DELETE", "/v1/tokens/%2e%2e", None),
)


# --- the fleet changes under way: these are the faults of fleets ---


def _apply(world: "World", dice: Random) -> None:
    _soon(world, "PUT", "/v1/fleet", world.fleet.text(), "", dice)


def _in_mid_event(world: "World", dice: Random) -> DeclaredVm | None:
    """A VM that an event hits, if there is one."""
    hit = {name for event in world.observatory.live.values() for name in event.resources}
    listed = world.fleet.listed()
    return dice.choice([vm for vm in listed if vm.name in hit] or listed or [None])


@fault("fleet-applied", "A fleet file is applied in mid-maintenance.", 0.7)
def fleet_applied(world: "World", dice: Random) -> None:
    for vm in world.fleet.listed():
        if dice.random() < 0.1:
            vm.host = dice.choice([*world.fleet.hosts, None])
    for group in world.fleet.scale_sets:
        group.capacity = dice.randint(1, group.most)
    _apply(world, dice)


@fault("vm-renamed", "A VM gets another name in mid-event.", 0.7)
def vm_renamed(world: "World", dice: Random) -> bool | None:
    if (vm := _in_mid_event(world, dice)) is None:
        return False
    vm.name = f"renamed-{world.mark()}"
    _apply(world, dice)
    return None


@fault("vm-moved", "A VM moves to another set, or out of its set, in mid-event.", 0.7)
def vm_moved(world: "World", dice: Random) -> bool | None:
    if (vm := _in_mid_event(world, dice)) is None:
        return False
    world.fleet.take_out(vm)
    put(world.fleet, vm, dice.choice([None, *world.fleet.sets]), dice)
    _apply(world, dice)
    return None


@fault("vm-removed", "A VM is taken out of the fleet in mid-event, or comes back.", 0.7)
def vm_removed(world: "World", dice: Random) -> bool | None:
    removed = world.fleet.removed
    if removed and dice.random() < 0.5:
        put(world.fleet, removed.pop(), dice.choice([None, *world.fleet.sets]), dice)
    elif len(world.fleet.listed()) > 2 and (vm := _in_mid_event(world, dice)) is not None:
        world.fleet.take_out(vm)
        removed.append(vm)
    else:
        return False
    _apply(world, dice)
    return None


@fault("address-taken-over", "Two VMs change their addresses in mid-event.", 0.4)
def address_taken_over(world: "World", dice: Random) -> bool | None:
    listed = world.fleet.listed()
    if len(listed) < 2:
        return False
    one, other = dice.sample(listed, 2)
    one.address, other.address = other.address, one.address
    _apply(world, dice)
    return None
