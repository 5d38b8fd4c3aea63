"""Spans of time as people write and read them: `30s`, `1h30m`, `500ms`, `PT5M`, or plain seconds."""

import re

from duenotice.errors import Malformed

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
