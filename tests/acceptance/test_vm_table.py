"""VMs as a table over HTTP: sorted as a whole, in the order in which people count."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.node import Node

FLEET = """
[[hosts]]
name = "host-10"
[[hosts]]
name = "host-9"
[[scale_sets]]
name = "batch"
capacity = 12
addresses = "127.0.16.0/24"
[[vms]]
name = "db-0"
address = "127.0.1.10"
host = "host-9"
[[vms]]
name = "db-1"
address = "127.0.1.9"
host = "host-10"
[[availability_sets]]
name = "web"
vms = [ { name = "web-0", address = "127.0.2.1", update_domain = 1 } ]
"""
SETS = [f"batch_{number}" for number in range(12)]


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """db-1 has asked and gets a Freeze; web-0 is hit now."""
    with Node(FLEET) as running:
        running.enable("db-1", "web-0")
        running.schedule("Freeze", "db-1")
        running.approve("web-0", running.schedule("Reboot", "web-0"))
        yield running


def rows(node: Node, query: str) -> Any:
    return node.operate(f"/v1/vm-table?{query}", method="GET")


def names(node: Node, query: str) -> list[str]:
    return [row["name"] for row in rows(node, query)["items"]]


def test_names_stand_as_people_count_and_pages_are_cut_afterwards(node: Node) -> None:
    """`batch_2` before `batch_10`; every page says of how many."""
    assert names(node, "") == [*SETS, "db-0", "db-1", "web-0"]
    assert names(node, "offset=10&limit=3") == ["batch_10", "batch_11", "db-0"]
    assert rows(node, "limit=1&q=batch")["total"] == 12


@pytest.mark.parametrize(
    ("sort", "first"),
    [
        ("-name", ["web-0", "db-1"]),
        ("state", ["web-0", "db-1", "batch_0"]),
        ("update_domain&group=web", ["web-0"]),
        ("host", ["db-0", "db-1", "batch_0"]),
        ("address", ["db-1", "db-0", "web-0", "batch_0"]),
        ("listens", ["db-1", "web-0", "batch_0"]),
        ("next_event", ["web-0", "db-1", "batch_0"]),
        ("last_seen&host=host-10", ["db-1"]),
        ("-last_seen&limit=1", ["batch_0"]),
    ],
)
def test_each_column_sorts(node: Node, sort: str, first: list[str]) -> None:
    """What is missing comes last, and what is alike by name."""
    assert names(node, f"sort={sort}")[: len(first)] == first


def test_a_row_has_when_it_last_asked_and_what_comes_next(node: Node) -> None:
    """A row has when it last asked and what comes next."""
    (row,) = rows(node, "q=db-1")["items"]
    assert (row["last_seen"] is not None, row["next_event"]["type"], row["listens"]) == (True, "Freeze", True)
    (row,) = rows(node, "q=db-0")["items"]
    assert (row["last_seen"], row["next_event"], row["listens"]) == (None, None, False)


@pytest.mark.parametrize(("query", "status"), [("sort=colour", 400), ("state=ill", 400), ("group=nobody", 404)])
def test_what_is_not_known_is_refused(node: Node, query: str, status: int) -> None:
    """What is not known is refused."""
    assert node.refusal(f"/v1/vm-table?{query}", method="GET")[0] == status
