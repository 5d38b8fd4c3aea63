"""The fleet as a picture: sections for groups, columns for update domains, a cell a VM. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from duenotice.console.formats import natural
from duenotice.wire import operator as w

BUSY = w.STATES[:-1]
"""The states of VMs that are not fine."""

WORDS = {
    "failed": "what was planned has failed, and nobody has dealt with it",
    "started": "affected now",
    "approved": "approved, about to start",
    "scheduled": "notified, waiting for its notice to end",
    "degraded": "on a host that may fail",
    "fine": "nothing planned",
    "gone": "no longer there",
}
MOST_CELLS = 150
"""VMs of one section that are drawn one by one; in larger sections only VMs that are not fine are drawn."""

MOST_ONE_BY_ONE = 1500
"""VMs of a fleet up to which sections may draw all of theirs."""

MOST_NAMED = 40
"""Up to this many cells have their names beside them."""

UNFOLDED = 12
"""This many sections are open even when all their VMs are fine."""

KINDS = {"set": "availability set", "scale-set": "scale set", "service": "cloud service", "alone": "no group"}
ALONE = "alone"
GONE = "gone"


SILENT = "would get no notice"


class Cell(NamedTuple):
    """One VM; `silent` when it would be hit without notice."""

    name: str
    state: str
    says: str
    silent: bool = False


class BoardColumn(NamedTuple):
    """One update domain, or one zone of VMs without a group; `more` are not fine and not drawn."""

    label: str
    cells: list[Cell]
    counts: Mapping[str, int]
    total: int
    more: int
    silent: int = 0


class Section(NamedTuple):
    """One group."""

    key: str
    kind: str
    name: str
    columns: list[BoardColumn]
    counts: Mapping[str, int]
    total: int
    aggregated: bool
    folded: bool
    silent: int = 0


def events_by_vm(events: Iterable[w.Event]) -> dict[str, list[w.Event]]:
    """The live events of each VM that is hit."""
    found: dict[str, list[w.Event]] = {}
    for event in events:
        for name in event.resources:
            found.setdefault(name, []).append(event)
    return found


def event_state(event: w.Event) -> str:
    """The state that an event puts its VMs in, or how it ended."""
    if isinstance(event, w.Life):
        return event.state
    if event.phase == "started":
        return "started"
    return "approved" if event.approved_by else "scheduled"


def cell_of(vm: w.Vm, events: Sequence[w.Event] = ()) -> Cell:
    """One VM, with what will happen to it in words."""
    types = ", ".join(sorted({event.type for event in events}))
    notice = "" if vm.listens else f", {SILENT}"
    says = f"{vm.name}: {types + ', ' if types else ''}{WORDS[vm.state]}{notice}"
    return Cell(vm.name, vm.state, says, not vm.listens)


def is_named(sections: Iterable[Section]) -> bool:
    """Whether there are so few cells that each has its name beside it."""
    return sum(len(column.cells) for section in sections for column in section.columns) <= MOST_NAMED


def gone_cell(name: str) -> Cell:
    """A VM that was there."""
    return Cell(name, GONE, f"{name}: {WORDS[GONE]}")


def section_of_scope(scope: str) -> str:
    """`scale-set/batch/0` lies in `scale-set/batch`; a VM without a group is in the section of such VMs."""
    kind, _, rest = scope.partition("/")
    return ALONE if kind == "vm" else f"{kind}/{rest.partition('/')[0]}"


def key_of(group: str | None) -> str:
    """The key of a section from that of a group."""
    return group or ALONE


class Board(NamedTuple):
    """What a picture is drawn from: the fleet in numbers, VMs to draw, and events by VM."""

    states: w.States
    vms: Sequence[w.Vm]
    events: Mapping[str, Sequence[w.Event]]
    lost: Sequence[w.Event] = ()
    one_by_one: bool = True
    most_cells: int = MOST_CELLS

    def sections(self) -> list[Section]:
        """All sections, the most urgent first as they come; quiet ones are folded when there are many."""
        cells = self._cells()
        groups = self.states.groups
        return [self._section(group, cells, len(groups) > UNFOLDED) for group in groups]

    def _cells(self) -> dict[tuple[str, str], list[Cell]]:
        """Cells by section and column."""
        found: dict[tuple[str, str], list[Cell]] = {}
        for vm in sorted(self.vms, key=lambda vm: natural(vm.name)):
            place = key_of(vm.group), _label(vm.update_domain, None if vm.group else vm.zone)
            found.setdefault(place, []).append(cell_of(vm, self.events.get(vm.name, ())))
        for life in self.lost:
            label = _label(life.update_domain, None) if life.update_domain is not None else GONE
            place = section_of_scope(life.scope), label
            found.setdefault(place, []).extend(gone_cell(name) for name in life.resources)
        return found

    def _section(self, group: w.GroupStates, cells: Mapping[tuple[str, str], list[Cell]], many: bool) -> Section:
        key = key_of(group.key)
        kind, _, name = key.partition("/")
        aggregated = not self.one_by_one or group.vms > self.most_cells
        columns = [_column(column, key, cells, aggregated) for column in group.columns]
        if (lost := cells.get((key, GONE))) is not None:
            columns.append(BoardColumn(GONE, lost, {}, 0, 0))
        quiet = group.counts["fine"] == group.vms
        return Section(
            key,
            KINDS.get(kind, kind),
            name or "Standalone VMs",
            columns,
            group.counts,
            group.vms,
            aggregated,
            folded=many and quiet,
            silent=group.vms - group.listening,
        )


def _column(column: w.Column, key: str, cells: Mapping[tuple[str, str], list[Cell]], aggregated: bool) -> BoardColumn:
    label = _label(column.update_domain, column.zone)
    drawn = [cell for cell in cells.get((key, label), ()) if not aggregated or cell.state != "fine"]
    busy = sum(column.counts[state] for state in BUSY)
    shown = sum(cell.state in BUSY for cell in drawn)
    return BoardColumn(label, drawn, column.counts, column.vms, max(0, busy - shown), column.vms - column.listening)


def _label(update_domain: int | None, zone: str | None) -> str:
    if update_domain is not None:
        return f"UD {update_domain}"
    return f"Zone {zone}" if zone else "No zone"
