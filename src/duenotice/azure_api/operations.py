"""How something is done here: a command is submitted, and the answer says where to ask for its end (M05).

That URL answers InProgress until the events behind it are over, after a restart too. Nothing is stored for it. The id
of an operation names its events, or where in the journal the many events of one command were raised; and the journal
knows how each has ended.
"""

import asyncio
import re
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import NamedTuple
from uuid import UUID, uuid4, uuid5
from zlib import crc32

from msgspec import UNSET, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from duenotice.azure_api.resource import SUBSCRIPTION, AzureCall, AzureResource, actor_of
from duenotice.azure_api.shape import AzureError, AzureJson, AzureProblem, base_of, error_response, json_response
from duenotice.domain import commands as c
from duenotice.domain import records as t
from duenotice.domain.bulk import derived
from duenotice.domain.event import Event
from duenotice.domain.fleet import LARGEST_SCALE_SET
from duenotice.domain.plan import PlanProgress, Status
from duenotice.domain.records import Record
from duenotice.domain.token import Role
from duenotice.engine.engine import Engine, Records
from duenotice.wire.documents import canonical_id

LONGEST_HELD = 25.0
"""Real seconds that a poll is held: a client hears of the end at once, and hundreds that wait cost VMs nothing.

The first poll is held for a second, and each next one twice as long, up to this."""
MOST_REMEMBERED = 10_000
"""Operations of which we know how often they were asked for."""
RETRY_AFTER = {"Retry-After": "1"}
MOST_NAMED = 8
"""Events that an operation names; a URL must not get too long."""
READ_AT_ONCE = 1000
"""Records of one piece."""
_ID_LETTERS = 36
_DONE = re.compile(r"at_(\d{1,15})", re.ASCII)
_MANY = re.compile(r"([0-9a-fA-F-]{36})_(\d{1,15})_(\d{1,7})", re.ASCII)

_PLACE = f"{SUBSCRIPTION}/providers/Microsoft.Compute/locations/{{location}}/operations/{{operation}}"
_PLAN = re.compile(r"plan_([0-9a-fA-F-]{36})", re.ASCII)
_PLANS = {
    Status.RUNNING: "InProgress",
    Status.PAUSED: "InProgress",
    Status.DONE: "Succeeded",
    Status.FAILED: "Failed",
    Status.CANCELLED: "Canceled",
}
_ENDS = {t.EventCompleted: "Succeeded", t.EventCancelled: "Canceled", t.EventFailed: "Failed"}
_WAKE = {*_ENDS, t.MaintenanceChanged}


class OperationStatus(AzureJson, frozen=True):
    """What a poll answers; the times are told when it is over."""

    name: str
    status: str
    error: AzureError | UnsetType = UNSET
    start_time: datetime | UnsetType = UNSET
    end_time: datetime | UnsetType = UNSET


class _Life(NamedTuple):
    """When an event was raised and was over, how it ended, and why."""

    begun: datetime
    ended: datetime
    status: str
    reason: str = ""


class Operations(AzureResource):
    """Everything under way, by the ids of its events."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._ends: asyncio.Future[None] | None = None
        self._is_closing = False
        self._asked: OrderedDict[int, int] = OrderedDict()
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

    def begun(self, request: Request, name: str) -> Response:
        """The answer to work of this name, see `name_of`, that goes on until its events are over."""
        return Response(status_code=202, headers=self.links(request, name))

    def links(self, request: Request, name: str) -> dict[str, str]:
        """Where to ask how it goes, and when."""
        site = self._site
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
        return json_response(status, headers=RETRY_AFTER if status.status == "InProgress" else None)

    async def result(self, request: Request) -> Response:
        """The same for clients that ask only this: 202 while it goes on, then nothing but the status (M05)."""
        status = await self._status(request)
        if status.status == "InProgress":
            return Response(status_code=202, headers={"Location": str(request.url), **RETRY_AFTER})
        if isinstance(status.error, AzureError):
            return error_response(409, status.error)
        return Response(status_code=200)

    async def _status(self, request: Request) -> OperationStatus:
        """Wait for the end for a while: the answer comes when the last event ends."""
        name = request.path_params["operation"]
        if (done := _DONE.fullmatch(name)) is not None:
            return await self._done(name, int(done[1]))
        if (plan := _PLAN.fullmatch(name)) is not None:
            return await self._planned(name, plan[1].upper())
        event_ids = await self._events_of(name)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._patience(name)):
                while any(one in self._engine.state.events for one in event_ids) and not self._is_closing:
                    await self._next_end()
        if any(one in self._engine.state.events for one in event_ids):
            return OperationStatus(name, "InProgress")
        return _whole(name, [await self._life(one) for one in event_ids])

    async def _planned(self, name: str, plan_id: str) -> OperationStatus:
        """The same for work that goes on step by step: it ends with its plan."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._patience(name)):
                while (known := self._plan(plan_id)) is not None and known.is_open and not self._is_closing:
                    await self._next_end()
        if (known := self._plan(plan_id)) is None:
            raise _unknown(name)
        status = _PLANS[known.plan.status]
        words = known.plan.reason or f"The maintenance is {known.plan.status.value}."
        return OperationStatus(name, status, AzureError(_CODES[status], words) if _CODES[status] else UNSET)

    def _plan(self, plan_id: str) -> PlanProgress | None:
        return self._engine.state.plans.get(plan_id)

    def _patience(self, name: str) -> float:
        """How long this poll is held. Each operation has a share of its own, so that pollers do not come together."""
        key = crc32(name.encode())  # names may be long, and two with the same key only wait a little longer
        times = self._asked[key] = self._asked.pop(key, 0) + 1
        if len(self._asked) > MOST_REMEMBERED:
            self._asked.popitem(last=False)
        share = 0.75 + key % 1000 / 4000
        return share * min(LONGEST_HELD, 2.0 ** (min(times, 10) - 1))

    async def _done(self, name: str, position: int) -> OperationStatus:
        """What was done at once: the journal has it."""
        for at in await self._engine.history_as(position - 1, 1, lambda record: record.at):
            return _whole(name, [_Life(at, at, "Succeeded")])
        raise _unknown(name)

    async def _events_of(self, name: str) -> list[str]:
        """The events behind an operation; at most as many are asked for by name as a name can have.

        Of many the journal is read in pieces; no record is kept. Of a name that was made up one piece is read (S24).
        """
        if (many := _MANY.fullmatch(name)) is None:
            parts = name.split(".", MOST_NAMED)[:MOST_NAMED]
            if any(len(part) != _ID_LETTERS for part in parts):
                raise _unknown(name)
            return [canonical_id(part) for part in parts]
        raised = partial(_raised_by, many[1].upper())
        after, left, found = int(many[2]) - 1, min(int(many[3]), LARGEST_SCALE_SET), list[str]()
        while left > 0:
            piece = await self._engine.history_as(after, min(left, READ_AT_ONCE), raised)
            found += [event_id for event_id in piece if event_id]
            if not piece or not found:
                break
            after, left = after + len(piece), left - len(piece)
        if not found:
            raise _unknown(name)
        return found

    async def _life(self, event_id: str) -> _Life:
        found = await self._engine.history_of(event_id, 1000)
        if not found:
            raise _unknown(event_id)
        last = found[-1].transition
        reason = getattr(last, "reason", "")
        return _Life(found[0].at, found[-1].at, _ENDS.get(type(last), "InProgress"), reason)

    async def _next_end(self) -> None:
        if self._ends is None:
            self._ends = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._ends)

    def _hear(self, records: Sequence[Record]) -> None:
        if self._ends is not None and any(type(record.transition) in _WAKE for record in records):
            self._wake()

    def _wake(self) -> None:
        if self._ends is not None:
            self._ends.set_result(None)
            self._ends = None


def name_of_plan(plan_id: str) -> str:
    """The name of an operation that is a maintenance."""
    return f"plan_{plan_id.lower()}"


def name_of(event_ids: tuple[str, ...]) -> str:
    """The name of an operation with few events."""
    return ".".join(event_ids).lower()


def name_of_many(seed: str, records: Sequence[Record]) -> str:
    """The name of an operation of one command: its events have ids that follow from the seed, or it is done already."""
    if 1 <= len(raised := raised_in(records)) <= MOST_NAMED:
        return name_of(tuple(event.id for event in raised))
    if not raised:
        return f"at_{records[0].position}"
    first, last = records[0].position, records[-1].position
    return f"{seed.lower()}_{first}_{last - first + 1}"


def raised_in(records: Sequence[Record]) -> tuple[Event, ...]:
    """The events that were raised in these records."""
    changes = (record.transition for record in records)
    return tuple(change.event for change in changes if isinstance(change, t.EventRaised))


def _raised_by(seed: str, record: Record) -> str:
    """The id of the event that a record has raised, if it follows from this seed; else nothing."""
    match record.transition:
        case t.EventRaised(event) if event.id == derived(seed, event.resources[0]):
            return event.id
    return ""


def _unknown(name: str) -> AzureProblem:
    return AzureProblem.of(404, "OperationNotFound", f"There is no operation {name[:80]}.")


_CODES = {"InProgress": "", "Failed": "OperationFailed", "Canceled": "OperationCanceled", "Succeeded": ""}
"""The code of each status, the worst first."""


def _whole(name: str, lives: list[_Life]) -> OperationStatus:
    """The worst of all."""
    worst = min(lives, key=lambda life: [*_CODES].index(life.status))
    words = worst.reason or f"The event was {'cancelled' if worst.status == 'Canceled' else 'not carried out'}."
    code = _CODES[worst.status]
    return OperationStatus(
        name,
        worst.status,
        AzureError(code, words) if code else UNSET,
        min(life.begun for life in lives),
        max(life.ended for life in lives),
    )


_NAMESPACE = UUID("5d0f2a1e-8f0c-4b55-9a64-2f5a5b0c8d14")


class OperatedResource(AzureResource):
    """A resource that can be worked on."""

    def __init__(self, engine: Engine, operations: Operations) -> None:
        super().__init__(engine)
        self._operations = operations

    async def _do(self, request: Request, command: c.Command) -> Records:
        return await self._engine.submit(command, actor_of(request))

    async def _operate(self, request: Request, event_id: str, command: c.Command) -> Response:
        """Do what raises one event, if somebody listens."""
        if event_id in self._engine.state.events:  # the same request again: a client that got no answer
            return self._operations.begun(request, name_of((event_id,)))
        return await self._operate_many(request, event_id, command)

    async def _operate_many(self, request: Request, seed: str, command: c.Command) -> Response:
        """The same for a command that may raise many, with ids that follow from its seed.

        Without an event it is done already (F03). That is a 202 too: `az` cannot read another answer.
        """
        return self._operations.begun(request, name_of_many(seed, await self._do(request, command)))

    def _id_for(self, request: Request) -> str:
        """The id of what a request raises: the same, if a client sends it again while it is under way."""
        asked = request.headers.get("x-ms-client-request-id", "")
        seed = f"{request.state.token.id}\n{request.url.path.lower()}\n{asked}"
        wanted = str(uuid5(_NAMESPACE, seed)).upper()
        return new_id() if not asked or wanted in self._engine.state.ended else wanted


def new_id() -> str:
    """An id for something new, in the form of an EventId (B03)."""
    return str(uuid4()).upper()
