"""The fleet as a picture: sections for groups, columns for update domains, a cell a VM. Pure: JSON in, values out."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

STATES = ("started", "approved", "scheduled", "degraded", "fine", "gone")
"""What can be said of a VM, most urgent first."""

WORDS = {
    "started": "being hit now",
    "approved": "approved, about to start",
    "scheduled": "told, waiting for its notice",
    "degraded": "on a host that may fail",
    "fine": "nothing planned",
    "gone": "no longer there",
}
MOST_CELLS = 150
"""VMs of one section that are drawn one by one; beyond that only those with something to say are."""

KINDS = {"set": "availability set", "scale-set": "scale set", "service": "cloud service", "alone": "standalone"}
ALONE = "alone/VMs"


class Cell(NamedTuple):
    """One VM."""

    name: str
    state: str
    says: str


class Column(NamedTuple):
    """One update domain, or one zone of VMs that stand alone."""

    label: str
    cells: list[Cell]
    counts: dict[str, int]


class Section(NamedTuple):
    """One group."""

    key: str
    kind: str
    name: str
    columns: list[Column]
    counts: dict[str, int]
    total: int
    aggregated: bool

    @property
    def state(self) -> str:
        """The most urgent state that any of its VMs is in."""
        return next((state for state in STATES if self.counts.get(state)), "fine")


class Fleet(NamedTuple):
    """What the fleet is made of, as the API tells it."""

    vms: list[dict[str, Any]]
    conditions: Mapping[str, str]
    events: Mapping[str, list[dict[str, Any]]]

    def cell(self, vm: Mapping[str, Any]) -> Cell:
        """One VM with its state."""
        hitting = self.events.get(str(vm["name"]), [])
        return cell_of(vm, hitting, self.conditions.get(str(vm.get("host")), "healthy"))


def by_vm(events: Iterable[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The live events of each VM that is hit."""
    found: dict[str, list[dict[str, Any]]] = {}
    for event in events:
        for name in event["resources"]:
            found.setdefault(name, []).append(event)
    return found


def event_state(event: Mapping[str, Any]) -> str:
    """The state that an event puts its VMs in."""
    if event["phase"] == "started":
        return "started"
    return "approved" if event["approved_by"] else "scheduled"


def cell_of(vm: Mapping[str, Any], events: Iterable[Mapping[str, Any]], condition: str) -> Cell:
    """A VM's state is that of its most urgent event, else that of its host."""
    states = {event_state(event) for event in events} | ({"degraded"} if condition != "healthy" else set())
    state = next((state for state in STATES if state in states), "fine")
    types = ", ".join(sorted({str(event["type"]) for event in events}))
    return Cell(str(vm["name"]), state, f"{vm['name']}: {types + ' – ' if types else ''}{WORDS[state]}")


def section_of_scope(scope: str) -> str:
    """`scale-set/batch/0` lies in `scale-set/batch`; a VM that stands alone among those that do."""
    kind, _, rest = scope.partition("/")
    return ALONE if kind == "vm" else f"{kind}/{rest.partition('/')[0]}"


def section_of(vm: Mapping[str, Any]) -> str:
    """The section that shows a VM."""
    return str(vm["group"] or ALONE)


def sections(fleet: Fleet, most_cells: int = MOST_CELLS) -> list[Section]:
    """All sections, those with something going on first."""
    members: dict[str, list[dict[str, Any]]] = {}
    for vm in fleet.vms:
        members.setdefault(section_of(vm), []).append(vm)
    drawn = [section(key, vms, fleet, most_cells) for key, vms in members.items()]
    return sorted(drawn, key=lambda one: (STATES.index(one.state), one.key))


def section(key: str, vms: list[dict[str, Any]], fleet: Fleet, most_cells: int = MOST_CELLS) -> Section:
    """One group with a column for each of its update domains."""
    kind, _, name = key.partition("/")
    columns: dict[str, list[Cell]] = {}
    for vm in vms:
        columns.setdefault(_column(vm), []).append(fleet.cell(vm))
    aggregated = len(vms) > most_cells
    drawn = [_drawn(label, cells, aggregated) for label, cells in sorted(columns.items())]
    counts = sum((Counter(column.counts) for column in drawn), Counter())
    return Section(key, KINDS.get(kind, kind), name, drawn, dict(counts), len(vms), aggregated)


def summary(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """How many VMs of the whole fleet are in which state."""
    total = sum((Counter(one) for one in counts), Counter())
    return {state: total[state] for state in STATES if state != "gone"}


def _column(vm: Mapping[str, Any]) -> str:
    if vm["update_domain"] is not None:
        return f"UD {vm['update_domain']}"
    return f"zone {vm['zone']}" if vm["zone"] else "no zone"


def _drawn(label: str, cells: list[Cell], aggregated: bool) -> Column:
    counts = Counter(cell.state for cell in cells)
    return Column(label, [cell for cell in cells if cell.state != "fine"] if aggregated else cells, dict(counts))
