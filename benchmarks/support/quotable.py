"""Whether a run may be quoted: it was whole, and others left the machine alone before it and during it."""

import os
import resource
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import NamedTuple

LOAD_BEFORE = 0.5
"""Load of the last minute, before we begin."""

OTHERS = 0.1
"""Cores that others may use while we measure; the kernel's own threads need some of that for us."""

_TICKS = os.sysconf("SC_CLK_TCK")
_BY_PROCESSES = slice(1, 4)
"""`user nice system` of a line in /proc/stat. Interrupts are left out: those are of our own packets and blocks."""

_STOLEN = 8


class Used(NamedTuple):
    """Processor seconds until a moment: by everybody on this machine, and by us and the children that have ended."""

    at: float
    everybody: float
    ours: float


def used(stat: Path = Path("/proc/stat")) -> Used:
    """Until now."""
    fields = stat.read_text().partition("\n")[0].split()
    ticks = sum(map(int, fields[_BY_PROCESSES])) + int(fields[_STOLEN])
    ours = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return Used(monotonic(), ticks / _TICKS, sum(each.ru_utime + each.ru_stime for each in ours))


def cores_of_others(begin: Used, end: Used) -> float:
    """How many cores others used on average; what they did in between counts also if the load is low at both ends."""
    elapsed = end.at - begin.at
    spent = (end.everybody - begin.everybody) - (end.ours - begin.ours)
    return max(0.0, spent / elapsed) if elapsed else 0.0


def objections(load_before: float, others: Mapping[str, float], left_out: Sequence[str]) -> list[str]:
    """Why a run must not be quoted; none if it may. `others` has the cores that others used in each section."""
    found = [f"not measured, or only quickly: {', '.join(left_out)}"] if left_out else []
    if load_before > LOAD_BEFORE:
        found.append(f"the load before it was {load_before:.1f}, more than {LOAD_BEFORE:g}")
    busy = [f"{name} ({cores:.2f})" for name, cores in others.items() if cores > OTHERS]
    if busy:
        found.append(f"others used more than {OTHERS:g} cores during {', '.join(busy)}")
    return found
