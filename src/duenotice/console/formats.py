"""How values are written on a page: spans and moments for people, short ids, anchors. Pure."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from urllib.parse import urlencode

from markupsafe import Markup

from duenotice.escape import lines, one_line
from duenotice.escape import natural as natural
from duenotice.wire.api_versions import ADVICE
from duenotice.wire.spans import format_iso, span

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A text that begins like this would be run by a spreadsheet."""

_NO_ANCHOR = re.compile(r"[^A-Za-z0-9.:-]")


def when(moment: datetime | None, now: datetime) -> str:
    """`in 14m 30s`, `3h ago`."""
    if moment is None:
        return "–"
    seconds = (moment - now).total_seconds()
    return f"in {span(seconds)}" if seconds > 0 else f"{span(seconds)} ago"


def clock_time(moment: datetime | None) -> str:
    """`15 Nov 18:04:10`, in UTC as everything here."""
    return "–" if moment is None else moment.strftime("%d %b %H:%M:%S")


def at(moment: datetime | None) -> str:
    """The same as an element: where scripts run, it can be in the visitor's own zone, and its tooltip has both."""
    if moment is None:
        return "–"
    shown = clock_time(moment)
    return Markup('<time datetime="{}" data-at title="{} UTC">{}</time>').format(format_iso(moment), shown, shown)


def short(identity: str | None) -> str:
    """The beginning of an id, enough to tell it from others."""
    return (identity or "–")[:8]


def anchor(text: str) -> str:
    """A name as the id of an element; different names get different ids."""
    return _NO_ANCHOR.sub(lambda found: f"_{ord(found.group()):x}_", text)


def plain(value: object) -> object:
    """Makes every text in a page visible as it is: nothing is hidden or reordered (S28). Moments are as in the API."""
    if isinstance(value, datetime):
        return format_iso(value)
    if not isinstance(value, str) or (shown := lines(value)) == value:
        return value
    return type(value)(shown)  # what is marked as HTML stays so


def csv_cell(value: object) -> object:
    """A value as a spreadsheet shows it and does not run it; control characters stay visible (S28)."""
    if isinstance(value, datetime):
        return format_iso(value)
    if not isinstance(value, str):
        return "" if value is None else value
    return f"'{one_line(value)}" if value.startswith(_FORMULA) else one_line(value)


def some(names: Sequence[str], most: int = 3) -> str:
    """`web-0, web-1, web-2 +7`."""
    return some_of(names, len(names), most)


def some_of(names: Sequence[str], in_all: int, most: int = 3) -> str:
    """The same when not all names are known."""
    more = f" +{in_all - most}" if in_all > most else ""
    return ", ".join(names[:most]) + more


def thousands(number: int) -> str:
    """`100,000`: people cannot read long numbers without the commas."""
    return f"{number:,}"


def address(path: str, given: Mapping[str, object], **changes: object) -> str:
    """A path with a query of what is given and changed; what is empty is left out."""
    query = urlencode({key: value for key, value in (dict(given) | changes).items() if value not in ("", None)})
    return f"{path}?{query}" if query else path


FILTERS: dict[str, Callable[..., object]] = {
    "span": span,
    "when": when,
    "clock_time": clock_time,
    "at": at,
    "short": short,
    "anchor": anchor,
    "some": some,
    "is_advice": lambda event: event.type == ADVICE,
    "thousands": thousands,
}
