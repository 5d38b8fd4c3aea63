"""What VMs are up to, and how many of each group: the fleet in numbers, for pictures and for questions."""

from collections import Counter
from collections.abc import Iterable
from itertools import islice

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from duenotice.domain.event import Event, Phase
from duenotice.domain.fleet import Condition, GroupKind, Vm
from duenotice.domain.token import Role
from duenotice.engine.engine import Engine
from duenotice.engine.publisher import Publisher
from duenotice.errors import Malformed, NotFound
from duenotice.operator_api.pages import number
from duenotice.operator_api.table import Call, Parameter
from duenotice.wire import operator_shapes as shapes
from duenotice.wire.operator_shapes import STATES
from duenotice.wire.toml_table import nearest

ALONE = "alone"
"""What stands for no group in a question."""

MOST_GROUPS = 1000
MOST_COMPARED = 1000
"""Names that a hint is looked for among: comparing takes some microseconds for each."""
FEW = 10
_RANK = {state: rank for rank, state in enumerate(STATES)}
_ONE_OF = "|".join(STATES)
_STATE = Parameter("state", {"type": "string", "pattern": f"^(({_ONE_OF})(,({_ONE_OF}))*)?$"})
_GROUPS = Parameter("limit", {"type": "integer", "minimum": 0, "maximum": MOST_GROUPS, "default": 100})
WANTED: tuple[str | Parameter, ...] = ("group", "host", "q", _STATE)


class States:
    """One look at all events and hosts: who is not named there is fine."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._hit: dict[str, str] = {}
        for event in publisher.events():
            state = state_of(event)
            for name in event.resources:
                if _RANK[state] < _RANK[self._hit.get(name, "fine")]:
                    self._hit[name] = state
        self._ill = {host.name for host in publisher.hosts.values() if host.condition is not Condition.HEALTHY}

    def of(self, vm: Vm) -> str:
        """The state of one VM."""
        return self._hit.get(vm.name) or ("degraded" if vm.host in self._ill else "fine")

    def check(self, group: str, host: str) -> None:
        """Refuse a group or a host that is not there: an empty list would look like one without VMs."""
        groups, hosts = self._publisher.groups, self._publisher.hosts
        keys = (group, *(f"{kind.value}/{group}" for kind in GroupKind))
        if group not in ("", ALONE) and not any(key in groups for key in keys):
            names = (key if "/" in group else key.partition("/")[2] for key in groups)
            raise _not_there("group", group, names)
        if host and host not in hosts:
            raise _not_there("host", host, hosts)

    def whole(self) -> shapes.Counted:
        """All VMs; only those with something to say are looked at, unless a host is ill."""
        vms = self._publisher.by_name
        if self._ill:
            return counted(map(self.of, vms.values()))
        busy = Counter(state for name, state in self._hit.items() if name in vms)
        busy["fine"] = len(vms) - busy.total()
        return {"vms": len(vms), "counts": {state: busy[state] for state in STATES}}


def state_of(event: Event) -> str:
    """What an event makes of its VMs."""
    if event.phase is Phase.STARTED:
        return "started"
    return "approved" if event.approved_by else "scheduled"


class Wanted:
    """Which VMs a query asks for."""

    def __init__(self, request: Request, states: States) -> None:
        query = request.query_params
        self._group, self._host = query.get("group", ""), query.get("host", "")
        states.check(self._group, self._host)
        self._text = query.get("q", "").strip().lower()
        self._states, self._of = frozenset(query["state"].split(",") if query.get("state") else ()), states.of
        if odd := sorted(self._states.difference(STATES)):
            raise Malformed(f"{odd[0][:40]!r} is no state.", hint=f"Use some of {', '.join(STATES)}.")

    def __call__(self, vm: Vm) -> bool:
        """Whether it is one."""
        return (
            (not self._group or _stands_in(vm, self._group))
            and (not self._host or self._host == vm.host)
            and (not self._states or self._of(vm) in self._states)
            and (not self._text or _has(vm, self._text))
        )

    @property
    def is_everything(self) -> bool:
        """Whether nothing is left out."""
        return not (self._group or self._host or self._states or self._text)


def _not_there(what: str, name: str, known: Iterable[str]) -> NotFound:
    compared = list(islice(known, MOST_COMPARED))
    near = nearest(name[:80], compared)
    hint = f"Did you mean {near!r}?" if near else f"There are {', '.join(compared[:FEW]) or 'none'}."
    return NotFound(f"There is no {what} {name[:80]!r}.", hint=hint)


def _stands_in(vm: Vm, group: str) -> bool:
    """By the key of a group, `set/web`, or by its name, `web`; `alone` are those without one."""
    if vm.group is None or group == ALONE:
        return vm.group is None and group == ALONE
    return group in (vm.group, vm.group.partition("/")[2])


def _has(vm: Vm, text: str) -> bool:
    return any(text in (part or "").lower() for part in (vm.name, vm.group, vm.host, vm.address, vm.zone))


class Picture:
    """Translates from states to JSON."""

    def __init__(self, engine: Engine) -> None:
        self._publisher = engine.publisher

    def calls(self) -> list[Call]:
        """The rows of the table."""
        query, answers = (*WANTED, _GROUPS), {200: shapes.States}
        return [
            Call("GET", "/v1/states", Role.VIEWER, self.index, "The fleet in numbers", None, query, answers, (404,))
        ]

    async def index(self, request: Request) -> Response:
        """Counts of all that is asked for, then of each group and its update domains."""
        limit, states = number(request, "limit", 100, 0, MOST_GROUPS), States(self._publisher)
        wanted = Wanted(request, states)
        everything = wanted.is_everything
        if everything and not limit:
            shown: shapes.States = {**states.whole(), "groups": [], "left_out": 0}
            return JSONResponse(shown)
        groups = _grouped(filter(wanted, self._publisher.by_name.values()), states)
        groups.sort(key=lambda group: (_urgency(group), group["key"] or ""))
        total = _added(group["counts"] for group in groups)
        shown = {
            "vms": sum(total.values()),
            "counts": total,
            "groups": groups[:limit],
            "left_out": max(0, len(groups) - limit),
        }
        return JSONResponse(shown)


Place = tuple[int | None, str | None]


def _grouped(vms: Iterable[Vm], states: States) -> list[shapes.GroupStates]:
    found: dict[str | None, dict[Place, Counter[str]]] = {}
    for vm in vms:
        place = (vm.update_domain, None if vm.group else vm.zone)
        found.setdefault(vm.group, {}).setdefault(place, Counter())[states.of(vm)] += 1
    return [_group(key, columns) for key, columns in found.items()]


def _group(key: str | None, columns: dict[Place, Counter[str]]) -> shapes.GroupStates:
    ordered = sorted(columns.items(), key=lambda item: (item[0][0] or 0, item[0][1] or ""))
    shown: list[shapes.Column] = [
        {**counted(counts.elements()), "update_domain": domain, "zone": zone} for (domain, zone), counts in ordered
    ]
    counts = _added(column["counts"] for column in shown)
    return {"key": key, "vms": sum(counts.values()), "counts": counts, "columns": shown}


def counted(states: Iterable[str]) -> shapes.Counted:
    """How many of each state there are, all states named."""
    counts = Counter(states)
    return {"vms": counts.total(), "counts": {state: counts[state] for state in STATES}}


def _added(several: Iterable[dict[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for counts in several:
        total.update(counts)
    return {state: total[state] for state in STATES}


def _urgency(group: shapes.GroupStates) -> int:
    return next(rank for rank, state in enumerate(STATES) if group["counts"][state])
