"""Times of many rounds, as rows of a table with what they may be (S30)."""

from collections.abc import Callable, Iterable
from time import monotonic
from typing import NamedTuple


class Row(NamedTuple):
    """What took how long, in seconds; `part` of a hundred of the times may not be over the limit."""

    fault: str
    what: str
    times: list[float]
    limit: float
    part: int = 99

    @property
    def holds(self) -> bool:
        """Whether it took no longer than it may."""
        return percentile(self.times, self.part) <= self.limit


def percentile(times: Iterable[float], part: int) -> float:
    """The time that so many of a hundred do not exceed; of few times p99 is the longest."""
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, len(ordered) * part // 100)]


def seconds(work: Callable[[], object]) -> float:
    """How long it takes."""
    began = monotonic()
    work()
    return monotonic() - began


HEAD = "| fault | what | times | p50 | p99 | longest | may be | holds |\n|---|---|---|---|---|---|---|---|"


def line(row: Row) -> str:
    """A row as a line of a table in Markdown."""
    found = " | ".join(f"{percentile(row.times, part):.3f} s" for part in (50, 99, 100))
    says = "yes" if row.holds else "**no**"
    return f"| {row.fault} | {row.what} | {len(row.times)} | {found} | p{row.part} ≤ {row.limit:.2f} s | {says} |"


def told(*rows: Row) -> str:
    """The same for one that reads a test's output: `pytest -s`."""
    return "".join(f"{line(row)}\n" for row in rows)
