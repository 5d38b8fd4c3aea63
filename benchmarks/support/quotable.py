"""Whether a run may be quoted: it was whole, and others left the machine alone before it and during it."""

import os
import resource
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import NamedTuple

LOAD_BEFORE = 0.5
"""Load of the last minute, before we begin."""

OTHERS = 0.15
"""Cores that others may use while we measure."""

_TICKS = os.sysconf("SC_CLK_TCK")
_BUSY = (1, 2, 3, 6, 7, 8)
"""`user nice system`, `irq softirq steal` in /proc/stat: a process's own time has the interrupts that it was hit by."""

_KERNEL = "2"
"""The parent of the kernel's threads: what these do for disks and networks they do for us."""


class Used(NamedTuple):
    """Processor seconds until a moment: by everybody on this machine, and by us and the children that have ended."""

    at: float
    everybody: float
    ours: float


def used(proc: Path = Path("/proc")) -> Used:
    """Until now."""
    fields = (proc / "stat").read_text().partition("\n")[0].split()
    ticks = sum(int(fields[place]) for place in _BUSY) - sum(map(_kernels_ticks, proc.glob("[0-9]*/stat")))
    ours = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return Used(monotonic(), ticks / _TICKS, sum(each.ru_utime + each.ru_stime for each in ours))


def _kernels_ticks(stat: Path) -> int:
    """What a process has used if it is a thread of the kernel; nothing if it is another, or has just ended."""
    try:
        _, parent, *fields = stat.read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(fields[9]) + int(fields[10]) if parent == _KERNEL else 0


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
