"""The timeline: past, running and coming events as bars on an axis of time, and the page that shows them all.

Each group or host has a row for each of its update domains, with one bar for events that overlap; it can be unfolded.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

from starlette.responses import Response

from duenotice.console.board import ALONE, section_of_scope
from duenotice.console.formats import clock_time, natural, some
from duenotice.console.visit import Visit
from duenotice.errors import Malformed, NotFound
from duenotice.wire.operator import Life, Maintenance, PlannedStep, Step
from duenotice.wire.spans import format_iso

SPANS = {
    "5m": timedelta(minutes=5),
    "15m": timedelta(minutes=15),
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "1d": timedelta(days=1),
    "7d": timedelta(days=7),
}
DEFAULT_SPAN = "1h"
FARTHEST = timedelta(days=36_525)
PAST_SHARE = 0.25
"""Where "now" is drawn by default: most of the picture shows what comes."""

MOST_ROWS = 12
"""Rows of one group; what does not fit is counted."""

LETTER = 0.62
"""How wide a letter is, in percent of a usual width: a label that does not fit into its bar is left out."""

PLANNED, PAUSED = "planned", "paused"
_STEPS = (1, 5, 15, 60, 180, 360, 720, 1440)
_MOST_TICKS = 9

Part = tuple[float, float]
"""Where a bar begins and how wide it is, in percent of the picture."""


class TimelineEvent(NamedTuple):
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

    `grows` says which part has no end yet: a notice that is late, or an impact. `extent` is all of it, for its label.
    """

    id: str
    href: str
    state: str
    notice: Part | None
    started: Part | None
    not_before: float | None
    approved: float | None
    grows: str
    description: str
    label: str
    expected: Part | None = None
    extent: Part | None = None


class TimelineRow(NamedTuple):
    """One update domain of a group: bars that do not overlap. `inside` are rows of events that share a bar."""

    key: str
    bars: list[Bar]
    inside: list[list[Bar]]
    left_out: int


class TimelineGroup(NamedTuple):
    """One set or host with a row for each of its update domains."""

    key: str
    rows: list[TimelineRow]


class TimeAxis(NamedTuple):
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


class TimelinePicture(NamedTuple):
    """The rows and their axis, with round times, the dates above them, and where now is."""

    groups: list[TimelineGroup]
    axis: TimeAxis
    ticks: list[tuple[float, str]]
    days: list[tuple[float, str]]
    here: float | None


def axis_at(now: datetime, span: str, at: datetime | None = None) -> TimeAxis:
    """The span around now, or around another moment."""
    whole = SPANS.get(span, SPANS[DEFAULT_SPAN])
    begin = now - whole * PAST_SHARE if at is None else at - whole / 2
    return TimeAxis(begin, begin + whole)


def axis_around(events: Iterable[TimelineEvent], now: datetime) -> TimeAxis:
    """The span that includes all of these and now, with some space at both ends."""
    known = (
        moment for event in events for moment in (event.raised_at, event.not_before, event.started_at, event.ended_at)
    )
    moments = [now, *(moment for moment in known if moment is not None)]
    begin, end = min(moments), max(moments)
    margin = max((end - begin) * 0.03, timedelta(seconds=30))
    return TimeAxis(begin - margin, end + margin)


def ticks(axis: TimeAxis) -> list[tuple[float, str]]:
    """Round times to write below the picture."""
    minutes = (axis.end - axis.begin).total_seconds() / 60
    step = next(
        (step for step in _STEPS if minutes / step <= _MOST_TICKS), 1440 * (1 + int(minutes / 1440 / _MOST_TICKS))
    )
    midnight = axis.begin.replace(hour=0, minute=0, second=0, microsecond=0)
    first = midnight + timedelta(minutes=step) * (int((axis.begin - midnight) / timedelta(minutes=step)) + 1)
    moments = (first + timedelta(minutes=step) * number for number in range(_MOST_TICKS + 1))
    form = "%a %d" if step >= 1440 else "%H:%M"
    return [(axis.at(moment), moment.strftime(form)) for moment in moments if moment < axis.end]


def days(axis: TimeAxis) -> list[tuple[float, str]]:
    """The dates to write above the times: the first, and each day that begins in the picture."""
    midnight = axis.begin.replace(hour=0, minute=0, second=0, microsecond=0)
    whole = max(1, -(-(axis.end - midnight).days // _MOST_TICKS))
    found = [(0.0, axis.begin.strftime("%a %d %b %Y"))]
    day = midnight + timedelta(days=1)
    while day < axis.end:
        if (day - midnight).days % whole == 0:
            found.append((axis.at(day), day.strftime("%a %d %b")))
        day += timedelta(days=1)
    return found if len(found) == 1 or found[1][0] > 17 * LETTER else found[1:]


def bar_of(event: TimelineEvent, axis: TimeAxis, now: datetime) -> Bar:
    """One event as a bar."""
    raised, started, ended = event.raised_at, event.started_at, event.ended_at
    told_until = started or ended or max(event.not_before, now)
    notice = None if raised is None or raised == started else axis.part(raised, told_until)
    hit = None if started is None else axis.part(started, ended or max(now, started))
    expected = _expected(event, axis)
    extent = _extent(notice, hit, expected)
    return Bar(
        id=event.id,
        href=event.href,
        state=state_of(event),
        notice=notice,
        started=hit,
        not_before=None if raised in (None, started) or _is_off(event) else axis.mark(event.not_before),
        approved=axis.mark(event.approved_at),
        grows="" if ended else "started" if started else "notice",
        description=sentence(event),
        label="" if extent is None else next((text for text in _labels(event) if _fits(text, extent)), ""),
        expected=expected,
        extent=extent,
    )


def state_of(event: TimelineEvent) -> str:
    """How it ended, or how far it is."""
    return event.outcome or ("started" if event.started_at else "approved" if event.approved_by else "scheduled")


def _labels(event: TimelineEvent) -> list[str]:
    """What may stand in a bar, the longest first."""
    what = f"{event.type} {some(event.resources)}" if event.href else f"{event.type}, {len(event.resources)} VMs"
    return [f"Paused: {what}", "Paused"] if event.outcome == PAUSED else [what, event.type]


def _fits(text: str, extent: Part) -> bool:
    return (len(text) + 2) * LETTER <= extent[1]


def _expected(event: TimelineEvent, axis: TimeAxis) -> Part | None:
    """From the start, or from when it may start, to when it should be over."""
    if event.expected_end is None or event.ended_at is not None:
        return None
    return axis.part(event.started_at or event.not_before, event.expected_end)


def _extent(*parts: Part | None) -> Part | None:
    """All of the bar."""
    known = [part for part in parts if part is not None]
    if not known:
        return None
    left = min(part[0] for part in known)
    return left, round(max(part[0] + part[1] for part in known) - left, 3)


def _is_off(event: TimelineEvent) -> bool:
    """Whether it was over before: its NotBefore would be drawn with nothing beside it."""
    return event.ended_at is not None and (event.started_at is None or event.ended_at < event.not_before)


def of_event(event: Life) -> TimelineEvent:
    """An event."""
    return TimelineEvent(
        id=event.id,
        href=f"/events/{event.id}",
        type=event.type,
        scope=event.scope,
        resources=event.resources,
        description=event.description,
        raised_at=event.raised_at,
        not_before=event.not_before,
        started_at=event.started_at,
        ended_at=event.ended_at,
        approved_at=event.approved_at,
        approved_by=event.approved_by,
        outcome=event.outcome,
        update_domain=event.update_domain,
        expected_end=event.ends_at,
    )


def of_step(step: PlannedStep, type_: str, plan_id: str = "") -> TimelineEvent:
    """A step to come, as if it were an event; without an id its plan is only a preview."""
    return TimelineEvent(
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


def sentence(event: TimelineEvent) -> str:
    """Everything about an event in one sentence, for tooltips and screen readers."""
    is_planned = event.outcome == PLANNED
    moments = [
        ("to be notified" if is_planned else "notified", event.raised_at),
        ("not before", event.not_before),
        (f"approved by {event.approved_by}", event.approved_at),
        ("to start" if is_planned else "started", event.started_at),
        ("over by" if is_planned else event.outcome or "over", event.ended_at),
        ("expected to be over", None if event.ended_at else event.expected_end),
    ]
    history = ", ".join(f"{what} {clock_time(moment)}" for what, moment in moments if moment)
    if event.outcome == PAUSED:
        return f"{event.type} of {some(event.resources, 12)}. {event.description}"
    planned_ = "Planned: " if is_planned else ""
    return f"{planned_}{event.type} of {some(event.resources, 12)}: {history}. {event.description}".strip()


def packed_rows(bars: Iterable[Bar]) -> tuple[list[list[Bar]], int]:
    """As few rows as possible: each bar goes into the first row that is free by then; and how many found no row."""
    rows: list[list[Bar]] = []
    ends: list[float] = []
    left_out = 0
    for bar in sorted((bar for bar in bars if bar.extent is not None), key=lambda bar: bar.extent or (0.0, 0.0)):
        left, width = bar.extent or (0.0, 0.0)
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


URGENT = ("failed", "started", "approved", "scheduled", PAUSED, "planned", "completed", "cancelled")
"""How a bar of several events is coloured: like the most urgent of them."""

MOST_PAUSED = 50

RowOf = Callable[[TimelineEvent], str]


def picture(
    events: Iterable[TimelineEvent],
    axis: TimeAxis,
    now: datetime,
    groups_of: Callable[[TimelineEvent], Iterable[str]],
    row: RowOf | None = None,
) -> TimelinePicture:
    """All that a page draws."""
    return TimelinePicture(layout(events, axis, now, groups_of, row), axis, ticks(axis), days(axis), axis.mark(now))


def layout(
    events: Iterable[TimelineEvent],
    axis: TimeAxis,
    now: datetime,
    groups_of: Callable[[TimelineEvent], Iterable[str]],
    row: RowOf | None = None,
) -> list[TimelineGroup]:
    """The picture: `groups_of` tells for each event the groups it is drawn in, `row` its row there."""
    found: dict[str, dict[str, list[TimelineEvent]]] = {}
    for event in events:
        bar = bar_of(event, axis, now)
        if bar.notice is None and bar.started is None:
            continue
        for key in groups_of(event):
            found.setdefault(key, {}).setdefault((row or row_of)(event), []).append(event)
    return [
        TimelineGroup(
            key, [_timeline_row(name, found[key][name], axis, now) for name in sorted(found[key], key=natural)]
        )
        for key in sorted(found, key=natural)
    ]


def row_of(event: TimelineEvent) -> str:
    """The update domain of an event, or its VM when that stands alone."""
    if event.outcome == PAUSED:
        return PAUSED
    return event.resources[0] if event.update_domain is None and event.resources else f"UD {event.update_domain}"


def merged_events(events: Sequence[TimelineEvent]) -> TimelineEvent:
    """Several events of one update domain as if they were one, as urgent as the most urgent of them."""
    if len(events) == 1:
        return events[0]
    first = min(events, key=lambda event: URGENT.index(state_of(event)))
    names = tuple(dict.fromkeys(name for event in events for name in event.resources))
    ended = [event.ended_at for event in events if event.ended_at is not None]
    return first._replace(
        id=f"{first.id}-and-{len(events) - 1}",
        href="",
        type=first.type if len({event.type for event in events}) == 1 else "Several events",
        resources=names,
        description=f"{len(events)} events. Unfold the row to see each.",
        raised_at=_first(event.raised_at for event in events),
        not_before=min(event.not_before for event in events),
        started_at=_first(event.started_at for event in events),
        ended_at=max(ended) if len(ended) == len(events) else None,
        approved_at=None,
        expected_end=max((event.expected_end for event in events if event.expected_end is not None), default=None),
    )


def of_paused_plan(plan: Maintenance, steps: Iterable[Step], axis: TimeAxis, now: datetime) -> list[TimelineEvent]:
    """What waits in a plan until somebody resumes it, the `steps`: one bar for each of its sets, from now on."""
    waiting: dict[str, list[str]] = {}
    for step in steps:
        waiting.setdefault(step.scope, []).extend(step.resources)
    return [_paused(plan, scope, names, axis, now) for scope, names in list(waiting.items())[:MOST_PAUSED]]


def _paused(plan: Maintenance, scope: str, names: list[str], axis: TimeAxis, now: datetime) -> TimelineEvent:
    begins = max(now, axis.begin)
    return TimelineEvent(
        id=f"{plan.id}-{scope}-paused",
        href=f"/maintenances/{plan.id}",
        type=plan.type,
        scope=scope,
        resources=tuple(names),
        description="Paused: it begins when somebody resumes the maintenance.",
        raised_at=None,
        not_before=begins,
        started_at=begins,
        ended_at=max(axis.end, begins + timedelta(seconds=1)),
        approved_at=None,
        approved_by=None,
        outcome=PAUSED,
    )


def _timeline_row(key: str, events: list[TimelineEvent], axis: TimeAxis, now: datetime) -> TimelineRow:
    clusters = _clusters(events, now)
    row = [bar_of(merged_events(cluster), axis, now) for cluster in clusters]
    if all(len(cluster) == 1 for cluster in clusters):
        return TimelineRow(key, row, [], 0)
    inside, left_out = packed_rows([bar_of(event, axis, now) for event in events])
    return TimelineRow(key, row, inside, left_out)


def _clusters(events: list[TimelineEvent], now: datetime) -> list[list[TimelineEvent]]:
    """Those that overlap in time belong together."""
    clusters: list[list[TimelineEvent]] = []
    until: datetime | None = None
    for event in sorted(events, key=_begin):
        end = event.ended_at or max(event.not_before, now)
        if until is None or _begin(event) >= until:
            clusters.append([event])
            until = end
        else:
            clusters[-1].append(event)
            until = max(until, end)
    return clusters


def _begin(event: TimelineEvent) -> datetime:
    return event.raised_at or event.started_at or event.not_before


def _first(moments: Iterable[datetime | None]) -> datetime | None:
    return min((moment for moment in moments if moment is not None), default=None)


ELSEWHERE = "no host"
MOST_PLANS = 20
MOST_STEPS = 1000
"""Coming steps of one plan that are drawn."""
ONE_BY_ONE = 200
"""VMs up to which each is asked for its host alone."""

MOST_VMS = 20_000


async def timeline_page(visit: Visit) -> Response:
    """A span of time, by set or by host."""
    span = visit.query("span") if visit.query("span") in SPANS else DEFAULT_SPAN
    by, at = "host" if visit.query("by") == "host" else "set", _moment(visit.query("at"), visit.now)
    axis = axis_at(visit.now, span, at)
    found = await visit.client.timeline(from_=axis.begin.replace(microsecond=0), to=axis.end.replace(microsecond=0))
    events = [*map(of_event, found.items), *await _planned(visit, axis)]
    names = list(SPANS)
    place = names.index(span)
    return visit.page(
        "timeline.html",
        "Timeline",
        "events maintenances fleet",
        picture=picture(events, axis, visit.now, await _groups_of(visit, events, by), _row_of(by)),
        left_out=found.left_out,
        span=span,
        spans=names,
        by=by,
        at=at and format_iso(at),
        earlier=format_iso(axis.begin),
        later=format_iso(axis.end),
        closer=names[max(0, place - 1)],
        wider=names[min(len(names) - 1, place + 1)],
    )


async def _planned(visit: Visit, axis: TimeAxis) -> list[TimelineEvent]:
    """The coming steps of all running maintenances, as far as they are shown."""
    if axis.end < visit.now:
        return []
    plans = (await visit.client.maintenances(status="running").all())[-MOST_PLANS:]
    coming = [step for plan in plans for step in await steps_to_come(visit, plan)]
    stopped = (await visit.client.maintenances(status="paused").all())[-MOST_PLANS:]
    for plan in stopped:
        waiting = await visit.client.steps(plan.id, status="waiting").first(MOST_STEPS)
        coming += of_paused_plan(plan, waiting, axis, visit.now)
    return coming


async def steps_to_come(visit: Visit, plan: Maintenance) -> list[TimelineEvent]:
    """The steps of a plan that have not begun, as events."""
    ahead = await visit.client.outlook(plan.id, limit=MOST_STEPS)
    return [of_step(step, plan.type, plan.id) for step in ahead.timeline]


def _row_of(by: str) -> RowOf:
    """The rows of a group: update domains; on a host of several sets, each with its own."""
    if by == "set":
        return row_of
    return lambda event: f"{_group_title(section_of_scope(event.scope))} {row_of(event)}"


GroupsOf = Callable[[TimelineEvent], Iterable[str]]


async def _groups_of(visit: Visit, events: list[TimelineEvent], by: str) -> GroupsOf:
    """The groups of an event: the group of its scope, or the hosts of its VMs."""
    if by == "set":
        return lambda event: [_group_title(section_of_scope(event.scope))]
    hosts = await _hosts(visit, sorted({name for event in events for name in event.resources}))
    return lambda event: {hosts.get(name) or event.host or ELSEWHERE for name in event.resources}


def _group_title(section: str) -> str:
    return "Standalone VMs" if section == ALONE else section


async def _hosts(visit: Visit, names: list[str]) -> dict[str, str | None]:
    if len(names) > ONE_BY_ONE:
        return {vm.name: vm.host for vm in await visit.client.vms().first(MOST_VMS)}
    found: dict[str, str | None] = {}
    for name in names:
        with suppress(NotFound):
            found[name] = (await visit.client.vm(name)).host
    return found


def _moment(text: str, now: datetime) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
        at = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    check_distance(at.date(), now.date())
    return at


def check_distance(day: date, today: date) -> None:
    """Refuse a day around which there may be no other dates to draw."""
    if abs(day - today) > FARTHEST:
        raise Malformed(f"{day.isoformat()} is too far away to be drawn.", hint="Choose a day of this century.")
