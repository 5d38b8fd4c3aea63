"""What tables of the console are made of: pages, piles, links, and doing things to many at once."""

import asyncio
from typing import Any

import pytest

from duenotice.client.operator.errors import Denied
from duenotice.console.board import MOST_NAMED, BoardColumn, Cell, Section, is_named
from duenotice.console.events import grouped
from duenotice.console.fleet import bulk_message, sort_link, view_links
from duenotice.console.formats import address
from duenotice.console.visit import BulkResult, ShownRows, bulk_action, whole_page
from duenotice.errors import Refused
from duenotice.wire.operator import Raised, VmQuery, VmRow, VmTable


@pytest.mark.parametrize(
    ("page", "total", "first", "last", "pages"),
    [(1, 0, 0, 0, 1), (1, 5, 1, 5, 1), (1, 100, 1, 100, 1), (2, 101, 101, 101, 2), (3, 250, 201, 250, 3)],
)
def test_a_page_says_which_rows_of_how_many(page: int, total: int, first: int, last: int, pages: int) -> None:
    shown = ShownRows(page, total)
    assert (shown.first, shown.last, shown.pages) == (first, last, pages)


def test_an_address_keeps_what_is_given_and_leaves_out_what_is_empty() -> None:
    assert address("/events", {"q": "a b", "by": ""}, page=2, state="") == "/events?q=a+b&page=2"
    assert address("/events", {"q": "a"}, q="") == "/events"


def test_the_two_views_of_vms_lead_to_each_other_with_the_same_filters() -> None:
    """Cells know no order."""
    where = view_links("/", {"q": "web", "sort": "-name", "state": "fine"}, "table")
    assert where == {"view": "table", "cells_at": "/?q=web&state=fine", "table_at": "/?q=web&state=fine&view=table"}


def test_a_click_sorts_by_a_column_and_another_turns_it() -> None:
    assert [sort_link(VmQuery(sort=sort), "host") for sort in ("", "host", "-host")] == ["host", "-host", "host"]
    assert sort_link(VmQuery(), "name") == "-name"


def test_without_a_pile_there_is_no_title() -> None:
    assert grouped((), "host") == []


def test_each_is_done_and_each_refusal_keeps_its_reason() -> None:
    """In the order in which they were chosen."""

    async def do(row: str) -> str:
        if row in ("b", "d"):
            raise Refused(f"{row} is over.", hint="Look.")
        return row

    outcomes = asyncio.run(bulk_action(["a", "b", "c", "d"], do))
    assert (outcomes.done, outcomes.refused) == (2, (("b", "b is over. Look."), ("d", "d is over. Look.")))
    assert set(outcomes.answers) == {"a", "c"}


def test_who_may_not_do_it_is_refused_as_a_whole() -> None:
    async def do(_: str) -> None:
        raise Denied("Not allowed.")

    with pytest.raises(Denied):
        asyncio.run(bulk_action(["a"], do))


def test_vms_that_were_hit_without_notice_are_counted() -> None:
    assert bulk_message(BulkResult(1, (), (object(),)), "asked to restart") == "1 VM asked to restart."
    said = bulk_message(BulkResult(3, (), (Raised(()), Raised(()), object())), "asked to restart")
    assert said == "3 VMs asked to restart. 2 of them at once, without notice: nobody listens there."


@pytest.mark.parametrize(("cells", "named"), [(0, True), (MOST_NAMED, True), (MOST_NAMED + 1, False)])
def test_few_cells_have_names(cells: int, named: bool) -> None:
    column = BoardColumn("UD 0", [Cell(f"vm-{n}", "fine", "") for n in range(cells)], {}, cells, 0)
    section = Section("set/web", "set", "web", [column], {}, cells, aggregated=False, folded=False)
    assert is_named([section]) is named


@pytest.mark.parametrize(
    ("page", "total", "asks"),
    [
        (1, 230, [(0, 100), (40, 60), (80, 20)]),
        (3, 230, [(200, 100)]),
        (3, 240, [(200, 100), (230, 70)]),
    ],
)
def test_a_page_is_filled_from_several_answers(page: int, total: int, asks: list[tuple[int, int]]) -> None:
    """An answer ends at its bytes (S24); when there are fewer rows by now, the page has what there is."""
    fields: dict[str, Any] = dict.fromkeys(VmRow.__struct_fields__)
    rows = tuple(VmRow(**{**fields, "name": f"vm-{number}"}) for number in range(230))
    asked: list[tuple[int, int]] = []

    async def ask(begin: int, most: int) -> VmTable:
        asked.append((begin, most))
        return VmTable(total, rows[begin : begin + min(most, 40)])

    assert asyncio.run(whole_page(page, ask)).items == rows[(page - 1) * 100 : page * 100]
    assert asked == asks
