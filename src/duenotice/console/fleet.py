"""The pages of the fleet: as a board or a table, a group, a VM, hosts and scale sets; and what can be done to them."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from msgspec.structs import asdict
from starlette.responses import Response

from duenotice.client.operator.client import AsyncOperatorClient
from duenotice.console import board
from duenotice.console.attention import count
from duenotice.console.formats import address, natural
from duenotice.console.visit import (
    BulkResult,
    Flash,
    ShownRows,
    Visit,
    bulk_action,
    chosen_rows,
    form_of,
    page_of,
    redirect,
    refusal_text,
    safe_path,
    whole_page,
)
from duenotice.errors import DuenoticeError, Malformed, NotFound
from duenotice.wire import operator as w
from duenotice.wire.api_versions import ADVICE, API_VERSIONS, SPOT_REBALANCE
from duenotice.wire.operator import Event, Group, Life, Raised, Scaled

MOST_BUSY = 2000
"""How many VMs that are not fine one page draws; the others are only counted."""

_BUSY = ",".join(board.BUSY)
MOST_SECTIONS = 200
MOST_EVENTS = 5000
MOST_PARTS = 100
LOST = ("Terminate", "Preempt")
LOST_FOR = timedelta(hours=1)
"""How long a removed VM is still drawn."""

PAST_OF_VM = timedelta(days=30)


async def _advise(client: AsyncOperatorClient, name: str) -> Raised:
    """Advise a spot VM to move; cancelling the event withdraws it."""
    return await client.schedule_event(ADVICE, [name])


VM_ACTIONS: dict[str, tuple[Callable[[AsyncOperatorClient, str], Awaitable[Raised]], str, str]] = {
    "restart": (AsyncOperatorClient.restart_vm, "is asked to restart", "was restarted"),
    "redeploy": (AsyncOperatorClient.redeploy_vm, "is asked to redeploy", "was redeployed"),
    "advise": (_advise, "is advised to move", "is advised to move"),
    "evict": (AsyncOperatorClient.evict_vm, "is being evicted", "was evicted"),
    "delete": (AsyncOperatorClient.delete_vm, "is being deleted", "was deleted"),
}
"""What asks for it, what is said when the VM was notified, and what when nobody listens there (F03)."""


async def fleet_page(visit: Visit) -> Response:
    """The whole fleet, or what a search finds."""
    if visit.query("view") == "table":
        return await table_page(visit)
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
        **view_links("/", asked, "cells"),
    )


async def group_page(visit: Visit) -> Response:
    """One group with every VM drawn."""
    key = visit.name("key")
    if visit.query("view") == "table":
        return await table_page(visit, key)
    states = await visit.client.states(group=key, limit=1)
    if not states.groups:
        raise NotFound(f"There is no group {key} with VMs.", hint="The fleet page shows all groups.")
    vms = await visit.client.vms(group=key).first(MOST_EVENTS)
    events = board.events_by_vm(await visit.client.events().first(MOST_EVENTS))
    (drawn,) = board.Board(states, vms, events, most_cells=MOST_EVENTS).sections()
    hitting = {vm.name: events[vm.name] for vm in vms if vm.name in events}
    live, named = "events fleet hosts listening", board.is_named([drawn])
    where = view_links(f"/groups/{key}", {}, "cells")
    return visit.page("group.html", drawn.name, live, section=drawn, named=named, coming=coming(hitting), **where)


async def vm_page(visit: Visit) -> Response:
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
        past=(await _ended_since(visit, PAST_OF_VM, name))[:5],
    )


async def vm_action(visit: Visit) -> Response:
    """Restart, redeploy, evict or delete it."""
    name, action = visit.name("name"), visit.name("action")
    if action not in VM_ACTIONS:
        raise NotFound(f"There is no action {action}.", hint="Use the buttons of the VM's page.")
    act, notified, without_notice = VM_ACTIONS[action]
    try:
        raised = await act(visit.client, name)
    except DuenoticeError as problem:
        return redirect(f"/vms/{name}", failed=refusal_text(problem))
    if raised.events:
        message = f"{name} {notified}."
    else:
        message = f"{name} {without_notice} at once, without notice: nobody listens there."
    # If nobody listens, the VM may be gone at once.
    return redirect(f"/vms/{name}" if await _is_there(visit, name) else "/", done=message)


async def board_parts(visit: Visit) -> Response:
    """The pieces of the board that have changed: `?vm=web-0&section=set/web`; always the counts and what comes.

    Of a small section only the counts, unless it is to be `redrawn`.
    """
    query = visit.request.query_params
    events = board.events_by_vm(await visit.client.events().first(MOST_EVENTS))
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
    events = board.events_by_vm(await visit.client.events().first(MOST_EVENTS))
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
        return board.gone_cell(name)


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


async def _ended_since(visit: Visit, span: timedelta, vm: str = "") -> list[Life]:
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


TABLE_COLUMNS = {
    "name": "Name",
    "state": "State",
    "update_domain": "Update domain",
    "host": "Host",
    "address": "Address",
    "last_seen": "Last seen",
    "listens": "Listens",
    "next_event": "Next event",
}
"""Each can be sorted by."""

BULK_ACTIONS = {
    "restart": (AsyncOperatorClient.restart_vm, "asked to restart"),
    "redeploy": (AsyncOperatorClient.redeploy_vm, "asked to redeploy"),
    "delete": (AsyncOperatorClient.delete_vm, "asked to go"),
}


def view_links(path: str, given: Mapping[str, str], view: str) -> dict[str, Any]:
    """Where the two views of the same VMs are; cells know no order."""
    kept = {key: value for key, value in given.items() if key in ("q", "state", "listens")}
    return {"view": view, "cells_at": address(path, kept), "table_at": address(path, kept, view="table")}


async def table_page(visit: Visit, group: str = "") -> Response:
    """The VMs that the address asks for, in a table."""
    asked, page = _vm_query(visit, group), page_of(visit)
    found = await whole_page(page, lambda begin, most: visit.client.vm_table(asked, offset=begin, limit=most))
    given = {key: value for key, value in asdict(asked).items() if value and (key != "group" or not group)}
    path = f"/groups/{group}" if group else "/"
    return visit.page(
        "vm_table.html",
        group.partition("/")[2] or "Fleet",
        "events fleet hosts listening",
        asked=asked,
        group=group,
        paging=ShownRows(page, found.total),
        rows=found.items,
        columns=TABLE_COLUMNS,
        sort_link=sort_link,
        failing=any(vm.failure for vm in found.items),
        link=partial(address, path, given | {"view": "table"}),
        states=w.STATES,
        **view_links(path, {} if group else given, "table"),
    )


def _vm_query(visit: Visit, group: str) -> w.VmQuery:
    """What the address asks for; on the page of a group its VMs."""
    given = {key: visit.query(key).strip() for key in w.VmQuery.__struct_fields__}
    return w.VmQuery(**given | ({"group": group} if group else {}))


def sort_link(asked: w.VmQuery, column: str) -> str:
    """How a click on a column sorts: by it, or the other way round if it does so already."""
    return f"-{column}" if (asked.sort or "name") == column else column


async def vms_action(visit: Visit) -> Response:
    """Restart, redeploy or delete them; each that was refused gets a line."""
    rows, form = await chosen_rows(visit)
    if (action := form.get("act", "")) not in BULK_ACTIONS:
        raise NotFound("There is no such action.", hint="Use the buttons below the table.")
    act, done = BULK_ACTIONS[action]
    back = safe_path(form.get("back", "/?view=table"))
    if not rows:
        return redirect(back, failed="No VM was chosen.")
    result = await bulk_action(rows, lambda row: act(visit.client, row))
    if not result.refused:
        return redirect(back, done=bulk_message(result, done))
    refused = [(row, address(f"/vms/{row}", {}), why) for row, why in result.refused]
    return visit.page(
        "bulk_result.html",
        "Fleet",
        "",
        flash=Flash("done", bulk_message(result, done)),
        refused=refused,
        back=back,
        done=done,
    )


def bulk_message(result: BulkResult, done: str) -> str:
    """How many were told, and how many were hit at once because nobody listens (F03)."""
    at_once = sum(isinstance(answer, w.Raised) and not answer.events for answer in result.answers)
    text = f"{result.done} VM{'s' if result.done != 1 else ''} {done}."
    return f"{text} {at_once} of them at once, without notice: nobody listens there." if at_once else text


MOST_HOSTS = 500
MOST_VMS_OF_HOST = 2000
HOST_ACTIONS: dict[str, tuple[Callable[[AsyncOperatorClient, str], Awaitable[object]], str]] = {
    "degrade-low": (
        lambda api, name: api.degrade_host(name, risk="low"),
        "{} may fail within days: its VMs are notified.",
    ),
    "degrade-high": (
        lambda api, name: api.degrade_host(name, risk="high"),
        "{} may fail within a day: its VMs are notified.",
    ),
    "fail": (AsyncOperatorClient.fail_host, "{} has failed: its VMs are affected."),
    "repair": (AsyncOperatorClient.repair_host, "{} is healthy again."),
}


async def hosts_page(visit: Visit) -> Response:
    """All hosts; those that are not healthy come first."""
    wanted = visit.query("q").strip().lower()
    hosts = [host async for host in visit.client.hosts() if wanted in host.name.lower()]
    hosts.sort(key=lambda host: (host.condition == "healthy", natural(host.name)))
    return visit.page(
        "hosts.html",
        "Hosts",
        "hosts fleet listening",
        hosts=hosts[:MOST_HOSTS],
        left_out=max(0, len(hosts) - MOST_HOSTS),
        q=wanted,
    )


async def host_page(visit: Visit) -> Response:
    """One host with its VMs."""
    host = await visit.client.host(visit.name("name"))
    vms = await visit.client.vms(host=host.name).first(MOST_VMS_OF_HOST)
    events = board.events_by_vm(await visit.client.events().first(MOST_EVENTS))
    cells = [board.cell_of(vm, events.get(vm.name, ())) for vm in sorted(vms, key=lambda vm: natural(vm.name))]
    hitting = {vm.name: events[vm.name] for vm in vms if vm.name in events}
    return visit.page(
        "host.html", host.name, "hosts fleet events listening", host=host, cells=cells, coming=coming(hitting)
    )


async def host_action(visit: Visit) -> Response:
    """Drain, degrade, fail or repair it."""
    name, action = visit.name("name"), visit.name("action")
    if action == "drain":
        return await _drain(visit, name)
    if action not in HOST_ACTIONS:
        raise NotFound(f"There is no action {action}.", hint="Use the buttons of the host's page.")
    act, done = HOST_ACTIONS[action]
    return await visit.submit(f"/hosts/{name}", lambda: act(visit.client, name), done.format(name))


async def _drain(visit: Visit, name: str) -> Response:
    """Drain it, and show the maintenance that this is."""
    try:
        host = await visit.client.host(name)
        plan = await visit.client.drain_host(name)
    except DuenoticeError as problem:
        return redirect(f"/hosts/{name}", failed=refusal_text(problem))
    silent = host.vms - host.listening
    moved = f" {count(silent, 'VM')} without notice: nobody listens there." if silent else ""
    return redirect(f"/maintenances/{plan.id}", done=f"{name} is being drained.{moved}")


MOST_SCALE_SETS = 500
LONGEST_NUMBER = 7


async def scale_sets_page(visit: Visit) -> Response:
    """All of them, with how many of their VMs would get no notice."""
    groups: list[Group] = [group async for group in visit.client.groups() if group.kind == "scale-set"]
    listening = {group.key: group.listening for group in (await visit.client.states(limit=1000)).groups}
    rows = [(group, listening.get(group.key, 0)) for group in groups[:MOST_SCALE_SETS]]
    left_out = max(0, len(groups) - MOST_SCALE_SETS)
    return visit.page("scale_sets.html", "Scale sets", "fleet events listening", rows=rows, left_out=left_out)


async def scale(visit: Visit) -> Response:
    """Give it another capacity."""
    name, text = visit.name("name"), (await form_of(visit.request)).get("capacity", "").strip()
    if not text.isdecimal() or len(text) > LONGEST_NUMBER:
        raise Malformed(f"{text[:20]!r} is not a number of instances.", hint="Use a whole number.")
    return await _scaled(name, visit.client.scale(name, capacity=int(text)))


async def delete_instances(visit: Visit) -> Response:
    """Delete certain instances."""
    name, given = visit.name("name"), (await form_of(visit.request)).get("instances", "")
    return await _scaled(name, visit.client.delete_instances(name, given.replace(",", " ").split()))


async def _scaled(name: str, asked: Awaitable[Scaled]) -> Response:
    try:
        done = await asked
    except DuenoticeError as problem:
        return redirect("/scale-sets", failed=refusal_text(problem))
    return redirect("/scale-sets", done=scaled_message(name, done))


def scaled_message(name: str, done: Scaled) -> str:
    """Which instances came, which are gone without notice, and which are notified that they have to go."""
    notified = sum(len(event.resources) for event in done.events)
    parts = [
        f"{count(len(done.added), 'instance')} added" if done.added else "",
        f"{count(notified, 'instance')} notified before the end" if notified else "",
        f"{count(len(done.removed), 'instance')} deleted at once, without notice" if done.removed else "",
    ]
    return f"{name}: {', '.join(filter(None, parts)) or 'nothing to change'}."
