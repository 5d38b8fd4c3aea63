"""Events as a table over HTTP: filtered, counted, sorted before they are cut."""

from typing import Any

import pytest

from tests.support.node import Node

FLEET = """
[[hosts]]
name = "host-1"
[[scale_sets]]
name = "batch"
capacity = 12
addresses = "127.0.16.0/24"
[[vms]]
name = "db-0"
address = "127.0.1.10"
host = "host-1"
"""


@pytest.fixture(scope="module")
def node() -> Any:
    """Ten events of batch, two started, one cancelled; a maintenance of db-0 that waits."""
    with Node(FLEET) as running:
        running.enable("batch_0", "db-0")
        ids = [running.schedule("Reboot", f"batch_{number}") for number in range(10)]
        running.approve("batch_0", ids[7])
        running.operate(f"/v1/events/{ids[0]}/cancel", {"reason": "not today"})
        running.operate("/v1/maintenances", {"on": ["vm=db-0"], "type": "Freeze", "settle": "0s"})
        yield running


def rows(node: Node, query: str) -> Any:
    return node.operate(f"/v1/event-table?{query}", method="GET")


def test_the_most_urgent_rows_come_first_and_all_are_counted(node: Node) -> None:
    """Also when only a few are asked for: batch_7 is started, then as people count."""
    table = rows(node, "group=batch&limit=3&offset=0")
    assert [row["resources"] for row in table["items"]] == [["batch_7"], ["batch_1"], ["batch_2"]]
    assert table["total"] == 9
    assert table["counts"] == {
        "failed": 0, "started": 1, "approved": 0, "scheduled": 8, "completed": 0, "cancelled": 1, "resolved": 0,
    }  # fmt: skip
    rest = rows(node, "group=batch&limit=100&offset=3")["items"]
    assert [row["resources"][0] for row in rest] == [f"batch_{number}" for number in (3, 4, 5, 6, 8, 9)]


def test_what_is_over_is_there_when_its_state_is_asked_for(node: Node) -> None:
    """With its reason."""
    (row,) = rows(node, "state=cancelled,failed")["items"]
    assert (row["resources"], row["outcome"], row["reason"]) == (["batch_0"], "cancelled", "not today")


def test_a_row_says_what_it_belongs_to(node: Node) -> None:
    """Its maintenance by the beginning of the id, its host, its group."""
    (row,) = rows(node, "cause=maintenance&host=host-1")["items"]
    assert (row["group"], row["host"]) == (None, "host-1")
    assert rows(node, f"maintenance={row['maintenance'][:8]}")["total"] == 1
    piles = [row["maintenance"] for row in rows(node, "by=maintenance")["items"]]
    assert piles == sorted(piles, key=piles.index)


@pytest.mark.parametrize("query", ["state=fine", "cause=fun", "by=colour", "offset=-1", "limit=0"])
def test_what_is_not_known_is_refused(node: Node, query: str) -> None:
    """A filter that nobody knows is an error, not an empty list."""
    status, _ = node.refusal(f"/v1/event-table?{query}", method="GET")
    assert status == 400
