"""The pages of the fleet: all of it as a board, one group, one VM; and what can be done to a VM."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from starlette.responses import Response

from duenotice.console import board
from duenotice.console.api import ApiProblem
from duenotice.console.pages import Page, Visit, go
from duenotice.console.timeline_page import iso
from duenotice.console.words import natural

MOST_BUSY = 2000
"""How many VMs that are not fine one page draws; the others are only counted."""

MOST_SECTIONS = 200
MOST_OF_GROUP = 5000
MOST_PARTS = 100
LOST = ("Terminate", "Preempt")
LOST_FOR_SECONDS = 3600
"""How long a removed VM is still drawn."""

DONE = {
    "restart": "{} is asked to restart.",
    "redeploy": "{} is asked to redeploy.",
    "evict": "{} is being evicted.",
    "delete": "{} is being deleted.",
}
VERSIONS = ("2020-07-01", "2019-08-01", "2019-04-01", "2019-01-01", "2017-11-01", "2017-08-01", "2017-03-01")


class FleetPages:
    """The pages of VMs and groups."""

    def pages(self) -> list[Page]:
        """The rows of the table."""
        return [
            Page("GET", "/", self.fleet),
            Page("GET", "/groups/{key:path}", self.group),
            Page("GET", "/vms/{name}", self.vm),
            Page("POST", "/vms/{name}/{operation}", self.operate),
            Page("GET", "/parts", self.parts),
        ]

    async def fleet(self, visit: Visit) -> Response:
        """The whole fleet, or what a search finds."""
        asked = {key: visit.query(key).strip() for key in ("q", "state")}
        drawn = await board_of(visit, limit=MOST_SECTIONS, **asked)
        whole = drawn.states["counts"] if not any(asked.values()) else await _counts(visit)
        return visit.page(
            "fleet.html",
            "Fleet",
            "events fleet hosts" if any(asked.values()) else "fleet",
            sections=drawn.sections(),
            left_out=drawn.states["left_out"],
            found=drawn.states["vms"],
            counts=whole,
            coming=coming(drawn.events),
            words=board.WORDS,
            q=asked["q"],
            state=asked["state"],
        )

    async def group(self, visit: Visit) -> Response:
        """One group with every VM drawn."""
        key = visit.name("key")
        states = await visit.api.get("states", group=key, limit=1)
        if not states["groups"]:
            raise ApiProblem(f"There is no group {key} with VMs.", hint="The fleet page shows all groups.", status=404)
        vms = await visit.api.all("vms", group=key, most=MOST_OF_GROUP)
        events = board.by_vm(await visit.api.all("events", most=MOST_OF_GROUP))
        (drawn,) = board.Board(states, vms, events, most_cells=MOST_OF_GROUP).sections()
        hitting = {vm["name"]: events[vm["name"]] for vm in vms if vm["name"] in events}
        return visit.page("group.html", drawn.name, "events fleet hosts", section=drawn, coming=coming(hitting))

    async def vm(self, visit: Visit) -> Response:
        """One VM: what it would receive now, and what can be done."""
        name = visit.name("name")
        vm = await visit.api.get("vms", name)
        host = await visit.api.get("hosts", vm["host"]) if vm["host"] else None
        version = version_of(visit)
        return visit.page(
            "vm.html",
            name,
            f"vm:{name} scope:{vm['scope']} hosts fleet",
            vm=vm,
            host=host,
            says=board.WORDS[vm["state"]],
            versions=VERSIONS,
            version=version,
            document=await visit.api.text("vms", name, "document", **{"api-version": version}),
            past=await _past_of(visit, name),
        )

    async def operate(self, visit: Visit) -> Response:
        """Restart, redeploy, evict or delete it."""
        name, operation = visit.name("name"), visit.name("operation")
        if operation not in DONE:
            raise ApiProblem(f"There is no action {operation}.", hint="Use the buttons of the VM's page.", status=404)
        said = DONE[operation].format(name)
        answer = await visit.done(f"/vms/{name}", lambda: visit.api.post("vms", name, operation), said)
        return (
            answer if await _is_there(visit, name) else go("/", said=said)
        )  # if nobody listens, the VM is gone at once

    async def parts(self, visit: Visit) -> Response:
        """The pieces of the board that have changed: `?vm=web-0&section=set/web`; always the counts and what comes."""
        query = visit.request.query_params
        events = board.by_vm(await visit.api.all("events", most=MOST_OF_GROUP))
        whole = await visit.api.get("states", limit=0)
        one_by_one = whole["vms"] <= board.MOST_ONE_BY_ONE
        cells = [await _cell(visit, name, events) for name in query.getlist("vm")[:MOST_PARTS]]
        sections = [await _section(visit, key, events, one_by_one) for key in query.getlist("section")[:MOST_PARTS]]
        return visit.parts(
            "board_parts.html",
            cells=cells,
            sections=[section for found in sections for section in found],
            counts=whole["counts"],
            coming=coming(events),
            words=board.WORDS,
        )


async def board_of(visit: Visit, limit: int, **asked: str) -> board.Board:
    """The board of some VMs; if there are many, only of those that are not fine."""
    states = await visit.api.get("states", limit=limit, **asked)
    events = board.by_vm(await visit.api.all("events", most=MOST_OF_GROUP))
    one_by_one = states["vms"] <= board.MOST_ONE_BY_ONE
    busy = asked | ({} if one_by_one else {"state": asked.get("state") or ",".join(board.BUSY)})
    vms = await visit.api.all("vms", most=MOST_BUSY, **busy)
    lost = [] if any(asked.values()) else await _lost(visit)
    return board.Board(states, vms, events, lost, one_by_one)


async def _section(
    visit: Visit, key: str, events: Mapping[str, list[board.Json]], one_by_one: bool
) -> list[board.Section]:
    try:
        states = await visit.api.get("states", group=key, limit=1)
    except ApiProblem as problem:
        if problem.status != 404:
            raise
        return []  # a group that went while somebody looked
    aggregated = not one_by_one or states["vms"] > board.MOST_CELLS
    vms = await visit.api.all("vms", most=MOST_BUSY, group=key, state=",".join(board.BUSY) if aggregated else "")
    return board.Board(states, vms, events, (), one_by_one).sections()


async def _cell(visit: Visit, name: str, events: Mapping[str, list[board.Json]]) -> board.Cell:
    try:
        return board.cell_of(await visit.api.get("vms", name), events.get(name, ()))
    except ApiProblem as problem:
        if problem.status != 404:
            raise
        return board.gone(name)


async def _counts(visit: Visit) -> dict[str, int]:
    return dict((await visit.api.get("states", limit=0))["counts"])


async def _lost(visit: Visit) -> list[board.Json]:
    """VMs that were removed a short time ago and did not come back."""
    since = iso(visit.now, -LOST_FOR_SECONDS)
    asked = [visit.api.get("timeline", **{"from": since, "to": visit.clock["now"], "type": type_}) for type_ in LOST]
    lives = [life for found in await asyncio.gather(*asked) for life in found["items"]]
    lost = [life for life in lives if life["outcome"] == "completed"][-MOST_PARTS:]
    return [life for life in lost if not await _is_there(visit, life["resources"][0])]


async def _is_there(visit: Visit, name: str) -> bool:
    try:
        await visit.api.get("vms", name)
    except ApiProblem:
        return False
    return True


async def _past_of(visit: Visit, name: str) -> list[board.Json]:
    """The last of its events that are over."""
    asked = {"from": iso(visit.now, -30 * 86400), "to": visit.clock["now"], "vm": name}
    lives = (await visit.api.get("timeline", **asked))["items"]
    return sorted((life for life in lives if life["outcome"]), key=lambda life: life["ended_at"], reverse=True)[:5]


def version_of(visit: Visit) -> str:
    """The api-version to show."""
    asked = visit.query("api-version", VERSIONS[0])
    return asked if asked in VERSIONS else VERSIONS[0]


def coming(events: Mapping[str, Iterable[Any]], most: int = 8) -> list[dict[str, Any]]:
    """What happens now and next, soonest first, each event once."""
    every = {event["id"]: event for hitting in events.values() for event in hitting}
    return sorted(every.values(), key=urgency)[:most]


def urgency(event: Mapping[str, Any]) -> tuple[Any, ...]:
    """The sort key of events: those that hit now come first, then the soonest, then by name."""
    return event["phase"] != "started", event["not_before"], natural(event["resources"][0])
