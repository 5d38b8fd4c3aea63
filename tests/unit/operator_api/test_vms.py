"""The list of VMs."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import pytest

from duenotice.client.operator.client import AsyncOperatorClient
from duenotice.operator_api import vms
from duenotice.operator_api.calls import Paging
from duenotice.wire.operator import STATES
from tests.support.node import Node

FLEET = """
[[hosts]]
name = "host-1"
[[vms]]
name = "db-0"
address = "127.0.1.10"
host = "host-1"
[[vms]]
name = "spot-0"
address = "127.0.1.11"
spot = true
[[vms]]
name = "quiet"
address = "127.0.1.12"
host = "host-1"
[[availability_sets]]
name = "web"
vms = [
  { name = "web-0", address = "127.0.2.1", update_domain = 0 },
  { name = "web-1", address = "127.0.2.2", update_domain = 1 },
]
"""


def test_a_page_of_all_vms_says_what_a_search_says_and_makes_no_copy_of_the_fleet() -> None:
    """So it costs as much as it shows, however many VMs there are; a search looks at all of them, on a copy (S26)."""
    with Node(FLEET) as node:
        for vm in ("db-0", "spot-0", "web-0"):
            node.document(vm)
        node.schedule("Freeze", "db-0")
        node.operate(f"/v1/events/{node.schedule('Reboot', 'web-0')}/approve")
        node.schedule("Reboot", "web-1")
        node.operate("/v1/hosts/host-1/degrade", {"risk": "low"})
        node.service.engine.publisher._frozen = None
        pages, cursor = [], ""
        while True:
            page = node.operator("GET", f"/v1/vms?limit=2&cursor={cursor}").json()
            pages += page["items"]
            if not (cursor := page["next"] or ""):
                break
        assert not _is_copied(node)
        assert pages == node.operator("GET", f"/v1/vms?state={','.join(STATES)}").json()["items"]
        assert _is_copied(node)
    assert len({vm["state"] for vm in pages}) >= 3
    assert [vm["name"] for vm in pages] == ["db-0", "quiet", "spot-0", "web-0", "web-1"]


def test_a_page_is_the_same_however_few_vms_are_looked_at_in_one_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    most: list[int] = []
    page_of_names = Paging.page_of_names

    def counted(paging: Paging, names: Sequence[str], shown: Callable[[str], Any], *room: Any) -> Any:
        most.append(paging.limit)
        return page_of_names(paging, names, shown, *room)

    monkeypatch.setattr(Paging, "page_of_names", counted)
    with Node(FLEET) as node:
        for limit, cursor in product((1, 2, 4, 5, 6), ("", "quiet", "web-1")):
            bodies = set()
            for at_once in (50, 1, 2, 3, 5):
                monkeypatch.setattr(vms, "AT_ONCE", at_once)
                most.clear()
                bodies.add(node.operator("GET", f"/v1/vms?limit={limit}&cursor={cursor}").body)
                assert max(most) <= min(limit, at_once)
            assert len(bodies) == 1, (limit, cursor, bodies)


def test_very_many_pages_at_once_take_a_bounded_part_of_each_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many clients ask: what all of them are given between two turns of the loop is what a poll waits for."""
    monkeypatch.setattr(vms, "AT_ONCE", 1)
    looked = Counter[int]()
    page_of_names = Paging.page_of_names

    def counted(paging: Paging, *rest: Any) -> Any:
        looked[turn[0]] += 1
        return page_of_names(paging, *rest)

    turn = [0]

    def next_turn() -> None:
        turn[0] += 1
        asyncio.get_running_loop().call_soon(next_turn)

    async def ask_often() -> None:
        asyncio.get_running_loop().call_soon(next_turn)
        app: Any = node.service.operator_app
        client = AsyncOperatorClient.in_process(app, node.token)
        pages = await asyncio.gather(*(client.vms().page(limit=5) for _ in range(100)))
        assert {len(page.items) for page in pages} == {5}

    monkeypatch.setattr(Paging, "page_of_names", counted)
    with Node(FLEET) as node:
        node.run(ask_often())
    assert looked.total() >= 500
    assert max(looked.values()) <= vms.MOST_PAGES


def _is_copied(node: Node) -> bool:
    return node.service.engine.publisher._frozen is not None
