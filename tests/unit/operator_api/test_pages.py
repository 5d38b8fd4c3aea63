"""Pages of very many things: in order, whole, and never in the way of others."""

import asyncio
import json
from typing import Any

from starlette.requests import Request

from duenotice.engine.names import Names
from duenotice.operator_api.pages import SLICE, page_of_names

FLEET = {f"vm-{number:04}": number for number in range(1000)}


def asked(query: str) -> Request:
    return Request({"type": "http", "query_string": query.encode(), "headers": []})


async def page(query: str, fleet: dict[str, int], names: Names) -> Any:
    def shown(name: str) -> dict[str, object] | None:
        return {"name": name} if fleet.get(name, 1) % 2 == 0 else None

    return json.loads(bytes((await page_of_names(asked(query), lambda: names, shown)).body))


async def _all(limit: int) -> list[str]:
    fleet, cursor, found = dict(FLEET), "", []
    names = Names(fleet)
    while True:
        answer = await page(f"limit={limit}&cursor={cursor}", fleet, names)
        found += [item["name"] for item in answer["items"]]
        assert len(answer["items"]) == limit or answer["next"] is None
        if answer["next"] is None:
            return found
        cursor = answer["next"]


def test_pages_add_up_to_everything_in_order() -> None:
    """What is left out by a filter leaves no gap in a page."""
    wanted = [name for name, number in FLEET.items() if number % 2 == 0]
    for limit in (1, 7, SLICE, 499, 500, 1000):
        assert asyncio.run(_all(limit)) == wanted, limit


def test_others_get_their_turn_while_a_page_is_made() -> None:
    """A thousand VMs are many turns of the loop, so no poll waits for the whole page."""

    async def turns() -> int:
        count = 0

        async def other() -> None:
            nonlocal count
            while True:
                count += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        await page("limit=1000", FLEET, Names(FLEET))
        task.cancel()
        return count

    assert asyncio.run(turns()) >= len(FLEET) / SLICE


def test_what_comes_and_goes_meanwhile_leaves_the_rest_in_place() -> None:
    """Neither twice nor left out."""

    async def changed() -> list[str]:
        fleet = dict(FLEET)
        names = Names(fleet)
        making = asyncio.create_task(page("limit=1000", fleet, names))
        for number in range(0, 20, 2):
            await asyncio.sleep(0)
            for name, is_new in ((f"vm-{number:04}", False), (f"vm-0000-{number}", True)):
                fleet.update({name: 0}) if is_new else fleet.pop(name)
                names.touch(name)
        return [item["name"] for item in (await making)["items"] if "-0000" not in item["name"]]

    found = asyncio.run(changed())
    kept = [name for name, number in FLEET.items() if number % 2 == 0 and number >= 20]
    assert [name for name in found if name in kept] == kept
