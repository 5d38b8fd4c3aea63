"""Long work: its URL answers InProgress until the events behind it are over, after a restart too (M05).

Nothing is stored for it. The id of an operation names events, and the journal knows what became of each.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from msgspec import UNSET, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from duenotice.azure_api.calls import SUBSCRIPTION, AzureCall, AzureResource
from duenotice.azure_api.shape import AzureError, AzureJson, AzureProblem, failed, shown
from duenotice.azure_api.sign_in import base_of
from duenotice.domain import transitions as t
from duenotice.domain.token import Role
from duenotice.domain.transitions import Record
from duenotice.engine.engine import Engine
from duenotice.wire.start_requests_json import canonical_id

HELD_SECONDS = 10.0
"""Real seconds that a poll is held: a client hears of the end at once, and asks seldom."""
RETRY_AFTER = {"Retry-After": "1"}
MOST_EVENTS = 20

_PLACE = f"{SUBSCRIPTION}/providers/Microsoft.Compute/locations/{{location}}/operations/{{operation}}"
_ENDS = {t.EventCompleted: "Succeeded", t.EventCancelled: "Canceled", t.EventFailed: "Failed"}


class OperationStatus(AzureJson, frozen=True):
    """What a poll answers."""

    name: str
    status: str
    error: AzureError | UnsetType = UNSET


class _End(NamedTuple):
    """How an event ended, and why."""

    status: str
    reason: str = ""


class Operations(AzureResource):
    """Everything under way, by the ids of its events."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._ends: asyncio.Future[None] | None = None
        self._is_closing = False
        engine.on_commit.append(self._hear)

    def calls(self) -> list[AzureCall]:
        """The rows of the table."""
        return [
            AzureCall("GET", _PLACE, Role.VIEWER, self.show),
            AzureCall("GET", _PLACE.replace("/operations/", "/results/"), Role.VIEWER, self.result),
        ]

    def close(self) -> None:
        """Answer all that are held."""
        self._is_closing = True
        self._wake()

    def begun(self, request: Request, event_ids: tuple[str, ...]) -> Response:
        """The answer to work that goes on until these events are over."""
        return Response(status_code=202, headers=self.links(request, event_ids))

    def links(self, request: Request, event_ids: tuple[str, ...]) -> dict[str, str]:
        """Where to ask how it goes, and when."""
        site, name = self._site, ".".join(event_ids).lower()
        place = f"{base_of(request)}/subscriptions/{site.subscription_id}/providers/Microsoft.Compute"
        version = request.query_params.get("api-version", "")
        asked, result = (
            f"{place}/locations/{site.location}/{what}/{name}?api-version={version}"
            for what in ("operations", "results")
        )
        return {"Azure-AsyncOperation": asked, "Location": result, **RETRY_AFTER}

    async def show(self, request: Request) -> Response:
        """How it goes."""
        status = await self._status(request)
        return shown(status, headers=RETRY_AFTER if status.status == "InProgress" else None)

    async def result(self, request: Request) -> Response:
        """The same for clients that ask only this: 202 while it goes on, then nothing but the status (M05)."""
        status = await self._status(request)
        if status.status == "InProgress":
            return Response(status_code=202, headers={"Location": str(request.url), **RETRY_AFTER})
        if isinstance(status.error, AzureError):
            return failed(409, status.error)
        return Response(status_code=200)

    async def _status(self, request: Request) -> OperationStatus:
        """Wait for the end for a while: the answer comes when the last event ends."""
        name = request.path_params["operation"]
        event_ids = [canonical_id(part) for part in name.split(".")]
        with suppress(TimeoutError):
            async with asyncio.timeout(HELD_SECONDS):
                while any(one in self._engine.state.events for one in event_ids) and not self._is_closing:
                    await self._next_end()
        if any(one in self._engine.state.events for one in event_ids):
            return OperationStatus(name, "InProgress")
        return _whole(name, [await self._end(one) for one in event_ids])

    async def _end(self, event_id: str) -> _End:
        found = await self._engine.history_of(event_id, 1000)
        if not found or len(event_id) != 36:
            raise AzureProblem(404, "OperationNotFound", f"There is no operation {event_id[:80]}.")
        last = found[-1].transition
        reason = getattr(last, "reason", "")
        return _End(_ENDS.get(type(last), "InProgress"), reason)

    async def _next_end(self) -> None:
        if self._ends is None:
            self._ends = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._ends)

    def _hear(self, records: Sequence[Record]) -> None:
        if self._ends is not None and any(type(record.transition) in _ENDS for record in records):
            self._wake()

    def _wake(self) -> None:
        if self._ends is not None:
            self._ends.set_result(None)
            self._ends = None


def _whole(name: str, ends: list[_End]) -> OperationStatus:
    """The worst of all."""
    for status, code in (("InProgress", ""), ("Failed", "OperationFailed"), ("Canceled", "OperationCanceled")):
        for end in ends:
            if end.status == status:
                words = end.reason or f"The event was {'cancelled' if status == 'Canceled' else 'not carried out'}."
                return OperationStatus(name, status, AzureError(code, words) if code else UNSET)
    return OperationStatus(name, "Succeeded")
