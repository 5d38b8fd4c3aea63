"""Moments, durations and windows as people and the wire write them. Standard library only.

What a time zone does is not known here: `operator_api/windows.py` knows it.
"""

import re
from datetime import UTC, date, datetime, time
from email.utils import format_datetime, parsedate_to_datetime
from typing import NamedTuple

from duenotice.errors import Malformed


def format_rfc1123(moment: datetime) -> str:
    """`Mon, 19 Sep 2016 18:29:47 GMT`, whatever the locale."""
    return format_datetime(moment, usegmt=True)


def format_iso(moment: datetime) -> str:
    """`2016-09-19T18:29:47Z`."""
    return f"{moment.year:04d}-{moment:%m-%dT%H:%M:%SZ}"


def parse_time(text: str) -> datetime:
    """Either format; without an offset it is UTC."""
    try:
        moment = datetime.fromisoformat(text) if text[:1].isdigit() else parsedate_to_datetime(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise Malformed(f"{text!r} is not a time.", hint="Use RFC 1123 or ISO 8601.") from None


_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_UNITS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))
_PLAIN = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|[smhd]))+", re.ASCII)
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhd])", re.ASCII)
_ISO = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?", re.ASCII)
_NUMBER = re.compile(r"\d+(?:\.\d+)?", re.ASCII)


LONGEST_SECONDS = 100 * 366 * 86400.0
"""A century: enough for everybody, and sums with it stay within the calendar."""


def parse_duration(text: str) -> float:
    """Seconds."""
    text = text.strip()
    seconds = _seconds(text) if len(text) <= 40 else None
    if seconds is None or seconds > LONGEST_SECONDS:
        raise Malformed(f"{text[:40]!r} is not a span of time.", hint="Write 30s, 5m, 1h30m or PT5M.")
    return seconds


def span(seconds: float) -> str:
    """The two largest units of a span of time, as people read it: `1h 30m`."""
    left, parts = round(abs(seconds)), []
    for size, unit in _UNITS:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2]) or "0s"


def _seconds(text: str) -> float | None:
    if _NUMBER.fullmatch(text):
        return float(text)
    if _PLAIN.fullmatch(text):
        return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
    if (iso := _ISO.fullmatch(text)) and any(iso.groups()):
        days, hours, minutes, seconds = (int(part or 0) for part in iso.groups())
        return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
    return None


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


class LocalTimes(NamedTuple):
    """From one local time to another, on some days of the week or on one date; the end may be on the next day."""

    begins: time
    ends: time
    zone: str = "UTC"
    weekdays: frozenset[int] = frozenset()
    on: date | None = None


class Moments(NamedTuple):
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
