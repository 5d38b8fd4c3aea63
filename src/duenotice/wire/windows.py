"""Windows of time as people write them: `Sun 02:00-06:00 Europe/Berlin`, `daily 22:00-04:00`, or two moments.

What a time zone does is not known here: `operator_api/windows` knows it.
"""

import re
from datetime import UTC, date, datetime, time

from msgspec import Struct

from duenotice.errors import Malformed

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
LONGEST = 120

_HINT = (
    "Write Sun 02:00-06:00 Europe/Berlin, Mon-Fri 22:00-04:00, daily 01:00-05:00, 2026-11-22 02:00-06:00, or two "
    "moments with their offsets: 2026-11-22T02:00Z/2026-11-22T06:00Z."
)
_LOCAL = re.compile(r"(\S+) (\d\d?:\d\d) ?- ?(\d\d?:\d\d)(?: (\S+))?", re.ASCII)
_DAY = "(?i:mon|tue|wed|thu|fri|sat|sun)"
_DAY_PART = re.compile(rf"({_DAY})(?:-({_DAY}))?")
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


class LocalTimes(Struct, frozen=True):
    """From one local time to another, on some days of the week or on one date; the end may be on the next day."""

    begins: time
    ends: time
    zone: str = "UTC"
    weekdays: frozenset[int] = frozenset()
    on: date | None = None


class Moments(Struct, frozen=True):
    """From one moment to another."""

    begins: datetime
    ends: datetime


def parse_window(text: str) -> LocalTimes | Moments:
    """A window as it is written, in any case and with any spaces."""
    words = " ".join(text.split())
    found = None if len(words) > LONGEST else _moments(words) or _local_times(words)
    if found is None:
        raise Malformed(f"{words[:LONGEST]!r} is not a window.", hint=_HINT)
    return found


def _moments(words: str) -> Moments | None:
    parts = [_moment(part) for part in words.split("/")]
    if len(parts) != 2 or parts[0] is None or parts[1] is None:
        return None
    return Moments(parts[0], parts[1])


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text.strip())
        return None if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _local_times(words: str) -> LocalTimes | None:
    found = _LOCAL.fullmatch(words)
    if found is None:
        return None
    days, begins, ends, zone = found.group(1), _time(found.group(2)), _time(found.group(3)), found.group(4) or "UTC"
    on, weekdays = _date(days), _weekdays(days)
    if begins is None or ends is None or begins == ends or (on is None and not weekdays):
        return None
    return LocalTimes(begins, ends, zone, weekdays, on)


def _time(text: str) -> time | None:
    try:
        hour, minute = map(int, text.split(":"))
        return time(hour, minute)
    except ValueError:
        return None


def _date(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if _DATE.fullmatch(text) else None
    except ValueError:
        return None


def _weekdays(text: str) -> frozenset[int]:
    """`Sat,Sun`, `Mon-Fri` or `daily`; empty when it is none of these."""
    if text.lower() == "daily":
        return frozenset(range(7))
    parts = [_DAY_PART.fullmatch(part) for part in text.split(",")]
    days: set[int] = set()
    for part in parts:
        if part is None:
            return frozenset()
        first, last = (DAYS.index((day or part.group(1)).capitalize()) for day in part.groups())
        days.update((first + step) % 7 for step in range((last - first) % 7 + 1))
    return frozenset(days)
