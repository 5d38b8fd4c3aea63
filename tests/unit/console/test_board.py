"""The fleet as a picture."""

from typing import Any

import pytest

from duenotice.console import board
from duenotice.console.board import Board
from duenotice.wire import operator as w
from tests.support.answers import a_life, a_vm, an_event

COUNTS = dict.fromkeys(w.STATES, 0)


def vm(name: str, group: str | None = "set/web", state: str = "fine", **more: Any) -> w.Vm:
    return a_vm(name, group=group, state=state, **{"update_domain": 0 if group else None} | more)


def column(fine: int = 0, update_domain: int | None = 0, zone: str | None = None, **counts: int) -> w.Column:
    all_ = COUNTS | {"fine": fine} | counts
    return w.Column(sum(all_.values()), all_, 0, update_domain, zone)


def group(key: str | None, *columns: w.Column) -> w.GroupStates:
    counts = {state: sum(one.counts[state] for one in columns) for state in COUNTS}
    return w.GroupStates(key=key, vms=sum(counts.values()), counts=counts, listening=0, columns=columns)


def states(*groups: w.GroupStates) -> w.States:
    return w.States(vms=0, counts={}, listening=0, groups=groups, left_out=0)


event = an_event


@pytest.mark.parametrize(
    ("life", "state"),
    [
        (event("a"), "scheduled"),
        (event("a", approved_by="vm/a"), "approved"),
        (event("a", phase="started"), "started"),
        (a_life("a", phase="started", outcome="completed"), "completed"),
        (a_life("a", phase="started", outcome="failed", state="resolved"), "resolved"),
    ],
)
def test_an_event_puts_its_vms_in_a_state(life: w.Event, state: str) -> None:
    assert board.event_state(life) == state


@pytest.mark.parametrize(
    ("scope", "section"),
    [
        ("set/web", "set/web"),
        ("scale-set/batch/2", "scale-set/batch"),
        ("service/shop", "service/shop"),
        ("vm/a", "alone"),
    ],
)
def test_a_scope_lies_in_a_section(scope: str, section: str) -> None:
    assert board.section_of_scope(scope) == section


def test_a_cell_says_what_is_to_happen() -> None:
    cell = board.cell_of(vm("web-0", state="scheduled"), [event("web-0")])
    assert cell == board.Cell("web-0", "scheduled", "web-0: Reboot, notified, waiting for its notice to end")
    silent = board.cell_of(vm("web-0", listens=False))
    assert silent == board.Cell("web-0", "fine", "web-0: nothing planned, would get no notice", silent=True)


def test_cells_stand_in_natural_order_in_the_column_of_their_update_domain() -> None:
    vms = [vm("web-10"), vm("web-9"), vm("web-1", update_domain=1)]
    (section,) = Board(states(group("set/web", column(2), column(1, 1))), vms, {}).sections()
    assert [(c.label, [cell.name for cell in c.cells]) for c in section.columns] == [
        ("UD 0", ["web-9", "web-10"]),
        ("UD 1", ["web-1"]),
    ]


def test_vms_on_their_own_stand_by_zone() -> None:
    vms = [vm("a", None, zone="2"), vm("b", None)]
    alone = group(None, column(1, None), column(1, None, "2"))
    (section,) = Board(states(alone), vms, {}).sections()
    assert (section.key, section.name) == ("alone", "Standalone VMs")
    assert [(c.label, [cell.name for cell in c.cells]) for c in section.columns] == [
        ("No zone", ["b"]),
        ("Zone 2", ["a"]),
    ]


def test_a_large_section_draws_only_who_has_something_to_say_and_counts_the_rest() -> None:
    big = group("set/web", column(151, scheduled=3))
    drawn = [vm("web-0"), vm("web-1", state="scheduled")]
    (section,) = Board(states(big), drawn, {}).sections()
    (only,) = section.columns
    assert section.aggregated and [cell.name for cell in only.cells] == ["web-1"]
    assert (only.total, only.more) == (154, 2)


def test_all_sections_of_a_large_fleet_are_counted() -> None:
    (section,) = Board(states(group("set/web", column(2))), [], {}, one_by_one=False).sections()
    assert section.aggregated


def test_quiet_sections_are_folded_when_there_are_many() -> None:
    quiet = [group(f"set/{number}", column(1)) for number in range(board.UNFOLDED)]
    busy = group("set/busy", column(0, started=1))
    few = Board(states(*quiet), [], {}).sections()
    many = Board(states(busy, *quiet), [], {}).sections()
    assert not any(section.folded for section in few)
    assert [section.folded for section in many] == [False, *[True] * board.UNFOLDED]


def test_what_was_taken_away_is_drawn_where_it_was() -> None:
    lost = [event("web-7", scope="set/web", update_domain=0), event("a")]
    both = states(group("set/web", column(1)), group(None, column(1, None)))
    web, alone = Board(both, [vm("web-0")], {}, lost).sections()
    assert [(cell.name, cell.state) for cell in web.columns[0].cells] == [("web-0", "fine"), ("web-7", "gone")]
    assert [(c.label, [cell.name for cell in c.cells]) for c in alone.columns][-1] == ("gone", ["a"])


def test_events_are_found_by_the_vms_they_hit() -> None:
    both, one = event("a", "b"), event("b")
    assert board.events_by_vm([both, one]) == {"a": [both], "b": [both, one]}
