"""The history in numbers: charts for a span of days, of the fleet, a group or a VM, and as CSV."""

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import NamedTuple
from urllib.parse import urlencode

from starlette.responses import Response

from duenotice.console.formats import csv_cell, thousands
from duenotice.console.visit import Visit
from duenotice.wire.operator import EVENT_TYPES, History, PastDay, PastLife
from duenotice.wire.spans import span

SPANS = {"7d": 7, "30d": 30, "90d": 90, "365d": 365}
DEFAULT_SPAN = "30d"
MOST_GROUPS = 500
DAY_COLUMNS = ("day", "events", "failed", "cancelled", "promised_seconds", "given_seconds", "to_approval_seconds",
               "impact_seconds", "impact_in_all_seconds", "whole", "cut", "silent")  # fmt: skip
EVENT_COLUMNS = ("id", "type", "scope", "vms", "raised_at", "approved_at", "approved_by", "started_at", "ended_at",
                 "outcome", "promised_seconds", "given_seconds", "to_approval_seconds", "impact_seconds")  # fmt: skip


async def history_page(visit: Visit) -> Response:
    """The charts; they do not move by themselves, as a day is long."""
    found, filters = await _found(visit), _filters(visit)
    query = {key: value for key, value in filters.items() if value}
    return visit.page(
        "history.html",
        "History",
        "",
        charts=charts(found.days),
        found=found,
        rows=[day for day in found.days if day.types][::-1],
        filters=filters,
        spans=list(SPANS),
        groups=[group.key for group in await visit.client.groups().first(MOST_GROUPS)],
        query=urlencode(query),
    )


async def days_csv(visit: Visit) -> Response:
    """A line for each day."""
    return _csv("days", DAY_COLUMNS, map(_day, (await _found(visit)).days))


async def events_csv(visit: Visit) -> Response:
    """A line for each event."""
    return _csv("events", EVENT_COLUMNS, map(_event, (await _found(visit)).events))


def _filters(visit: Visit) -> dict[str, str]:
    span = visit.query("span")
    return {
        "span": span if span in SPANS else DEFAULT_SPAN,
        "group": visit.query("group").strip(),
        "vm": visit.query("vm").strip(),
    }


async def _found(visit: Visit) -> History:
    asked = _filters(visit)
    today = visit.now.replace(hour=0, minute=0, second=0, microsecond=0)
    begin = today - timedelta(days=SPANS[asked["span"]] - 1)
    return await visit.client.history(
        from_=begin, to=visit.now.replace(microsecond=0), group=asked["group"], vm=asked["vm"]
    )


def _day(day: PastDay) -> list[object]:
    return [
        day.day, sum(day.types.values()), day.outcomes.get("failed", 0), day.outcomes.get("cancelled", 0),
        day.promised, day.given, day.to_approval, day.impact, day.impact_in_all, day.whole, day.cut, day.silent,
    ]  # fmt: skip


def _event(event: PastLife) -> list[object]:
    return [
        event.id, event.type, event.scope, " ".join(event.resources), event.raised_at, event.approved_at,
        event.approved_by, event.started_at, event.ended_at, event.outcome, event.promised, event.given,
        event.to_approval, event.impact,
    ]  # fmt: skip


def _csv(name: str, columns: tuple[str, ...], rows: Iterable[list[object]]) -> Response:
    """Lines as RFC 4180 has them."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows([csv_cell(value) for value in row] for row in rows)
    headers = {"Content-Disposition": f'attachment; filename="duenotice-{name}.csv"'}
    return Response(text.getvalue(), headers=headers, media_type="text/csv; charset=utf-8")


MOST_LABELS = 8
_ROUND = (2, 4, 6, 10)  # the half of it is written too, and must be whole

Show = Callable[[float], str]


class Series(NamedTuple):
    """One kind of number: `key` gives its colour, `name` stands in the legend."""

    key: str
    name: str
    of: Callable[[PastDay], float | None]


class Block(NamedTuple):
    """A part of a bar; numbers in percent of the picture, `y` from the top."""

    key: str
    x: float
    y: float
    width: float
    height: float
    says: str


class Chart(NamedTuple):
    """A picture with its scale and its legend; `says` is all of it in a sentence."""

    key: str
    title: str
    about: str
    blocks: list[Block]
    scale: list[tuple[float, str]]
    labels: list[tuple[float, str]]
    legend: list[tuple[str, str]]
    says: str

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to draw."""
        return not self.blocks


class _Asked(NamedTuple):
    key: str
    title: str
    about: str
    series: Sequence[Series]
    show: Show
    is_stacked: bool = True


def _count(number: float) -> str:
    return thousands(round(number))


def _type(name: str) -> Series:
    return Series(name.lower(), name, lambda day: day.types.get(name, 0))


def _outcome(name: str) -> Series:
    return Series(name, name, lambda day: day.outcomes.get(name, 0))


ASKED = (
    _Asked("events", "Events", "announced on each day, by type", tuple(map(_type, EVENT_TYPES)), _count),
    _Asked(
        "notice",
        "Notice",
        "the median that was promised, and the median that was given before the start",
        (Series("promised", "promised", lambda day: day.promised), Series("given", "given", lambda day: day.given)),
        span,
        is_stacked=False,
    ),
    _Asked(
        "kept",
        "How the notice ended",
        "whole, cut short because somebody approved, or never read",
        (
            Series("whole", "whole", lambda day: day.whole),
            Series("cut", "cut short by approval", lambda day: day.cut),
            Series("silent", "nobody listened", lambda day: day.silent),
        ),
        _count,
    ),
    _Asked(
        "approval",
        "Time to approval",
        "the median from notice to approval",
        (Series("approved", "to approval", lambda day: day.to_approval),),
        span,
    ),
    _Asked(
        "impact",
        "Impact",
        "how long all events of a day lasted together",
        (Series("impact", "impact", lambda day: day.impact_in_all),),
        span,
    ),
    _Asked("failures", "Failed and cancelled", "events by how they ended",
           (_outcome("failed"), _outcome("cancelled")), _count),
)  # fmt: skip


def charts(days: Sequence[PastDay]) -> list[Chart]:
    """All charts of these days."""
    return [_chart(asked, days) for asked in ASKED]


def _chart(asked: _Asked, days: Sequence[PastDay]) -> Chart:
    numbers = [[(one, one.of(day) or 0.0) for one in asked.series] for day in days]
    add = sum if asked.is_stacked else max
    most = max((add(number for _, number in row) for row in numbers), default=0.0)
    top = _top(most, asked.show is span)
    blocks = [] if not most else [
        block
        for place, (day, row) in enumerate(zip(days, numbers, strict=True))
        for block in _blocks(asked, day.day, place, row, len(days), top)
    ]  # fmt: skip
    shown = {block.key for block in blocks}
    return Chart(
        asked.key,
        asked.title,
        asked.about,
        blocks,
        [(100 - 100 * share, asked.show(top * share)) for share in (0.5, 1.0)] if most else [],
        _labels(days),
        [(one.key, one.name) for one in asked.series if one.key in shown],
        _says(asked, numbers),
    )


def _blocks(asked: _Asked, day: str, place: int, row: list[tuple[Series, float]], days: int, top: float) -> list[Block]:
    slot = 100 / days
    width = slot * 0.76 if asked.is_stacked else slot * 0.76 / len(row)
    blocks, below = [], 0.0
    for number, (one, value) in enumerate(row):
        height = 100 * value / top
        x = slot * place + slot * 0.12 + (0 if asked.is_stacked else width * number)
        y = 100 - height - (below if asked.is_stacked else 0)
        if value:
            says = f"{day}: {one.name} {asked.show(value)}"
            blocks.append(Block(one.key, round(x, 3), round(y, 3), round(width, 3), round(height, 3), says))
        below += height
    return blocks


def _top(most: float, is_span: bool) -> float:
    """A round number that is not below; spans are rounded to minutes or hours."""
    unit = (3600.0 if most > 3600 else 60.0) if is_span else 1.0
    size = 1.0
    while True:
        for step in _ROUND:
            if step * size * unit >= most:
                return step * size * unit
        size *= 10


def _labels(days: Sequence[PastDay]) -> list[tuple[float, str]]:
    every = max(1, -(-len(days) // MOST_LABELS))
    return [
        (round(100 * (place + 0.5) / len(days), 3), day.day[5:]) for place, day in enumerate(days) if place % every == 0
    ]


def _says(asked: _Asked, numbers: list[list[tuple[Series, float]]]) -> str:
    parts = []
    for place, one in enumerate(asked.series):
        values = [row[place][1] for row in numbers if row[place][1]]
        if values and asked.show is _count:
            parts.append(f"{one.name} {_count(sum(values))}")
        elif values:
            parts.append(f"{one.name} at most {span(max(values))} on a day")
    return f"{asked.title}: {', '.join(parts) or 'nothing'}."
