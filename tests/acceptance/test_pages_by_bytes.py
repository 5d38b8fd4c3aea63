"""Lists end at a mebibyte as well as at their rows, and what is left follows on the next page (S24)."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from duenotice.bounds import PAGE_BYTES
from tests.support.cli import duenotice
from tests.support.node import Node

VMS = 700
LONGEST_ANSWER = PAGE_BYTES * 1.01
"""A page, and what is around its rows."""


def fleet() -> str:
    """VMs on one host, each with a tag of 3,000 characters: all rows together are twice as large as a page."""
    row = '[[vms]]\nname = "vm-{0:03}"\naddress = "127.9.{1}.{2}"\nhost = "h"\ntags = {{ note = "{3}" }}\n'
    vms = (row.format(n, n // 250, n % 250 + 1, "x" * 3000) for n in range(VMS))
    return "[[hosts]]\nname = 'h'\n" + "".join(vms)


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """A node on which each VM has an event with a long description."""
    with Node(fleet()) as running:
        for number in range(VMS):
            running.enable(f"vm-{number:03}")
            running.schedule("Reboot", f"vm-{number:03}", description="y" * 1000)
        for word in "zw":
            for number in range(0, VMS, 2):
                running.schedule("Freeze", f"vm-{number:03}", description=word * 1000)
        yield running


def pages_of(node: Node, path: str) -> list[list[Any]]:
    """The items of each page, none of which is larger than it may be."""
    pages: list[list[Any]] = []
    answer = node.operator("GET", path)
    while True:
        assert len(answer.body) <= LONGEST_ANSWER
        pages.append(answer.json()["items"])
        if (cursor := answer.json()["next"]) is None:
            return pages
        answer = node.operator("GET", f"{path}&cursor={cursor}")


@pytest.mark.parametrize(
    ("path", "key", "count"),
    [
        ("/v1/vms?limit=1000", "name", VMS),
        ("/v1/vms?limit=1000&host=h", "name", VMS),
        ("/v1/events?limit=1000", "id", 2 * VMS),
    ],
)
def test_a_page_ends_at_its_bytes_and_the_pages_add_up(node: Node, path: str, key: str, count: int) -> None:
    """Each once."""
    pages = pages_of(node, path)
    found = [item[key] for page in pages for item in page]
    assert len(found) == len(set(found)) == count
    assert len(pages) > 1


@pytest.mark.parametrize("path", ["/v1/vm-table?limit=1000", "/v1/event-table?limit=1000"])
def test_a_table_ends_at_its_bytes_and_goes_on_at_the_row_behind_it(node: Node, path: str) -> None:
    """It says how many rows there are in all."""
    found, total = list[str](), 1
    while len(found) < total:
        answer = node.operator("GET", f"{path}&offset={len(found)}")
        assert len(answer.body) <= LONGEST_ANSWER
        total = answer.json()["total"]
        found += [row.get("name") or row["id"] for row in answer.json()["items"]]
    assert len(set(found)) == total >= VMS


def test_the_timeline_says_how_many_events_it_has_left_out(node: Node) -> None:
    """The newest are shown."""
    answer = node.operator("GET", "/v1/timeline")
    assert len(answer.body) <= LONGEST_ANSWER
    assert len(answer.json()["items"]) + answer.json()["left_out"] == 2 * VMS > len(answer.json()["items"])


def test_the_audit_trail_ends_a_page_at_its_bytes(node: Node) -> None:
    """In both directions."""
    for way in ("after=0", "before=99999999"):
        pages = pages_of(node, f"/v1/audit?{way}&limit=1000&action=event-raised")
        found = [item["position"] for page in pages for item in page]
        assert len(set(found)) == len(found) == 2 * VMS


def test_the_history_of_one_event_has_pages(node: Node) -> None:
    """By the position in the journal."""
    event_id = node.operate("/v1/events?limit=1000&vm=vm-001", method="GET")[0]["id"]
    with node.client() as client:
        listing = client.event_history(event_id)
        assert listing.page(limit=1).items == tuple(listing)[:1]


def test_a_call_that_raises_very_many_events_answers_with_one_page_of_them(node: Node) -> None:
    """The others are in the list of events."""
    answer = node.operator("POST", "/v1/hosts/h/degrade", {"notice": "7d"})
    raised = answer.json()
    assert len(answer.body) <= LONGEST_ANSWER
    assert len(raised["events"]) + raised.get("left_out", 0) == VMS
    node.operate("/v1/hosts/h/repair")


@pytest.fixture(scope="module")
def plan(node: Node) -> Any:
    """A plan on each VM, one at a time."""
    return node.operate("/v1/maintenances", {"on": ["host=h"], "type": "Reboot", "at_once": 1, "settle": "1m"})


def test_a_plan_has_its_steps_in_numbers_and_a_call_of_its_own_has_their_pages(node: Node, plan: Any) -> None:
    """In the order of the plan, or those of one status."""
    assert (plan["progress"]["waiting"], plan["progress"]["under-way"], plan["vms"]["waiting"]) == (VMS - 1, 1, VMS - 1)
    assert (plan["groups"][0], len(plan["groups"]), plan["groups_in_all"]) == ("vm/vm-000", 20, VMS)
    assert (plan["steps_kept"], "steps" in plan) == (True, False)
    path = f"/v1/maintenances/{plan['id']}/steps"
    for query, count in (("limit=1000", VMS), ("limit=99", VMS), ("limit=7&status=waiting", VMS - 1)):
        steps = [step for page in pages_of(node, f"{path}?{query}") for step in page]
        assert [step["group"] for step in steps] == [f"vm/vm-{n:03}" for n in range(VMS - count, VMS)]
    assert [step["status"] for step in node.operate(f"{path}?status=under-way", method="GET")] == ["under-way"]
    assert node.refusal(f"{path}?status=odd", method="GET")[0] == 400
    assert node.refusal(f"{path}?cursor=-1", method="GET")[0] == 400
    assert node.refusal("/v1/maintenances/00000000-0000/steps", method="GET")[0] == 404
    assert pages_of(node, f"{path}?cursor={VMS + 5}") == [[]]


def timeline_of(node: Node, method: str, path: str, body: Any = None) -> tuple[set[tuple[int, ...]], list[str]]:
    """The numbers that all pages have in common, and the groups of all steps."""
    numbers, groups, cursor = set[tuple[int, ...]](), list[str](), "0"
    while cursor:
        seen = node.operator(method, f"{path}&cursor={cursor}", body).json()
        numbers.add((seen["steps"], seen["vms"], seen["silent"], seen["left_out"]))
        groups += [step["group"] for step in seen["timeline"]]
        cursor = seen["next"]
    return numbers, groups


def test_a_preview_and_an_outlook_have_pages_and_the_numbers_of_all(node: Node, plan: Any) -> None:
    """Each page looks ahead again."""
    numbers, groups = timeline_of(node, "GET", f"/v1/maintenances/{plan['id']}/outlook?limit=300")
    assert (numbers, len(set(groups))) == ({(VMS - 1, VMS - 1, 0, 0)}, VMS - 1)
    asked = {"on": ["host=h"], "type": "Freeze", "at_once": 1}
    with Node(fleet()) as fresh:  # one with nobody who listens
        numbers, groups = timeline_of(fresh, "POST", "/v1/maintenances?dry_run=true&limit=300", asked)
    assert (numbers, len(set(groups))) == ({(VMS, VMS, VMS, 0)}, VMS)


READERS: dict[str, Callable[[Node], int]] = {
    "client.vms": lambda node: _count(node, lambda client: len(list(client.vms()))),
    "client.events": lambda node: _count(node, lambda client: len(list(client.events())) // 2),
    "duenotice vm list": lambda node: len(duenotice(node, "vm", "list", "-o", "name").out.splitlines()),
}


def _count(node: Node, read: Callable[[Any], int]) -> int:
    with node.client() as client:
        return read(client)


@pytest.mark.parametrize("who", READERS)
def test_all_who_read_lists_follow_their_pages(node: Node, who: str) -> None:
    """Nothing is missing behind the first mebibyte."""
    assert READERS[who](node) == VMS
