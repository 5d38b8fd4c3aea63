"""One measured line: ours beside the reference, and whether that is good enough."""

from collections.abc import Sequence
from statistics import median, quantiles
from typing import NamedTuple

SAME = 1.02
"""Not above the reference: two processes of the same program differ by so much from round to round."""

NOT_MEASURED = "could not be measured"
"""A row of a section that failed."""


class Row(NamedTuple):
    """A line of the table; `ok` is None where there is no target."""

    what: str
    ours: str
    reference: str = ""
    ratio: float | None = None
    target: str = ""
    ok: bool | None = None


class Duel(NamedTuple):
    """The same figure of ours and of the reference, round by round; both are costs, so less is better."""

    ours: Sequence[float]
    reference: Sequence[float]

    @property
    def speed(self) -> float:
        """How many times as cheap as the reference we are: the median over rounds, which shrugs off a bad one."""
        return median(theirs / ours for ours, theirs in zip(self.ours, self.reference, strict=True))

    @property
    def cost(self) -> float:
        """How many times the reference's cost is ours."""
        return median(ours / theirs for ours, theirs in zip(self.ours, self.reference, strict=True))


def at_least(what: str, duel: Duel, limit: float, unit: str) -> Row:
    """Ours must be so many times as cheap as the reference."""
    return Row(what, *_medians(duel, unit), duel.speed, f"≥ {limit:g}×", duel.speed >= limit)


def at_most(what: str, duel: Duel, limit: float, unit: str) -> Row:
    """Ours may cost so many times what the reference costs."""
    return Row(what, *_medians(duel, unit), duel.cost, f"≤ {limit:g}×", duel.cost <= limit)


def within(what: str, value: float, limit: float, unit: str) -> Row:
    """Ours may cost so much, whatever others do."""
    return Row(what, f"{figure(value)} {unit}", target=f"≤ {limit:g} {unit}", ok=value <= limit)


def reaches(what: str, value: float, limit: float, unit: str) -> Row:
    """Ours must do so much, whatever others do."""
    return Row(what, f"{figure(value)} {unit}", target=f"≥ {limit:,.0f} {unit}", ok=value >= limit)


def p50(samples: Sequence[float]) -> float:
    """The median."""
    return median(samples)


def p99(samples: Sequence[float]) -> float:
    """What one in a hundred exceeds."""
    return quantiles(samples, n=100, method="inclusive")[98]


def figure(value: float) -> str:
    """A number with about three digits that mean something."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _medians(duel: Duel, unit: str) -> tuple[str, str]:
    return f"{figure(median(duel.ours))} {unit}", f"{figure(median(duel.reference))} {unit}"
