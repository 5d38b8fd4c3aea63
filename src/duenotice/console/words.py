"""How values are written on a page: spans and moments for people, short ids, anchors. Pure."""

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from duenotice.plain_text import lines
from duenotice.wire.duration import span

_NO_ANCHOR = re.compile(r"[^A-Za-z0-9.:-]")
_DIGITS = re.compile(r"(\d+)")


def when(moment: str | None, now: datetime) -> str:
    """`in 14m 30s`, `3h ago`."""
    if not moment:
        return "–"
    seconds = (datetime.fromisoformat(moment) - now).total_seconds()
    return f"in {span(seconds)}" if seconds > 0 else f"{span(seconds)} ago"


def clock_time(moment: str | None) -> str:
    """`15 Nov 18:04:10`, in UTC as everything here."""
    return "–" if not moment else datetime.fromisoformat(moment).strftime("%d %b %H:%M:%S")


def short(identity: str | None) -> str:
    """The beginning of an id, enough to tell it from others."""
    return (identity or "–")[:8]


def anchor(text: str) -> str:
    """A name as the id of an element; different names get different ids."""
    return _NO_ANCHOR.sub(lambda found: f"_{ord(found.group()):x}_", text)


def plain(value: Any) -> Any:
    """Makes every text in a page visible as it is: nothing is hidden or reordered (S28)."""
    shown = lines(value) if isinstance(value, str) else value
    return value if shown == value else type(value)(shown)  # what is marked as HTML stays so


def some(names: Sequence[str], most: int = 3) -> str:
    """`web-0, web-1, web-2 +7`."""
    more = f" +{len(names) - most}" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def natural(name: str) -> list[tuple[int, str]]:
    """A key to sort by: `web-9` comes before `web-10`."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in _DIGITS.split(name)]


FILTERS: dict[str, Callable[..., Any]] = {
    "span": span,
    "when": when,
    "clock_time": clock_time,
    "short": short,
    "anchor": anchor,
    "some": some,
}
