"""When the steps of a plan may hit: a table of spans of time, and where a plan stands in it (decision 0014)."""

from bisect import bisect_right
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from msgspec import Struct, structs

from duenotice.clock import LAST_MOMENT, Instant, micros_of
from duenotice.errors import Refused

EARLY = timedelta(minutes=1)
"""VMs are told this much before their notice has to begin, so that a slow commit costs nothing of the window."""

FARTHEST = timedelta(days=366)
MOST_SPANS = 1000
LONGEST_SAID = 200
_FIRST_MOMENT = datetime.min.replace(tzinfo=UTC)
_NEVER = LAST_MOMENT + timedelta(microseconds=999_999)


class WindowSpan(Struct, frozen=True, omit_defaults=True, gc=False):
    """From `begins` on, and before `ends`; without an end it stays open. Here the time of day alone counts."""

    begins: datetime
    ends: datetime | None = None

    def is_over(self, at: datetime) -> bool:
        """Whether it has ended by then."""
        return self.ends is not None and self.ends <= at


class Window(Struct, frozen=True, omit_defaults=True):
    """The spans in which steps may hit, one after another; `said` is how the operator said it.

    `closes` is when the last of them ends in steady time, by the clock as it was when the window was given. Time zones
    are resolved before: rules that read zone files would give another answer on another machine.
    """

    spans: tuple[WindowSpan, ...]
    said: str = ""
    closes: int = 0

    def is_over(self, now: Instant) -> bool:
        """Whether nothing can hit in it any more, by both faces of time: then its plan is paused for good (S34)."""
        ends = self.spans[-1].ends
        return ends is not None and Instant(ends, self.closes).has_come(now)


class Opening(Struct, frozen=True, omit_defaults=True, gc=False):
    """The span that an event belongs to: it may start when both faces of `begins` have come, and before `ends`.

    `opens` and `closes` are these two in steady time.
    """

    begins: datetime
    opens: int
    ends: datetime | None = None
    closes: int = 0

    def lets(self, now: Instant) -> bool:
        """Whether its event may start now; a clock that jumps makes it late, never early (S1)."""
        begun = Instant(self.begins, self.opens).has_come(now)
        return begun and (self.ends is None or now.at < self.ends)

    def is_over(self, now: Instant) -> bool:
        """Whether its event has missed it, by both faces of time: only then it is taken back (S34)."""
        return self.ends is not None and Instant(self.ends, self.closes).has_come(now)


def opening(span: WindowSpan, now: Instant) -> Opening:
    """The span as an event of it keeps it."""
    return Opening(span.begins, _steady(span.begins, now), span.ends, _steady(span.ends, now))


def _steady(moment: datetime | None, now: Instant) -> int:
    """When a moment comes on an undisturbed clock."""
    return now.steady if moment is None else now.steady + max(0, micros_of(moment - now.at))


def announced_from(span: WindowSpan, notice: int) -> datetime:
    """From when on VMs may be told of a step of this span, which may begin as early as there are dates (S23)."""
    return span.begins - min(timedelta(microseconds=notice) + EARLY, span.begins - _FIRST_MOMENT)


def next_of(window: Window, at: datetime) -> int:
    """The first span that is not over by this time of day; their number, if all are."""
    return bisect_right(window.spans, at, key=lambda span: span.ends or _NEVER)


def check(window: Window | None, now: Instant) -> Window | None:
    """The window as a plan keeps it; refused if nothing could ever happen in it, or if it is too large (S23, S24)."""
    if window is None:
        return None
    spans = window.spans
    if not spans or len(spans) > MOST_SPANS or len(window.said) > LONGEST_SAID:
        raise Refused(f"A window has 1 to {MOST_SPANS} spans.", hint="Give a window that comes within a year.")
    apart = all(one.ends is not None and one.ends < other.begins for one, other in pairwise(spans))
    if not apart or any(span.is_over(span.begins) for span in spans):
        raise Refused("The window ends before it begins.", hint="Give its begin first, then its end.")
    if next_of(window, now.at) == len(spans):
        raise Refused("The window is over already.", hint="Give one that ends in the future.")
    if spans[0].begins - now.at > FARTHEST:
        raise Refused("The window is more than a year ahead.", hint="Plan it nearer to its time.")
    if (last := spans[-1].ends) is not None and last - now.at > 2 * FARTHEST:
        raise Refused("The window ends more than two years ahead.", hint="Give an earlier end.")
    return structs.replace(window, closes=_steady(spans[-1].ends, now))
