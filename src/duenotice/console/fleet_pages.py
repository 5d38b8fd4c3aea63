"""The pages of the fleet: all of it as a board, one group, one VM; and what can be done to a VM."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from starlette.responses import Response

from duenotice.client.operator.client import AsyncOperatorClient
from duenotice.client.operator.errors import Denied
from duenotice.console import board
from duenotice.console.pages import PageRoute, Visit, go
from duenotice.console.vm_table import views, vm_table
from duenotice.console.words import natural
from duenotice.errors import DuenoticeError, NotFound
from duenotice.wire.api_versions import ADVICE, API_VERSIONS, SPOT_REBALANCE
from duenotice.wire.operator import Event, Life, Raised

MOST_BUSY = 2000
"""How many VMs that are not fine one page draws; the others are only counted."""

_BUSY = ",".join(board.BUSY)
MOST_SECTIONS = 200
MOST_OF_GROUP = 5000
MOST_PARTS = 100
LOST = ("Terminate", "Preempt")
LOST_FOR = timedelta(hours=1)
"""How long a removed VM is still drawn."""

PAST_OF_VM = timedelta(days=30)


async def _advise(client: AsyncOperatorClient, name: str) -> Raised:
    """Advise a spot VM to move; cancelling the event withdraws it."""
    return await client.schedule_event(ADVICE, [name])


OPERATIONS: dict[str, tuple[Callable[[AsyncOperatorClient, str], Awaitable[Raised]], str, str]] = {
    "restart": (AsyncOperatorClient.restart_vm, "is asked to restart", "was restarted"),
    "redeploy": (AsyncOperatorClient.redeploy_vm, "is asked to redeploy", "was redeployed"),
    "advise": (_advise, "is advised to move", "is advised to move"),
    "evict": (AsyncOperatorClient.evict_vm, "is being evicted", "was evicted"),
    "delete": (AsyncOperatorClient.delete_vm, "is being deleted", "was deleted"),
}
"""What asks for it, what is said when the VM was told, and what when nobody listens there (F03)."""


class FleetPages:
    """The pages of VMs and groups."""

    def pages(self) -> list[PageRoute]:
        """The rows of the table."""
        return [
            PageRoute("GET", "/", self.fleet),
            PageRoute("GET", "/groups/{key:path}", self.group),
            PageRoute("GET", "/vms/{name}", self.vm),
            PageRoute("POST", "/vms/{name}/{operation}", self.operate, "operator"),
            PageRoute("GET", "/parts", self.parts),
        ]

    async def fleet(self, visit: Visit) -> Response:
        """The whole fleet, or what a search finds."""
        if visit.query("view") == "table":
            return await vm_table(visit)
        asked = {key: visit.query(key).strip() for key in ("q", "state", "listens")}
        drawn = await board_of(visit, limit=MOST_SECTIONS, **asked)
        whole = drawn.states if not any(asked.values()) else await visit.client.states(limit=0)
        return visit.page(
            "fleet.html",
            "Fleet",
            "events fleet hosts listening" if any(asked.values()) else "fleet",
            sections=(sections := drawn.sections()),
            named=board.is_named(sections),
            left_out=drawn.states.left_out,
            found=drawn.states.vms,
            whole=whole,
            coming=coming(drawn.events),
            words=board.WORDS,
            q=asked["q"],
            state=asked["state"],
            listens=asked["listens"],
            **views("/", asked, "cells"),
        )

    async def group(self, visit: Visit) -> Response:
        """One group with every VM drawn."""
        key = visit.name("key")
        if visit.query("view") == "table":
            return await vm_table(visit, key)
        states = await visit.client.states(group=key, limit=1)
        if not states.groups:
            raise NotFound(f"There is no group {key} with VMs.", hint="The fleet page shows all groups.")
        vms = await visit.client.vms(group=key).first(MOST_OF_GROUP)
        events = board.by_vm(await visit.client.events().first(MOST_OF_GROUP))
        (drawn,) = board.Board(states, vms, events, most_cells=MOST_OF_GROUP).sections()
        hitting = {vm.name: events[vm.name] for vm in vms if vm.name in events}
        live, named = "events fleet hosts listening", board.is_named([drawn])
        where = views(f"/groups/{key}", {}, "cells")
        return visit.page("group.html", drawn.name, live, section=drawn, named=named, coming=coming(hitting), **where)

    async def vm(self, visit: Visit) -> Response:
        """One VM: what it would receive now, and what can be done."""
        name = visit.name("name")
        vm = await visit.client.vm(name)
        host = await visit.client.host(vm.host) if vm.host else None
        versions, version = await versions_of(visit)
        return visit.page(
            "vm.html",
            name,
            f"vm:{name} scope:{vm.scope} hosts fleet",
            vm=vm,
            host=host,
            says=board.WORDS[vm.state],
            versions=versions,
            gives_advice=SPOT_REBALANCE.name in versions,
            version=version,
            document=(await visit.client.document_bytes(name, version)).decode(),
            past=(await over_since(visit, PAST_OF_VM, name))[:5],
        )

    async def operate(self, visit: Visit) -> Response:
        """Restart, redeploy, evict or delete it."""
        name, operation = visit.name("name"), visit.name("operation")
        if operation not in OPERATIONS:
            raise NotFound(f"There is no action {operation}.", hint="Use the buttons of the VM's page.")
        do, told, at_once = OPERATIONS[operation]
        try:
            raised = await do(visit.client, name)
        except Denied:
            raise
        except DuenoticeError as problem:
            return go(f"/vms/{name}", failed=f"{problem.message} {problem.hint}")
        said = (
            f"{name} {told}." if raised.events else f"{name} {at_once} at once, without notice: nobody listens there."
        )
        # If nobody listens, the VM may be gone at once.
        return go(f"/vms/{name}" if await _is_there(visit, name) else "/", said=said)

    async def parts(self, visit: Visit) -> Response:
        """The pieces of the board that have changed: `?vm=web-0&section=set/web`; always the counts and what comes.

        Of a small section only the counts, unless it is to be `redrawn`.
        """
        query = visit.request.query_params
        events = board.by_vm(await visit.client.events().first(MOST_OF_GROUP))
        whole = await visit.client.states(limit=0)
        one_by_one = whole.vms <= board.MOST_ONE_BY_ONE
        cells = [await _cell(visit, name, events) for name in query.getlist("vm")[:MOST_PARTS]]
        redrawn = query.getlist("redrawn")
        keys = dict.fromkeys([*query.getlist("section"), *redrawn][:MOST_PARTS])
        lost = await _lost(visit) if redrawn else []
        sections = [await _section(visit, key, events, one_by_one, lost) for key in keys]
        return visit.parts(
            "board_parts.html",
            cells=cells,
            sections=[section for found in sections for section in found],
            redrawn=set(redrawn),
            named=whole.vms <= board.MOST_NAMED,
            whole=whole,
            coming=coming(events),
            words=board.WORDS,
        )


async def board_of(visit: Visit, limit: int, q: str = "", state: str = "", listens: str = "") -> board.Board:
    """The board of some VMs; if there are many, only of those that are not fine."""
    states = await visit.client.states(limit=limit, q=q, state=state, listens=listens)
    events = board.by_vm(await visit.client.events().first(MOST_OF_GROUP))
    one_by_one = states.vms <= board.MOST_ONE_BY_ONE
    drawn = state if one_by_one else state or _BUSY
    vms = await visit.client.vms(q=q, state=drawn, listens=listens).first(MOST_BUSY)
    lost = [] if q or state or listens else await _lost(visit)
    return board.Board(states, vms, events, lost, one_by_one)


async def _section(
    visit: Visit, key: str, events: Mapping[str, list[Event]], one_by_one: bool, lost: Sequence[Life]
) -> list[board.Section]:
    try:
        states = await visit.client.states(group=key, limit=1)
    except NotFound:
        return []  # a group that went while somebody looked
    aggregated = not one_by_one or states.vms > board.MOST_CELLS
    vms = await visit.client.vms(group=key, state=_BUSY if aggregated else "").first(MOST_BUSY)
    return board.Board(states, vms, events, lost, one_by_one).sections()


async def _cell(visit: Visit, name: str, events: Mapping[str, list[Event]]) -> board.Cell:
    try:
        return board.cell_of(await visit.client.vm(name), events.get(name, ()))
    except NotFound:
        return board.gone(name)


async def _lost(visit: Visit) -> list[Life]:
    """VMs that were removed a short time ago and did not come back."""
    since = visit.now - LOST_FOR
    asked = [visit.client.timeline(from_=since, to=visit.now, type=type_) for type_ in LOST]
    lives = [life for found in await asyncio.gather(*asked) for life in found.items]
    lost = [life for life in lives if life.outcome == "completed"][-MOST_PARTS:]
    return [life for life in lost if not await _is_there(visit, life.resources[0])]


async def _is_there(visit: Visit, name: str) -> bool:
    with suppress(DuenoticeError):
        await visit.client.vm(name)
        return True
    return False


async def over_since(visit: Visit, span: timedelta, vm: str = "") -> list[Life]:
    """The events that are over since then, or those of them that hit a VM; the last first."""
    lives = (await visit.client.timeline(from_=visit.now - span, to=visit.now, vm=vm)).items
    ended = [(life.ended_at, life) for life in lives if life.outcome and life.ended_at]
    return [life for _, life in sorted(ended, key=lambda pair: pair[0], reverse=True)]


async def versions_of(visit: Visit, usual: str = "") -> tuple[tuple[str, ...], str]:
    """The api-versions that VMs may ask in, newest first, and the one to show: the `usual` one, if it is there."""
    versions = (await visit.client.version()).api_versions
    usual = usual if usual in versions else API_VERSIONS[-1].name
    asked = visit.query("api-version", usual)
    return versions, asked if asked in versions else usual


def coming(events: Mapping[str, Iterable[Event]], most: int = 8) -> list[Event]:
    """What happens now and next, soonest first, each event once."""
    every = {event.id: event for hitting in events.values() for event in hitting}
    return sorted(every.values(), key=urgency)[:most]


def urgency(event: Event) -> tuple[bool, datetime, str]:
    """The sort key of events: those that hit now come first, then the soonest, then by name."""
    return event.phase != "started", event.not_before, natural(event.resources[0])
