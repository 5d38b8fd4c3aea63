"""The calls of the whole fleet: what it is, how many VMs are in which state, and applying a fleet file."""

import asyncio
from collections import Counter
from collections.abc import Callable, Container, Iterable
from itertools import islice

from starlette.requests import Request
from starlette.responses import Response

from duenotice.domain import commands as c
from duenotice.domain import transitions as t
from duenotice.domain.decide import decide
from duenotice.domain.event import Event, Phase
from duenotice.domain.fleet import Condition, Fleet, GroupKind, Vm
from duenotice.domain.state import State
from duenotice.domain.token import Role
from duenotice.engine.engine import Engine
from duenotice.errors import Malformed, NotFound
from duenotice.operator_api.answers import Resource, shown
from duenotice.operator_api.calls import Call, Parameter, actor_of, flag, number
from duenotice.operator_api.feed import Feed
from duenotice.toml import nearest
from duenotice.wire import operator as o
from duenotice.wire.fleet_toml import read_fleet
from duenotice.wire.operator import STATES, from_domain

_TOML = ("application/toml", "text/plain")
ALONE = "alone"
"""What a query says for VMs without a group."""

MOST_GROUPS = 1000
MOST_COMPARED = 1000
"""How many names are compared to find a hint: each takes some microseconds."""
FEW = 10
_RANK = {state: rank for rank, state in enumerate(STATES)}
_ONE_OF = "|".join(STATES)
_STATE = Parameter("state", {"type": "string", "pattern": f"^(({_ONE_OF})(,({_ONE_OF}))*)?$"})
_GROUPS = Parameter("limit", {"type": "integer", "minimum": 0, "maximum": MOST_GROUPS, "default": 100})
WANTED: tuple[str | Parameter, ...] = ("group", "host", "q", _STATE)


class VmStates:
    """The states of all VMs, from one look at all events and hosts; a VM that is not found there is fine."""

    def __init__(self, state: State) -> None:
        self._hit: dict[str, str] = {}
        for event in state.events.values():
            found = state_of(event)
            for name in event.resources:
                if _RANK[found] < _RANK[self._hit.get(name, "fine")]:
                    self._hit[name] = found
        self._ill = _ill(state)

    def of(self, vm: Vm) -> str:
        """The state of one VM."""
        return self._hit.get(vm.name) or ("degraded" if vm.host in self._ill else "fine")


def state_of_vm(state: State, vm: Vm) -> str:
    """The state of one VM, without a look at all the others."""
    found = [state_of(event) for event in state.events_of(vm)]
    return min(found, key=_RANK.__getitem__, default="degraded" if vm.host in _ill(state) else "fine")


def _ill(state: State) -> set[str]:
    return {host.name for host in state.fleet.hosts.values() if host.condition is not Condition.HEALTHY}


def state_of(event: Event) -> str:
    """The state that an event gives its VMs."""
    if event.phase is Phase.STARTED:
        return "started"
    return "approved" if event.approved_by else "scheduled"


class Wanted:
    """Which VMs a query asks for."""

    def __init__(self, request: Request) -> None:
        query = request.query_params
        self._group, self._host = query.get("group", ""), query.get("host", "")
        self._text = query.get("q", "").strip().lower()
        self._states = frozenset(query["state"].split(",") if query.get("state") else ())
        if odd := sorted(self._states.difference(STATES)):
            raise Malformed(f"{odd[0][:40]!r} is not a state.", hint=f"Use one or more of {', '.join(STATES)}.")

    def check(self, fleet: Fleet) -> None:
        """Refuse a group or host that does not exist: an empty list would look as if it had no VMs."""
        group, host = self._group, self._host
        keys = (group, *(f"{kind.value}/{group}" for kind in GroupKind))
        if group not in ("", ALONE) and not any(key in fleet.groups for key in keys):
            names = (key if "/" in group else key.partition("/")[2] for key in fleet.groups)
            raise _not_there("group", group, names)
        if host and host not in fleet.hosts:
            raise _not_there("host", host, fleet.hosts)

    def __call__(self, vm: Vm, states: VmStates) -> bool:
        """Whether the query asks for this VM."""
        return (
            (not self._group or _stands_in(vm, self._group))
            and (not self._host or self._host == vm.host)
            and (not self._states or states.of(vm) in self._states)
            and (not self._text or _has(vm, self._text))
        )

    def among(self, vms: Iterable[Vm], states: VmStates) -> Iterable[Vm]:
        """Those of `vms` that the query asks for."""
        is_everything = not (self._group or self._host or self._states or self._text)
        return vms if is_everything else (vm for vm in vms if self(vm, states))


def _not_there(what: str, name: str, known: Iterable[str]) -> NotFound:
    compared = list(islice(known, MOST_COMPARED))
    near = nearest(name[:80], compared)
    hint = f"Did you mean {near!r}?" if near else f"There are {', '.join(compared[:FEW]) or 'none'}."
    return NotFound(f"There is no {what} {name[:80]!r}.", hint=hint)


def _stands_in(vm: Vm, group: str) -> bool:
    """By the key of a group, `set/web`, or by its name, `web`; `alone` means VMs without a group."""
    if vm.group is None or group == ALONE:
        return vm.group is None and group == ALONE
    return group in (vm.group, vm.group.partition("/")[2])


def _has(vm: Vm, text: str) -> bool:
    return any(text in (part or "").lower() for part in (vm.name, vm.group, vm.host, vm.address, vm.zone))


class Fleets(Resource):
    """The fleet, its states in numbers, and the fleet file."""

    def __init__(self, engine: Engine, feed: Feed, problem: Callable[[], str | None]) -> None:
        super().__init__(engine)
        self._feed, self._problem = feed, problem

    def calls(self) -> list[Call]:
        """The rows of the table."""
        one, viewer, admin, change = "/v1/fleet", Role.VIEWER, Role.ADMIN, {200: o.FleetChange}
        states, query = {200: o.States}, (*WANTED, _GROUPS)
        return [
            Call("GET", "/v1/states", viewer, self.states, "The fleet in numbers", states, None, query, (404,)),
            Call("GET", one, viewer, self.show, "What the fleet is", {200: o.Fleet}),
            Call("PUT", one, admin, self.apply, "Apply a fleet file", change, _TOML, ("dry_run",), (422,)),
        ]

    async def states(self, request: Request) -> Response:
        """Counts of all VMs that are asked for, then of each group and its update domains."""
        limit, wanted = number(request, "limit", 100, 0, MOST_GROUPS), Wanted(request)

        def look(state: State) -> o.States:
            wanted.check(state.fleet)
            states = VmStates(state)
            groups = _grouped(wanted.among(state.fleet.vms.values(), states), states)
            groups.sort(key=lambda group: (_urgency(group), group.key or ""))
            counts, left_out = _added(group.counts for group in groups), max(0, len(groups) - limit)
            return o.States(sum(counts.values()), counts, tuple(groups[:limit]), left_out)

        return await self._looked(look)

    async def show(self, _: Request) -> Response:
        """Counts, the digest of the fleet file, how far the journal is, the site."""
        state, fleet = self._engine.state, self._engine.state.fleet
        return shown(
            o.Fleet(
                vms=len(fleet.vms),
                groups=len(fleet.groups),
                hosts=len(fleet.hosts),
                events=len(state.events),
                digest=fleet.digest,
                position=self._feed.position,
                site=from_domain.site(fleet.site),
                problem=self._problem(),
            )
        )

    async def apply(self, request: Request) -> Response:
        """Apply this fleet; with `dry_run` only say what would change."""
        try:
            text = (await request.body()).decode()
        except UnicodeDecodeError:
            raise Malformed("The fleet is not UTF-8 text.", hint="Send the fleet file as it is.") from None
        asked, dry = [c.ApplyFleet(await asyncio.to_thread(read_fleet, text))], flag(request, "dry_run")
        try:
            return await (self._changes(asked) if dry else self._changed(asked, actor_of(request)))
        finally:
            self._engine.free(asked)

    async def _changes(self, asked: list[c.ApplyFleet]) -> Response:
        """What would change."""
        now, policy = self._engine.clock.now(), self._engine.policy

        def look(state: State) -> o.FleetChange:
            return _summary(decide(state, asked[0], now, policy), state.fleet.vms, dry=True)

        return await self._looked(look)

    async def _changed(self, asked: list[c.ApplyFleet], actor: str) -> Response:
        """What has changed."""
        before = [self._engine.publisher.freeze()]
        try:
            records = await self._engine.submit(asked[0], actor)
            changes = (record.transition for record in records)
            return await self._written(lambda: _summary(changes, before[0].fleet.vms, dry=False))
        finally:
            self._engine.free(before)


def _summary(changes: Iterable[t.Transition], known: Container[str], dry: bool) -> o.FleetChange:
    """Which VMs were added, removed and changed."""
    added: list[str] = []
    removed: list[str] = []
    changed: list[str] = []
    count = 0
    for change in changes:
        count += 1
        if isinstance(change, t.VmsRemoved):
            removed += change.names
        elif isinstance(change, t.VmsPut):
            for vm in change.vms:
                (changed if vm.name in known else added).append(vm.name)
    return o.FleetChange(tuple(added), tuple(removed), tuple(changed), count, dry)


Place = tuple[int | None, str | None]


def _grouped(vms: Iterable[Vm], states: VmStates) -> list[o.GroupStates]:
    found: dict[tuple[str | None, int | None, str | None, str], int] = {}
    of = states.of
    for vm in vms:
        cell = (vm.group, vm.update_domain, None if vm.group else vm.zone, of(vm))
        found[cell] = found.get(cell, 0) + 1
    groups: dict[str | None, dict[Place, Counter[str]]] = {}
    for (group, domain, zone, state), count in found.items():
        groups.setdefault(group, {}).setdefault((domain, zone), Counter())[state] = count
    return [_group(key, columns) for key, columns in groups.items()]


def _group(key: str | None, columns: dict[Place, Counter[str]]) -> o.GroupStates:
    ordered = sorted(columns.items(), key=lambda item: (item[0][0] or 0, item[0][1] or ""))
    cut = tuple(o.Column(counts.total(), _all(counts), domain, zone) for (domain, zone), counts in ordered)
    counts = _added(column.counts for column in cut)
    return o.GroupStates(key, sum(counts.values()), counts, cut)


def _added(several: Iterable[dict[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for counts in several:
        total.update(counts)
    return _all(total)


def _all(counts: Counter[str]) -> dict[str, int]:
    """How many VMs are in each state; every state is listed."""
    return {state: counts[state] for state in STATES}


def _urgency(group: o.GroupStates) -> int:
    return next(rank for rank, state in enumerate(STATES) if group.counts[state])
