"""Moments as the wire writes them, both directions: RFC 1123 and ISO 8601 (B08). Standard library only."""

from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime

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
