"""The page of one event: its life, who is hit and told, what VMs read, and its actions."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from starlette.responses import Response

from duenotice.client.operator.client import AsyncOperatorClient
from duenotice.console.board import event_state
from duenotice.console.curl_lines import curls
from duenotice.console.fleet_pages import versions_of
from duenotice.console.pages import PageRoute, Visit, form_of
from duenotice.errors import NotFound
from duenotice.wire.api_versions import ADVICE, SPOT_REBALANCE
from duenotice.wire.operator import Event, Life, VmWithEvents

ACTS: dict[str, tuple[Callable[..., Awaitable[object]], str]] = {
    "approve": (AsyncOperatorClient.approve_event, "Approved: it starts now."),
    "cancel": (AsyncOperatorClient.cancel_event, "Cancelled."),
    "acknowledge": (AsyncOperatorClient.acknowledge_event, "Acknowledged: it needs nobody any more."),
}
MOST_TOLD = 5000
MOST_TRIED = 100


class EventPages:
    """Shows events and their lives; what a visitor does to one goes through the API, with the visitor's token."""

    def pages(self) -> list[PageRoute]:
        """The rows of the table."""
        return [
            PageRoute("GET", "/events/{id}", self.event),
            PageRoute("POST", "/events/{id}/{act}", self.act, "operator"),
        ]

    async def event(self, visit: Visit) -> Response:
        """One event: its life as a track, who is hit and told, and what each api-version shows."""
        life = await visit.client.event_life(visit.name("id"))
        versions, version = await versions_of(visit, usual=SPOT_REBALANCE.name if life.type == ADVICE else "")
        told = await _told(visit, life, version)
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
            curls=curls(life.id, version, visit.vms_ask, told.address)[: 1 if life.type == ADVICE else None],
            recipients=told.recipients,
            document=told.document,
            reader=told.reader,
        )

    async def act(self, visit: Visit) -> Response:
        """Approve, cancel or acknowledge it."""
        event_id, act = visit.name("id"), visit.name("act")
        if act not in ACTS:
            raise NotFound(f"There is no action {act}.", hint="Use the buttons of the event's page.")
        do, said = ACTS[act]
        given = {"note": (await form_of(visit.request)).get("note", "")} if act == "acknowledge" else {}
        return await visit.done(f"/events/{event_id}", lambda: do(visit.client, event_id, **given), said)


class Audience(NamedTuple):
    """Who is told of an event, and the document as the first VM that is hit reads it."""

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


async def _told(visit: Visit, life: Life, version: str) -> Audience:
    if (first := await _first_there(visit, life.resources)) is None:
        return Audience()
    vms = await visit.client.vms(group=first.group).first(MOST_TOLD) if first.group else [first]
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
