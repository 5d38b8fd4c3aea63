"""The pages of the fleet: all of it as a board, one group, one VM; and what can be done to a VM."""

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from duenotice.console import board
from duenotice.console.api import ApiProblem
from duenotice.console.pages import Page, Visit

MOST_DRAWN = 20_000
"""VMs of a fleet that one page draws; a larger fleet is looked at group by group."""

DONE = {
    "restart": "asked to restart",
    "redeploy": "asked to redeploy",
    "evict": "is being evicted",
    "delete": "is being deleted",
}
VERSIONS = ("2020-07-01", "2019-08-01", "2019-04-01", "2019-01-01", "2017-11-01", "2017-08-01", "2017-03-01")


class FleetPages:
    """Where VMs are seen."""

    def pages(self) -> list[Page]:
        """The rows of the table."""
        return [
            Page("GET", "/", self.fleet),
            Page("GET", "/groups/{kind}/{name}", self.group),
            Page("GET", "/vms/{name}", self.vm),
            Page("POST", "/vms/{name}/{operation}", self.operate),
            Page("GET", "/parts", self.parts),
        ]

    async def fleet(self, visit: Visit) -> Response:
        """Everything at a glance, or what a search finds."""
        wanted = visit.query("q").strip().lower()
        fleet = await _fleet(visit)
        if wanted:
            fleet = fleet._replace(vms=[vm for vm in fleet.vms if _matches(vm, wanted)])
        drawn = board.sections(fleet, 60 if len(fleet.vms) > 1500 else board.MOST_CELLS)
        return visit.page(
            "fleet.html",
            "Fleet",
            sections=drawn,
            counts=board.summary(section.counts for section in drawn),
            coming=_coming(fleet.events),
            wanted=visit.query("q"),
            total=len(fleet.vms),
        )

    async def group(self, visit: Visit) -> Response:
        """One group with every VM drawn."""
        key = f"{visit.request.path_params['kind']}/{visit.request.path_params['name']}"
        fleet = await _fleet(visit, key)
        if not fleet.vms:
            raise ApiProblem(404, f"There is no group {key} with VMs.", "The fleet page shows all groups.")
        drawn = board.section(key, fleet.vms, fleet, most_cells=MOST_DRAWN)
        return visit.page("group.html", key, section=drawn)

    async def vm(self, visit: Visit) -> Response:
        """One VM: what it would receive now, and what can be done."""
        name = visit.request.path_params["name"]
        return visit.page("vm.html", name, **await _one_vm(visit, name))

    async def operate(self, visit: Visit) -> Response:
        """Restart, redeploy, evict or delete it."""
        name, operation = visit.request.path_params["name"], visit.request.path_params["operation"]
        if operation not in DONE:
            raise ApiProblem(404, f"Nothing is called {operation}.", "Use the buttons of the VM's page.")
        return await visit.done(
            f"/vms/{name}", lambda: visit.api.post("vms", name, operation), f"{name} {DONE[operation]}."
        )

    async def parts(self, visit: Visit) -> Response:
        """The pieces of the board that have changed: `?vm=web-0&section=set/web&summary=1`."""
        query = visit.request.query_params
        hosts, events = await _conditions(visit), board.by_vm(await visit.api.all("events"))
        cells = [await _cell(visit, name, hosts) for name in query.getlist("vm")[:500]]
        keys = query.getlist("section")[:50]
        drawn = [
            board.section(key, vms, board.Fleet(vms, hosts, events), 60)
            for key in keys
            if (vms := await _vms(visit, key))
        ]
        return visit.parts("board_parts.html", cells=cells, sections=drawn, coming=_coming(events))


async def _fleet(visit: Visit, group: str | None = None) -> board.Fleet:
    events = board.by_vm(await visit.api.all("events"))
    return board.Fleet(await _vms(visit, group), await _conditions(visit), events)


async def _vms(visit: Visit, group: str | None) -> list[dict[str, Any]]:
    vms = await visit.api.all("vms", most=MOST_DRAWN, group=None if group == board.ALONE else group)
    return vms if group != board.ALONE else [vm for vm in vms if vm["group"] is None]


async def _conditions(visit: Visit) -> dict[str, str]:
    return {host["name"]: host["condition"] for host in await visit.api.all("hosts")}


async def _cell(visit: Visit, name: str, conditions: dict[str, str]) -> board.Cell:
    try:
        vm = await visit.api.get("vms", name)
    except ApiProblem as problem:
        if problem.status != 404:
            raise
        return board.Cell(name, "gone", f"{name}: {board.WORDS['gone']}")
    return board.cell_of(vm, vm["events"], conditions.get(vm["host"], "healthy"))


async def _one_vm(visit: Visit, name: str) -> dict[str, Any]:
    vm = await visit.api.get("vms", name)
    condition = (await _conditions(visit)).get(vm["host"], "healthy")
    version = visit.query("api-version", VERSIONS[0])
    return {
        "vm": vm,
        "cell": board.cell_of(vm, vm["events"], condition),
        "condition": condition,
        "versions": VERSIONS,
        "version": version,
        "document": await visit.api.text("vms", name, "document", **{"api-version": version}),
    }


def _coming(events: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """What comes next, soonest first, each event once."""
    every = {event["id"]: event for hitting in events.values() for event in hitting}
    return sorted(every.values(), key=lambda event: (event["phase"] != "started", event["not_before"]))[:6]


def _matches(vm: dict[str, Any], wanted: str) -> bool:
    return any(wanted in str(vm[key] or "").lower() for key in ("name", "group", "host", "address", "zone"))
