"""The pages of events: the list with its filters and groups, one event with its life and what VMs read, and actions."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from ipaddress import IPv6Address, ip_address
from itertools import groupby
from types import MappingProxyType
from typing import NamedTuple

from msgspec.structs import asdict, replace
from starlette.responses import Response

from duenotice.client.operator.client import AsyncOperatorClient
from duenotice.console.attention import open_plans, title_of
from duenotice.console.board import event_state
from duenotice.console.fleet import versions_of
from duenotice.console.formats import address
from duenotice.console.visit import (
    METADATA_ADDRESS,
    Flash,
    ShownRows,
    Visit,
    bulk_action,
    chosen_rows,
    form_of,
    page_of,
    redirect,
    safe_path,
    whole_page,
)
from duenotice.errors import NotFound
from duenotice.wire import operator as w
from duenotice.wire.api_versions import ADVICE, SPOT_REBALANCE
from duenotice.wire.operator import Event, Life, VmWithEvents

PAST_ROWS = 20
PAST = ",".join(w.OVER_STATES)
GROUPINGS = {"maintenance": "Maintenance", "host": "Host", "group": "Group"}
HEADINGS = {"": "Failed, active and upcoming", PAST: "Past", ",".join(w.EVENT_STATES): "All"}
"""The lists that have a name; others are named by their state."""

BULK_ACTIONS = {
    "approve": (AsyncOperatorClient.approve_event, "approved"),
    "cancel": (AsyncOperatorClient.cancel_event, "cancelled"),
    "acknowledge": (AsyncOperatorClient.acknowledge_event, "acknowledged"),
}


class EventGroup(NamedTuple):
    """Rows that belong together, under one title with a link if there is anything to open."""

    title: str
    href: str
    rows: list[tuple[w.EventRow, str]]


async def events_page(visit: Visit) -> Response:
    """The events that the address asks for; without a state also the last that are over."""
    asked, page = _event_query(visit), page_of(visit)
    found = await whole_page(page, lambda begin, most: visit.client.event_table(asked, offset=begin, limit=most))
    past = None if asked.state else await visit.client.event_table(replace(asked, state=PAST, by=""), limit=PAST_ROWS)
    given = {key: value for key, value in asdict(asked).items() if value}
    return visit.page(
        "events.html",
        "Events",
        "events",
        asked=asked,
        given=given,
        groups=grouped(found.items, asked.by, {plan.id: title_of(plan) for plan in open_plans(visit.attention)}),
        past=None if past is None else grouped(past.items, "")[0].rows if past.items else [],
        past_total=sum(found.counts[state] for state in w.OVER_STATES),
        counts=found.counts,
        paging=ShownRows(page, found.total),
        heading=HEADINGS.get(asked.state, asked.state.replace(",", ", ").capitalize()),
        link=partial(address, "/events", given),
        past_states=PAST,
        all_states=",".join(w.EVENT_STATES),
        types=w.EVENT_TYPES,
        causes=w.CAUSES,
        groupings=GROUPINGS,
    )


async def events_action(visit: Visit) -> Response:
    """Approve or cancel what was chosen; each that was refused gets a line."""
    rows, form = await chosen_rows(visit)
    if (action := form.get("act", "")) not in BULK_ACTIONS:
        raise NotFound("There is no such action.", hint="Use the buttons below the table.")
    act, done = BULK_ACTIONS[action]
    back = safe_path(form.get("back", "/events"))
    if not rows:
        return redirect(back, failed="No event was chosen.")
    result = await bulk_action(rows, lambda row: act(visit.client, row))
    message = f"{result.done} event{'s' if result.done != 1 else ''} {done}."
    if not result.refused:
        return redirect(back, done=message)
    refused = [(row[:8], f"/events/{row}", why) for row, why in result.refused]
    return visit.page(
        "bulk_result.html", "Events", "", flash=Flash("done", message), refused=refused, back=back, done=done
    )


def _event_query(visit: Visit) -> w.EventQuery:
    """What the address asks for."""
    return w.EventQuery(**{key: visit.query(key).strip() for key in w.EventQuery.__struct_fields__})


def grouped(rows: tuple[w.EventRow, ...], by: str, plans: Mapping[str, str] = MappingProxyType({})) -> list[EventGroup]:
    """Rows of one maintenance, host or group together; without `by` all are one. `plans` has titles of those open."""

    def belongs(row: w.EventRow) -> str:
        return (getattr(row, by) or "") if by in GROUPINGS else ""

    return [
        EventGroup(_title(by, key, plans.get(key, "")), _href(by, key), [(row, event_state(row)) for row in found])
        for key, found in groupby(rows, belongs)
    ]


def _title(by: str, key: str, known: str) -> str:
    if not by or not key:
        return f"No {GROUPINGS[by].lower()}" if by else ""
    return f"{GROUPINGS[by]} {key[:8] if by == 'maintenance' else key}{': ' if known else ''}{known}"


def _href(by: str, key: str) -> str:
    return f"/{by}s/{key}" if by and key else ""


EVENT_ACTIONS: dict[str, tuple[Callable[..., Awaitable[object]], str]] = {
    "approve": (AsyncOperatorClient.approve_event, "Approved: it starts now."),
    "cancel": (AsyncOperatorClient.cancel_event, "Cancelled."),
    "acknowledge": (AsyncOperatorClient.acknowledge_event, "Acknowledged: it needs nobody any more."),
}
MOST_RECIPIENTS = 5000
MOST_TRIED = 100


async def event_page(visit: Visit) -> Response:
    """One event: its life, the VMs that are affected and notified, and what each api-version shows."""
    life = await visit.client.event_life(visit.name("id"))
    versions, version = await versions_of(visit, usual=SPOT_REBALANCE.name if life.type == ADVICE else "")
    audience = await _audience(visit, life, version)
    return visit.page(
        "event.html",
        f"{life.type} {life.id[:8]}",
        f"event:{life.id}",
        life=life,
        awaited=await _awaited(visit, life),
        state_now=event_state(life),
        records=await visit.client.event_history(life.id).all(),
        versions=versions,
        version=version,
        curls=curls(life.id, version, visit.metadata_address, audience.address)[: 1 if life.type == ADVICE else None],
        recipients=audience.recipients,
        document=audience.document,
        reader=audience.reader,
    )


async def event_action(visit: Visit) -> Response:
    """Approve, cancel or acknowledge it."""
    event_id, action = visit.name("id"), visit.name("action")
    if action not in EVENT_ACTIONS:
        raise NotFound(f"There is no action {action}.", hint="Use the buttons of the event's page.")
    act, done = EVENT_ACTIONS[action]
    given = {"note": (await form_of(visit.request)).get("note", "")} if action == "acknowledge" else {}
    return await visit.submit(f"/events/{event_id}", lambda: act(visit.client, event_id, **given), done)


class Audience(NamedTuple):
    """The VMs that are notified of an event, and the document as the first of those affected reads it."""

    recipients: Sequence[str] = ()
    document: str | None = None
    reader: str | None = None
    address: str = ""


async def _awaited(visit: Visit, life: Life) -> Event | None:
    """The event with those whose approval it waits for, if it needs the consent of its whole host (C07)."""
    if life.consent != "host" or life.phase != "scheduled" or life.outcome:
        return None
    with suppress(NotFound):
        event = await visit.client.event(life.id)
        return event if event.awaited else None
    return None  # it is over by now


async def _audience(visit: Visit, life: Life, version: str) -> Audience:
    if (first := await _first_there(visit, life.resources)) is None:
        return Audience()
    vms = await visit.client.vms(group=first.group).first(MOST_RECIPIENTS) if first.group else [first]
    recipients = [vm.name for vm in vms if vm.scope == life.scope]
    if life.outcome:
        return Audience(recipients)
    document = (await visit.client.document_bytes(first.name, version)).decode()
    return Audience(recipients, document, first.name, first.address)


async def _first_there(visit: Visit, names: Sequence[str]) -> VmWithEvents | None:
    for name in names[:MOST_TRIED]:
        with suppress(NotFound):
            return await visit.client.vm(name)
    return None  # gone with their event


def curls(
    event_id: str, version: str, served: tuple[str, int] = METADATA_ADDRESS, vm: str = ""
) -> list[tuple[str, str]]:
    """How a VM would ask for the document and approve the event, as lines to copy.

    Where the service listens on the loopback, VMs are told apart by their address there: `vm` is that of one.
    """
    approval = json.dumps({"StartRequests": [{"EventId": event_id}]}, separators=(",", ":"))
    source = f"--interface {vm} " if vm and _is_loopback(served[0]) and _is_loopback(vm) else ""
    asked = f"{source}-H Metadata:true"
    url = f"'http://{host_and_port(served)}/metadata/scheduledevents?api-version={version}'"
    return [
        ("Read it like a VM", f"curl {asked} {url}"),
        ("Approve it like a VM", f"curl {asked} -d '{approval}' {url}"),
    ]


def host_and_port(served: tuple[str, int]) -> str:
    """Host and port as an address has them; who listens everywhere is reached where VMs always ask."""
    host, port = served
    if not host or ip_address(host).is_unspecified:
        host = METADATA_ADDRESS[0]
    shown = f"[{host}]" if isinstance(ip_address(host), IPv6Address) else host
    return shown if port == METADATA_ADDRESS[1] else f"{shown}:{port}"


def _is_loopback(host: str) -> bool:
    return ip_address(host).is_loopback
