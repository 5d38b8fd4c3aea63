"""From a window as an operator writes it to the moments of its spans: the only place that reads time zones.

The journal keeps the moments, so that every node and every restart has the same ones, whatever zone files it has
(decision 0014).
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo

from msgspec import structs

from duenotice.domain.window import FARTHEST, Window, WindowSpan
from duenotice.errors import Malformed, Refused
from duenotice.wire.spans import LocalTimes, Moments, format_iso, parse_window

_DAY = timedelta(days=1)
JUST_NOW = timedelta(minutes=1)
"""Forms of browsers give whole minutes, and a script takes a moment."""


def window_of(text: str, start: datetime | None, now: datetime) -> Window | None:
    """The window that was asked for; with a planned start only what comes after it counts. None without both."""
    words = " ".join(text.split())
    if start is not None:
        _check_start(start, now)
    if not words:
        return None if start is None else Window((WindowSpan(start),), f"from {format_iso(start)}")
    asked = parse_window(words)
    spans = (WindowSpan(asked.begins, asked.ends),) if isinstance(asked, Moments) else _spans(asked, now)
    if start is None:
        return Window(tuple(spans), words)
    after = tuple(structs.replace(span, begins=max(span.begins, start)) for span in spans if not span.is_over(start))
    if not after:
        raise Refused("The window has no time after the planned start.", hint="Give an earlier start, or leave it out.")
    return Window(after, f"{words}, from {format_iso(start)}")


def _check_start(start: datetime, now: datetime) -> None:
    """A start that has passed would hit as soon as the notice is over, which nobody can have meant (S23)."""
    if start < now - JUST_NOW:
        raise Refused(
            f"The planned start {format_iso(start)} is in the past.",
            hint="Give a later one, or leave it out to begin as soon as VMs have had their notice.",
        )
    if start - now > FARTHEST:
        raise Refused(
            f"The planned start {format_iso(start)} is more than a year ahead.", hint="Plan it nearer to its time."
        )


def _spans(asked: LocalTimes, now: datetime) -> Iterable[WindowSpan]:
    """All spans of a year from now on; the plan pauses when they have all passed."""
    zone = _zone(asked.zone)
    try:
        days = [day for day in _days(asked, now.astimezone(zone).date()) if _exists(day, zone)]
        found = [span for day in days if _has_time(span := _span(asked, day, zone))]
    except (OverflowError, ValueError):
        raise Malformed("The window is out of range.", hint="Give a date that is nearer.") from None
    if not found:
        what, hint = ("this day", "another day") if not days else ("these times", "times that exist on that day")
        raise Refused(f"The clocks of {asked.zone} skip {what}: nothing is left of the window.", hint=f"Give {hint}.")
    return list(_apart(span for span in found if asked.on or not span.is_over(now)))


def _days(asked: LocalTimes, today: date) -> list[date]:
    if asked.on is not None:
        return [asked.on]
    days = [today + number * _DAY for number in range(-1, FARTHEST.days)]
    return [day for day in days if day.weekday() in asked.weekdays]


def _span(asked: LocalTimes, day: date, zone: tzinfo) -> WindowSpan:
    """What these local times are on a day, as far as they exist there."""
    last_day = day if asked.ends > asked.begins else day + _DAY
    return WindowSpan(_moment(day, asked.begins, zone), _moment(last_day, asked.ends, zone))


def _moment(day: date, at: time, zone: tzinfo) -> datetime:
    """A local time; one that the clocks skip is the moment at which they skip it.

    Of a time that comes twice the first is meant, so that a window never ends later than somebody may have thought.
    """
    local = datetime.combine(day, at, zone)
    moment = local.astimezone(UTC)
    if moment.astimezone(zone).replace(tzinfo=None) == local.replace(tzinfo=None):
        return moment
    after = moment.astimezone(zone).utcoffset()
    before, behind = int(local.replace(fold=1).timestamp()), int(moment.timestamp())
    seconds = range(before, behind)  # in between the clocks are changed
    skip = bisect_left(seconds, True, key=lambda one: datetime.fromtimestamp(one, zone).utcoffset() == after)
    return datetime.fromtimestamp(before + skip, UTC)


def _exists(day: date, zone: tzinfo) -> bool:
    """Not when a place has changed the side of the date line: Samoa had no 2011-12-30."""
    return _moment(day, time.min, zone).astimezone(zone).date() == day


def _has_time(span: WindowSpan) -> bool:
    """Not when its whole time is skipped by the clocks."""
    return span.ends is not None and span.begins < span.ends


def _apart(spans: Iterable[WindowSpan]) -> Iterator[WindowSpan]:
    """The same times, with spans that touch made one."""
    last: WindowSpan | None = None
    for span in spans:
        if last is not None and last.ends is not None and span.ends is not None and span.begins <= last.ends:
            last = WindowSpan(last.begins, max(last.ends, span.ends))
            continue
        if last is not None:
            yield last
        last = span
    if last is not None:
        yield last


def _zone(name: str) -> tzinfo:
    if name.upper() in ("UTC", "Z"):
        return UTC
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        hint = "Use a name such as Europe/Berlin. If all are unknown, install the zone files (Debian: tzdata)."
        raise Malformed(f"{name[:60]!r} is not a time zone that this machine knows.", hint=hint) from None
