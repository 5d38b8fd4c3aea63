"""Events as bars on a line of time. Pure: lives as the API tells them in, shares of the width out."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

SPANS = {
    "15m": timedelta(minutes=15),
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "1d": timedelta(days=1),
    "7d": timedelta(days=7),
}
PAST_SHARE = 0.25
"""Where now stands when nobody asks for another time: most of the picture is what comes."""

_STEPS = (1, 5, 15, 60, 180, 360, 720, 1440)
_MOST_TICKS = 9


class Bar(NamedTuple):
    """One event; every number is in percent of the width. `started` and the marks are None when not in sight."""

    id: str
    kind: str
    state: str
    notice: tuple[float, float] | None
    started: tuple[float, float] | None
    not_before: float | None
    approved: float | None
    says: str
    label: str


class Row(NamedTuple):
    """Bars that do not overlap, so that they can share a line."""

    bars: list[Bar]


class Lane(NamedTuple):
    """One set or host with as many rows as it needs."""

    key: str
    rows: list[Row]


class Window(NamedTuple):
    """The span of time in sight."""

    begin: datetime
    end: datetime

    def at(self, moment: datetime) -> float:
        """Where a moment is, in percent; outside it is below 0 or above 100."""
        return round(100 * ((moment - self.begin) / (self.end - self.begin)), 3)

    def part(self, begin: datetime, end: datetime) -> tuple[float, float] | None:
        """Where a span begins and how wide it is, cut to what is in sight; None when none of it is."""
        left, right = max(0.0, self.at(begin)), min(100.0, self.at(end))
        return None if right <= 0 or left >= 100 else (left, max(0.15, round(right - left, 3)))

    def mark(self, moment: datetime | None) -> float | None:
        """Where a moment is, if it is in sight."""
        return at if moment is not None and 0 <= (at := self.at(moment)) <= 100 else None


def window(now: datetime, span: str, at: datetime | None = None) -> Window:
    """The span around now, or around another moment."""
    whole = SPANS.get(span, SPANS["1h"])
    begin = now - whole * PAST_SHARE if at is None else at - whole / 2
    return Window(begin, begin + whole)


def ticks(seen: Window) -> list[tuple[float, str]]:
    """Round moments to write below the picture."""
    minutes = (seen.end - seen.begin).total_seconds() / 60
    step = next((step for step in _STEPS if minutes / step <= _MOST_TICKS), _STEPS[-1])
    midnight = seen.begin.replace(hour=0, minute=0, second=0, microsecond=0)
    first = midnight + timedelta(minutes=step) * (int((seen.begin - midnight) / timedelta(minutes=step)) + 1)
    moments = (first + timedelta(minutes=step) * number for number in range(_MOST_TICKS + 1))
    form = "%a %d" if step >= 1440 else "%H:%M"
    return [(seen.at(moment), moment.strftime(form)) for moment in moments if moment < seen.end]


def lanes(lives: Iterable[Mapping[str, Any]], seen: Window, now: datetime, lane_of: Mapping[str, str]) -> list[Lane]:
    """The picture: `lane_of` tells for each event id the lane it is drawn in."""
    bars: dict[str, list[tuple[float, float, Bar]]] = {}
    for life in lives:
        bar = _bar(life, seen, now)
        parts = [part for part in (bar.notice, bar.started) if part is not None]
        if parts:
            right = max(left + width for left, width in parts)
            bars.setdefault(lane_of.get(bar.id, str(life["scope"])), []).append((parts[0][0], right, bar))
    return [Lane(key, _rows(found)) for key, found in sorted(bars.items())]


def _bar(life: Mapping[str, Any], seen: Window, now: datetime) -> Bar:
    raised, started, ended = (_moment(life[key]) for key in ("raised_at", "started_at", "ended_at"))
    not_before = _moment(life["not_before"])
    assert not_before is not None
    told_until = started or ended or max(not_before, now)
    notice = None if raised is None else seen.part(raised, told_until)
    state = life["outcome"] or ("started" if started else "approved" if life["approved_by"] else "scheduled")
    return Bar(
        id=str(life["id"]),
        kind=str(life["type"]),
        state=str(state),
        notice=notice,
        started=None if started is None else seen.part(started, ended or now),
        not_before=None if raised == started else seen.mark(not_before),
        approved=seen.mark(_moment(life["approved_at"])),
        says=says(life),
        label=f"{life['type']} {', '.join(life['resources'][:3])}{' …' if len(life['resources']) > 3 else ''}",
    )


def says(life: Mapping[str, Any]) -> str:
    """All about an event in one sentence, for whoever points at it or cannot see it."""
    moments = [
        ("told", life["raised_at"]),
        ("not before", life["not_before"]),
        (f"approved by {life['approved_by']}", life["approved_at"]),
        ("started", life["started_at"]),
        (str(life["outcome"]), life["ended_at"]),
    ]
    told = ", ".join(f"{what} {_short(moment)}" for what, moment in moments if moment)
    return f"{life['type']} of {', '.join(life['resources'])}: {told}. {life['description']}".strip()


def _short(moment: str) -> str:
    return moment[5:16].replace("T", " ")


def _rows(bars: list[tuple[float, float, Bar]]) -> list[Row]:
    """As few rows as will do: each bar goes into the first that is free by then."""
    rows: list[Row] = []
    ends: list[float] = []
    for left, right, bar in sorted(bars, key=lambda one: one[:2]):
        free = next((number for number, end in enumerate(ends) if end <= left), None)
        if free is None:
            rows.append(Row([bar]))
            ends.append(right)
        else:
            rows[free].bars.append(bar)
            ends[free] = right
    return rows


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
