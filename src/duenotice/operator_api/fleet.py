"""The calls of the whole fleet: what it is, how many VMs are in which state, and applying a fleet file."""

import asyncio
from codecs import iterdecode
from collections.abc import Callable, Container, Iterable, Sequence

from msgspec import Raw, Struct
from starlette.requests import Request
from starlette.responses import Response

from duenotice.bounds import FLEET_FILE
from duenotice.domain import commands as c
from duenotice.domain import records as t
from duenotice.domain.bulk import used_up
from duenotice.domain.fleet import Declaration, Fleet, GroupKind, Vm
from duenotice.domain.rules.decide import decide
from duenotice.domain.state import State
from duenotice.domain.token import Role
from duenotice.engine.engine import Engine, Records
from duenotice.errors import Malformed, NotFound
from duenotice.operator_api.answers import Resource, encode, shown
from duenotice.operator_api.calls import Call, Parameter, Room, actor_of, flag, number
from duenotice.operator_api.counting import KnownNumbers, Numbers
from duenotice.operator_api.feed import Feed
from duenotice.operator_api.large_body import LargeBody
from duenotice.operator_api.vm_states import VmStates
from duenotice.toml import did_you_mean
from duenotice.wire import operator as o
from duenotice.wire.fleet_file import check_in_pieces, read_fleet
from duenotice.wire.operator import STATES, from_domain

_TOML = ("application/toml", "text/plain")
ALONE = "alone"
"""What a query says for VMs without a group."""

MOST_GROUPS = 1000
_ONE_OF = "|".join(STATES)
_STATE = Parameter("state", {"type": "string", "pattern": f"^(({_ONE_OF})(,({_ONE_OF}))*)?$"})
_GROUPS = Parameter("limit", {"type": "integer", "minimum": 0, "maximum": MOST_GROUPS, "default": 100})
WANTED: tuple[str | Parameter, ...] = ("group", "host", "q", _STATE, "listens")


class Wanted:
    """Which VMs a query asks for."""

    def __init__(self, request: Request) -> None:
        query = request.query_params
        self._group, self._host = query.get("group", ""), query.get("host", "")
        self._text = query.get("q", "").strip().lower()
        self._states = frozenset(query["state"].split(",") if query.get("state") else ())
        if odd := sorted(self._states.difference(STATES)):
            raise Malformed(f"{odd[0][:40]!r} is not a state.", hint=f"Use one or more of {', '.join(STATES)}.")
        if (listens := query.get("listens", "")) not in ("", "true", "false"):
            raise Malformed(f"{listens[:40]!r} is neither true nor false.", hint="Use listens=true or listens=false.")
        self._listens = None if not listens else listens == "true"

    @property
    def is_everything(self) -> bool:
        """Whether it asks for all VMs."""
        return not (self._group or self._host or self._states or self._text) and self._listens is None

    def names(self, ordered: Sequence[str], states: VmStates) -> Sequence[str]:
        """Of all names in order those that need a look; only a few when few VMs can be in the states asked for."""
        few = states.candidates(self._states) if self._states else None
        return ordered if few is None else sorted(few)

    def check(self, fleet: Fleet) -> None:
        """Refuse a group or host that does not exist: an empty list would look as if it had no VMs."""
        check_place(fleet, self._group, self._host)

    def __call__(self, vm: Vm, states: VmStates) -> bool:
        """Whether the query asks for this VM."""
        return (
            (not self._group or _stands_in(vm, self._group))
            and (not self._host or self._host == vm.host)
            and (not self._states or states.of(vm) in self._states)
            and (not self._text or _has(vm, self._text))
            and (self._listens is None or states.listens(vm) is self._listens)
        )

    def among(self, vms: Iterable[Vm], states: VmStates) -> Iterable[Vm]:
        """Those of `vms` that the query asks for."""
        return vms if self.is_everything else (vm for vm in vms if self(vm, states))


def check_place(fleet: Fleet, group: str, host: str) -> None:
    """Refuse a group or a host that does not exist."""
    keys = (group, *(f"{kind.value}/{group}" for kind in GroupKind))
    if group not in ("", ALONE) and not any(key in fleet.groups for key in keys):
        names = (key if "/" in group else key.partition("/")[2] for key in fleet.groups)
        raise _not_there("group", group, names)
    if host and host not in fleet.hosts:
        raise _not_there("host", host, fleet.hosts)


def _not_there(what: str, name: str, known: Iterable[str]) -> NotFound:
    return NotFound(f"There is no {what} {name[:80]!r}.", hint=did_you_mean(name, known))


def _stands_in(vm: Vm, group: str) -> bool:
    """By the key of a group, `set/web`, or by its name, `web`; `alone` means VMs without a group."""
    if vm.group is None or group == ALONE:
        return vm.group is None and group == ALONE
    return group in (vm.group, vm.group.partition("/")[2])


def _has(vm: Vm, text: str) -> bool:
    # One text for all: this is asked of each VM of a large fleet.
    return text in f"{vm.name}\n{vm.group or ''}\n{vm.host or ''}\n{vm.address}\n{vm.zone or ''}".lower()


class Fleets(Resource):
    """The fleet, its states in numbers, and the fleet file."""

    def __init__(self, engine: Engine, feed: Feed, problem: Callable[[], str | None], numbers: KnownNumbers) -> None:
        super().__init__(engine)
        self._feed, self._problem = feed, problem
        self._numbers = numbers

    def calls(self) -> list[Call]:
        """The rows of the table."""
        one, viewer, admin, change = "/v1/fleet", Role.VIEWER, Role.ADMIN, {200: o.FleetChange}
        states, query = {200: o.States}, (*WANTED, _GROUPS)
        return [
            Call("GET", "/v1/states", viewer, self.states, "The fleet in numbers", states, None, query, (404,)),
            Call("GET", one, viewer, self.show, "What the fleet is", {200: o.Fleet}),
            Call(
                "PUT",
                one,
                admin,
                self.apply,
                "Apply a fleet file",
                change,
                _TOML,
                ("dry_run",),
                (422,),
                bounds=FLEET_FILE,
            ),
        ]

    async def states(self, request: Request) -> Response:
        """Counts of all VMs that are asked for, then of each group and its update domains."""
        limit, wanted = number(request, "limit", 100, 0, MOST_GROUPS), Wanted(request)

        def look(state: State) -> o.States:
            wanted.check(state.fleet)
            numbers = self._counted(state, wanted)
            whole, groups = numbers.whole, Room().filled(numbers.groups(limit))
            return o.States(whole.vms, whole.counts, whole.listening, groups, len(numbers) - len(groups))

        return await self._looked(look)

    def _counted(self, state: State, wanted: Wanted) -> Numbers:
        if wanted.is_everything:
            return self._numbers.of(state)
        states = VmStates(state)
        return Numbers(state, list(wanted.among(state.fleet.vms.values(), states)), states.of)

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
        body, dry = request.state.body, flag(request, "dry_run")
        asked = [c.ApplyFleet(await asyncio.to_thread(_declared, body))]
        try:
            return await (self._changes(asked) if dry else self._changed(asked, actor_of(request)))
        finally:
            self._engine.free(asked)

    async def _changes(self, asked: list[c.ApplyFleet]) -> Response:
        """What would change."""
        now, policy = self._engine.clock.now(), self._engine.policy

        def look(state: State) -> WrittenChange:
            return summary(used_up(decide(state, asked[0], now, policy)), state.fleet.vms, dry=True)

        return await self._looked(look)

    async def _changed(self, asked: list[c.ApplyFleet], actor: str) -> Response:
        """What has changed."""
        before, came_of_it = [self._engine.publisher.freeze()], list[Records]()

        def write() -> WrittenChange:
            return summary((record.transition for record in came_of_it[0]), before[0].fleet.vms, dry=False)

        try:
            came_of_it.append(await self._engine.submit(asked[0], actor))
            return await self._written(write)
        finally:
            self._engine.free([*came_of_it, before[0].fleet.vms, *before])
            came_of_it.clear()
            before.clear()


def _declared(body: bytearray | LargeBody) -> Declaration:
    """What it says. A large one is looked through first: only what may be a fleet is worth so much memory (S24)."""
    try:
        if isinstance(body, LargeBody):
            check_in_pieces(body.blocks())
            return read_fleet("".join(iterdecode(body.blocks(), "utf-8")))
        return read_fleet(body.decode())
    except UnicodeDecodeError:
        raise Malformed("The fleet is not UTF-8 text.", hint="Send the fleet file as it is.") from None


class WrittenChange(Struct, frozen=True):
    """A `FleetChange` whose lists are already JSON."""

    added: Raw
    removed: Raw
    changed: Raw
    changes: int
    dry_run: bool


class _Names:
    """A list of names in JSON, some at a time: all names of a million VMs in one go would stop the other threads."""

    def __init__(self) -> None:
        self._json = bytearray(b"[")

    def add(self, names: Sequence[str]) -> None:
        if names:
            self._json += encode(names)[1:-1] + b","

    def whole(self) -> Raw:
        return Raw(self._json.removesuffix(b",") + b"]")


def summary(changes: Iterable[t.Transition], known: Container[str], dry: bool) -> WrittenChange:
    """Which VMs were added, removed and changed."""
    added, removed, changed, count = _Names(), _Names(), _Names(), 0
    for change in changes:
        count += 1
        if isinstance(change, t.VmsRemoved):
            removed.add(change.names)
        elif isinstance(change, t.VmsPut):
            added.add([vm.name for vm in change.vms if vm.name not in known])
            changed.add([vm.name for vm in change.vms if vm.name in known])
    return WrittenChange(added.whole(), removed.whole(), changed.whole(), count, dry)
