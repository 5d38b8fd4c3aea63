"""Events as bars on a line of time. Pure: events in, shares of the width out."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from duenotice.console.words import clock_time, some
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

LETTER = 0.62
"""How wide a letter is, in percent of a usual width: a label that does not fit into its bar is left out."""

PLANNED, PAUSED = "planned", "paused"
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
    update_domain: int | None = None
    expected_end: datetime | None = None


class Bar(NamedTuple):
    """One event, or one step to come; numbers are in percent of the width, None when outside the picture.

    `grows` says which part has no end yet: a notice that is late, or an impact. `room` is all of it, for its label.
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
    expected: Part | None = None
    room: Part | None = None


class GanttTrack(NamedTuple):
    """One update domain of a lane: bars that do not overlap. `inside` are rows of those that share a bar."""

    key: str
    row: list[Bar]
    inside: list[list[Bar]]
    left_out: int


class GanttLane(NamedTuple):
    """One set or host with a row for each of its update domains."""

    key: str
    tracks: list[GanttTrack]


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


def days(seen: Stretch) -> list[tuple[float, str]]:
    """The dates to write above the times: the first, and each day that begins in the picture."""
    midnight = seen.begin.replace(hour=0, minute=0, second=0, microsecond=0)
    whole = max(1, -(-(seen.end - midnight).days // _MOST_TICKS))
    found = [(0.0, seen.begin.strftime("%a %d %b %Y"))]
    day = midnight + timedelta(days=1)
    while day < seen.end:
        if (day - midnight).days % whole == 0:
            found.append((seen.at(day), day.strftime("%a %d %b")))
        day += timedelta(days=1)
    return found if len(found) == 1 or found[1][0] > 17 * LETTER else found[1:]


def bar_of(life: Drawn, seen: Stretch, now: datetime) -> Bar:
    """One life as a bar."""
    raised, started, ended = life.raised_at, life.started_at, life.ended_at
    told_until = started or ended or max(life.not_before, now)
    notice = None if raised is None or raised == started else seen.part(raised, told_until)
    hit = None if started is None else seen.part(started, ended or max(now, started))
    expected = _expected(life, seen)
    room = _room(notice, hit, expected)
    return Bar(
        id=life.id,
        href=life.href,
        state=state_of(life),
        notice=notice,
        started=hit,
        not_before=None if raised in (None, started) or _is_off(life) else seen.mark(life.not_before),
        approved=seen.mark(life.approved_at),
        grows="" if ended else "started" if started else "notice",
        says=says(life),
        label="" if room is None else next((text for text in _labels(life) if _fits(text, room)), ""),
        expected=expected,
        room=room,
    )


def state_of(life: Drawn) -> str:
    """How it ended, or how far it is."""
    return life.outcome or ("started" if life.started_at else "approved" if life.approved_by else "scheduled")


def _labels(life: Drawn) -> list[str]:
    """What may stand in a bar, the longest first."""
    what = f"{life.type} {some(life.resources)}" if life.href else f"{life.type}, {len(life.resources)} VMs"
    return [f"Paused: {what}", "Paused"] if life.outcome == PAUSED else [what, life.type]


def _fits(text: str, room: Part) -> bool:
    return (len(text) + 2) * LETTER <= room[1]


def _expected(life: Drawn, seen: Stretch) -> Part | None:
    """From the start, or from when it may start, to when it should be over."""
    if life.expected_end is None or life.ended_at is not None:
        return None
    return seen.part(life.started_at or life.not_before, life.expected_end)


def _room(*parts: Part | None) -> Part | None:
    """All of the bar."""
    known = [part for part in parts if part is not None]
    if not known:
        return None
    left = min(part[0] for part in known)
    return left, round(max(part[0] + part[1] for part in known) - left, 3)


def _is_off(life: Drawn) -> bool:
    """Whether it was over before: its NotBefore would be drawn with nothing beside it."""
    return life.ended_at is not None and (life.started_at is None or life.ended_at < life.not_before)


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
        update_domain=life.update_domain,
        expected_end=life.ends_at,
    )


def planned(step: PlannedStep, type_: str, plan_id: str = "") -> Drawn:
    """A step to come, as if it were an event; without an id its plan is only a preview."""
    return Drawn(
        id=f"{plan_id}-{step.group}-{step.domain}-{step.host or ''}-{step.resources[0]}",
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
        update_domain=None if step.group.startswith("vm/") else step.domain,
    )


def says(life: Drawn) -> str:
    """Everything about an event in one sentence, for tooltips and screen readers."""
    is_planned = life.outcome == PLANNED
    moments = [
        ("to be notified" if is_planned else "notified", life.raised_at),
        ("not before", life.not_before),
        (f"approved by {life.approved_by}", life.approved_at),
        ("to start" if is_planned else "started", life.started_at),
        ("over by" if is_planned else life.outcome or "over", life.ended_at),
        ("expected to be over", None if life.ended_at else life.expected_end),
    ]
    told = ", ".join(f"{what} {clock_time(moment)}" for what, moment in moments if moment)
    if life.outcome == PAUSED:
        return f"{life.type} of {some(life.resources, 12)}. {life.description}"
    planned_ = "Planned: " if is_planned else ""
    return f"{planned_}{life.type} of {some(life.resources, 12)}: {told}. {life.description}".strip()


def packed(bars: Iterable[Bar]) -> tuple[list[list[Bar]], int]:
    """As few rows as possible: each bar goes into the first row that is free by then; and how many found no row."""
    rows: list[list[Bar]] = []
    ends: list[float] = []
    left_out = 0
    for bar in sorted((bar for bar in bars if bar.room is not None), key=lambda bar: bar.room or (0.0, 0.0)):
        left, width = bar.room or (0.0, 0.0)
        free = next((number for number, end in enumerate(ends) if end <= left), None)
        if free is not None:
            rows[free].append(bar)
            ends[free] = left + width
        elif len(rows) < MOST_ROWS:
            rows.append([bar])
            ends.append(left + width)
        else:
            left_out += 1
    return rows, left_out
