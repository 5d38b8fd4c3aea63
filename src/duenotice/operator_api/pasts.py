"""The call of the past in numbers: what was promised, what was given, how long it took, what failed, day by day."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from statistics import median

from starlette.requests import Request
from starlette.responses import Response

from duenotice.domain.fleet import group_of
from duenotice.domain.token import Role
from duenotice.engine.engine import Engine
from duenotice.engine.past_events import PastEvent, past_of
from duenotice.errors import Refused
from duenotice.operator_api.answers import Resource
from duenotice.operator_api.calls import Call, Room
from duenotice.operator_api.history import moment_of
from duenotice.wire import operator as o
from duenotice.wire.api_versions import TYPE_NAMES
from duenotice.wire.operator.from_domain import whole_second

MOST_DAYS = 400
MOST_EVENTS = 5000
"""Events in one answer; the numbers count all."""

USUAL = timedelta(days=30)
NOBODY_LISTENS = "nobody-listens"


class Pasts(Resource):
    """Tells of the past in numbers."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._reader = past_of(engine)

    def calls(self) -> list[Call]:
        """The rows of the table."""
        about, query = "The past in numbers, day by day", ("from", "to", "group", "vm")
        past = {200: o.History}
        return [Call("GET", "/v1/history", Role.VIEWER, self.show, about, past, query=query, refusals=(422,))]

    async def show(self, request: Request) -> Response:
        """All of the last 30 days, or of another span, of a group or a VM."""
        now = self._engine.clock.now().at
        since, until = moment_of(request, "from", now - USUAL), moment_of(request, "to", now)
        if not timedelta(0) <= until - since <= timedelta(days=MOST_DAYS):
            raise Refused(
                f"That is not a span of at most {MOST_DAYS} days.", hint="Give an earlier from, or a later to."
            )
        past = await self._reader.past(self._engine)
        events, complete_since, wanted = past.all(), past.complete_since, _wanted(request)

        def write() -> o.History:
            found = [event for event in events if since <= _told_at(event) <= until and wanted(event)]
            lives = Room().filled(map(_life, found[: -MOST_EVENTS - 1 : -1]))[::-1]
            days = tuple(_days(found, since, until))
            return o.History(days, lives, len(found) - len(lives), _second(complete_since))

        return await self._written(write)


def _wanted(request: Request) -> Callable[[PastEvent], bool]:
    group, vm = request.query_params.get("group", ""), request.query_params.get("vm", "")

    def wanted(event: PastEvent) -> bool:
        key = group_of(event.scope) or ""
        return (not vm or vm in event.vms) and (not group or group in (key, key.partition("/")[2]))

    return wanted


def _told_at(event: PastEvent) -> datetime:
    return event.raised_at or event.started_at or event.promised_at


def _days(events: Iterable[PastEvent], since: datetime, until: datetime) -> Iterator[o.PastDay]:
    by_day: dict[str, list[PastEvent]] = {}
    for event in events:
        by_day.setdefault(_told_at(event).date().isoformat(), []).append(event)
    for number in range((until.date() - since.date()).days + 1):
        day = (since.date() + timedelta(days=number)).isoformat()
        yield _day(day, by_day.get(day, []))


def _day(day: str, events: list[PastEvent]) -> o.PastDay:
    impacts = [span for event in events if (span := _impact(event)) is not None]
    started = [event for event in events if event.started_at is not None]
    kinds = Counter(map(_kind, started))
    return o.PastDay(
        day=day,
        types=dict(Counter(TYPE_NAMES[event.type] for event in events)),
        outcomes=dict(Counter(event.outcome for event in events if event.outcome)),
        promised=_median(map(_promised, started)),
        given=_median(map(_given, started)),
        to_approval=_median(map(_to_approval, events)),
        impact=_median(impacts),
        impact_in_all=round(math.fsum(impacts), 1),
        whole=kinds["whole"],
        cut=kinds["cut"],
        silent=kinds["silent"],
    )


def _kind(event: PastEvent) -> str:
    """How its notice was: nobody was there to read it, it was whole, or somebody cut it short."""
    if event.approved_by == NOBODY_LISTENS:
        return "silent"
    given, promised = _given(event), _promised(event)
    return "whole" if given is not None and promised is not None and given >= promised - 1 else "cut"


def _life(event: PastEvent) -> o.PastLife:
    return o.PastLife(
        id=event.id,
        type=TYPE_NAMES[event.type],
        scope=event.scope,
        resources=event.vms,
        raised_at=_second(event.raised_at),
        approved_at=_second(event.approved_at),
        approved_by=event.approved_by,
        started_at=_second(event.started_at),
        ended_at=_second(event.ended_at),
        outcome=event.outcome,
        promised=_promised(event),
        given=_given(event),
        to_approval=_to_approval(event),
        impact=_impact(event),
    )


def _promised(event: PastEvent) -> float | None:
    return _seconds(event.raised_at, event.promised_at)


def _given(event: PastEvent) -> float | None:
    return _seconds(event.raised_at, event.started_at)


def _to_approval(event: PastEvent) -> float | None:
    """Only what somebody has approved who had to be told first."""
    approved = event.approved_at if event.approved_at != event.raised_at else None
    return _seconds(event.raised_at, approved)


def _impact(event: PastEvent) -> float | None:
    return _seconds(event.started_at, event.ended_at)


def _seconds(begin: datetime | None, end: datetime | None) -> float | None:
    return None if begin is None or end is None else max(0.0, round((end - begin).total_seconds(), 1))


def _median(spans: Iterable[float | None]) -> float | None:
    known = [span for span in spans if span is not None]
    return round(median(known), 1) if known else None


def _second(moment: datetime | None) -> datetime | None:
    return None if moment is None else whole_second(moment)
