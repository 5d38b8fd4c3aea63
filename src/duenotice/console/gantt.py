"""Events as bars on a line of time. Pure: events in, shares of the width out."""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from duenotice.console.words import clock_time, natural, some
from duenotice.wire.operator import Life, PlannedStep

SPANS = {
    "5m": timedelta(minutes=5),
    "15m": timedelta(minutes=15),
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "1d": timedelta(days=1),
    "7d": timedelta(days=7),
}
DEFAULT_SPAN = "1h"
PAST_SHARE = 0.25
"""Where "now" is drawn by default: most of the picture shows what comes."""

MOST_ROWS = 12
"""Rows of one lane; what does not fit is counted."""

LETTER = 0.6
"""How wide a letter of a label is, in percent of a usual width: labels must not lie on each other."""

PLANNED = "planned"
_STEPS = (1, 5, 15, 60, 180, 360, 720, 1440)
_MOST_TICKS = 9

Part = tuple[float, float]
"""Where a bar begins and how wide it is, in percent of the picture."""


class Drawn(NamedTuple):
    """What is drawn: an event, or a step to come as if it were one."""

    id: str
    href: str
    type: str
    scope: str
    resources: tuple[str, ...]
    description: str
    raised_at: datetime | None
    not_before: datetime
    started_at: datetime | None
    ended_at: datetime | None
    approved_at: datetime | None
    approved_by: str | None
    outcome: str | None
    host: str | None = None


class Bar(NamedTuple):
    """One event, or one step to come; numbers are in percent of the width, None when outside the picture.

    `grows` says which part has no end yet: a notice that is late, or an impact.
    """

    id: str
    href: str
    state: str
    notice: Part | None
    started: Part | None
    not_before: float | None
    approved: float | None
    grows: str
    says: str
    label: str


class GanttLane(NamedTuple):
    """One set or host with as many rows as it needs, each of bars that do not overlap."""

    key: str
    rows: list[list[Bar]]
    left_out: int


class Stretch(NamedTuple):
    """The span of time that is shown."""

    begin: datetime
    end: datetime

    def at(self, moment: datetime) -> float:
        """Where a moment is, in percent; outside it is below 0 or above 100."""
        return round(100 * ((moment - self.begin) / (self.end - self.begin)), 3)

    def part(self, begin: datetime, end: datetime) -> Part | None:
        """Where a span begins and how wide it is, cut to the span that is shown; None when all of it is outside."""
        left, right = max(0.0, self.at(begin)), min(100.0, self.at(end))
        return None if right < 0 or left >= 100 else (left, max(0.15, round(right - left, 3)))

    def mark(self, moment: datetime | None) -> float | None:
        """Where a moment is, if it is shown."""
        return at if moment is not None and 0 <= (at := self.at(moment)) <= 100 else None


def window(now: datetime, span: str, at: datetime | None = None) -> Stretch:
    """The span around now, or around another moment."""
    whole = SPANS.get(span, SPANS[DEFAULT_SPAN])
    begin = now - whole * PAST_SHARE if at is None else at - whole / 2
    return Stretch(begin, begin + whole)


def around(lives: Iterable[Drawn], now: datetime) -> Stretch:
    """The span that includes all of these and now, with some space at both ends."""
    known = (moment for life in lives for moment in (life.raised_at, life.not_before, life.started_at, life.ended_at))
    moments = [now, *(moment for moment in known if moment is not None)]
    begin, end = min(moments), max(moments)
    room = max((end - begin) * 0.03, timedelta(seconds=30))
    return Stretch(begin - room, end + room)


def ticks(seen: Stretch) -> list[tuple[float, str]]:
    """Round times to write below the picture."""
    minutes = (seen.end - seen.begin).total_seconds() / 60
    step = next(
        (step for step in _STEPS if minutes / step <= _MOST_TICKS), 1440 * (1 + int(minutes / 1440 / _MOST_TICKS))
    )
    midnight = seen.begin.replace(hour=0, minute=0, second=0, microsecond=0)
    first = midnight + timedelta(minutes=step) * (int((seen.begin - midnight) / timedelta(minutes=step)) + 1)
    moments = (first + timedelta(minutes=step) * number for number in range(_MOST_TICKS + 1))
    form = "%a %d" if step >= 1440 else "%H:%M"
    return [(seen.at(moment), moment.strftime(form)) for moment in moments if moment < seen.end]


def lanes(
    lives: Iterable[Drawn], seen: Stretch, now: datetime, lanes_of: Callable[[Drawn], Iterable[str]]
) -> list[GanttLane]:
    """The picture: `lanes_of` tells for each event the lanes it is drawn in."""
    bars: dict[str, list[tuple[float, float, Bar]]] = {}
    for life in lives:
        bar = bar_of(life, seen, now)
        parts = [part for part in (bar.notice, bar.started) if part is not None]
        if not parts:
            continue
        right = max([left + width for left, width in parts] + [parts[0][0] + len(bar.label) * LETTER])
        for key in lanes_of(life):
            bars.setdefault(key, []).append((parts[0][0], right, bar))
    return [_lane(key, bars[key]) for key in sorted(bars, key=natural)]


def bar_of(life: Drawn, seen: Stretch, now: datetime) -> Bar:
    """One life as a bar."""
    raised, started, ended = life.raised_at, life.started_at, life.ended_at
    told_until = started or ended or max(life.not_before, now)
    return Bar(
        id=life.id,
        href=life.href,
        state=life.outcome or ("started" if started else "approved" if life.approved_by else "scheduled"),
        notice=None if raised is None or raised == started else seen.part(raised, told_until),
        started=None if started is None else seen.part(started, ended or max(now, started)),
        not_before=None if raised == started or _is_off(life) else seen.mark(life.not_before),
        approved=seen.mark(life.approved_at),
        grows="" if ended else "started" if started else "notice",
        says=says(life),
        label=f"{life.type} {some(life.resources)}",
    )


def _is_off(life: Drawn) -> bool:
    """Whether it ended before it started: its NotBefore would be drawn with nothing beside it."""
    return life.ended_at is not None and life.started_at is None


def drawn(life: Life) -> Drawn:
    """An event."""
    return Drawn(
        id=life.id,
        href=f"/events/{life.id}",
        type=life.type,
        scope=life.scope,
        resources=life.resources,
        description=life.description,
        raised_at=life.raised_at,
        not_before=life.not_before,
        started_at=life.started_at,
        ended_at=life.ended_at,
        approved_at=life.approved_at,
        approved_by=life.approved_by,
        outcome=life.outcome,
    )


def planned(step: PlannedStep, type_: str, plan_id: str = "") -> Drawn:
    """A step to come, as if it were an event; without an id its plan is only a preview."""
    return Drawn(
        id=f"{plan_id}-{step.lane}-{step.turn}-{step.host or ''}-{step.resources[0]}",
        href=f"/maintenances/{plan_id}" if plan_id else "#preview",
        type=type_,
        scope=step.scope,
        resources=step.resources,
        description="As planned, if nobody approves it earlier.",
        raised_at=step.scheduled_at,
        not_before=step.not_before,
        started_at=step.starts_at,
        ended_at=step.ends_at,
        approved_at=None,
        approved_by=None,
        outcome=PLANNED,
        host=step.host,
    )


def says(life: Drawn) -> str:
    """Everything about an event in one sentence, for tooltips and screen readers."""
    is_planned = life.outcome == PLANNED
    moments = [
        ("to be told" if is_planned else "told", life.raised_at),
        ("not before", life.not_before),
        (f"approved by {life.approved_by}", life.approved_at),
        ("to start" if is_planned else "started", life.started_at),
        ("over by" if is_planned else str(life.outcome), life.ended_at),
    ]
    told = ", ".join(f"{what} {clock_time(moment)}" for what, moment in moments if moment)
    planned_ = "Planned: " if is_planned else ""
    return f"{planned_}{life.type} of {some(life.resources, 12)}: {told}. {life.description}".strip()


def _lane(key: str, bars: list[tuple[float, float, Bar]]) -> GanttLane:
    """As few rows as possible: each bar goes into the first row that is free by then."""
    rows: list[list[Bar]] = []
    ends: list[float] = []
    left_out = 0
    for left, right, bar in sorted(bars, key=lambda one: one[:2]):
        free = next((number for number, end in enumerate(ends) if end <= left), None)
        if free is not None:
            rows[free].append(bar)
            ends[free] = right
        elif len(rows) < MOST_ROWS:
            rows.append([bar])
            ends.append(right)
        else:
            left_out += 1
    return GanttLane(key, rows, left_out)
