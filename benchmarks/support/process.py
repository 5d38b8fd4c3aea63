"""What the kernel knows about a process: processor time spent and memory held."""

import os
import re
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """Processor time of all threads, user and system."""
    # The name in brackets may hold anything, so count from behind it.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def resident_bytes(pid: int) -> int:
    """Memory held now, shared libraries included."""
    return _kilobytes(Path(f"/proc/{pid}/status"), "VmRSS")


def peak_bytes(pid: int) -> int:
    """The most memory ever held."""
    return _kilobytes(Path(f"/proc/{pid}/status"), "VmHWM")


def own_bytes(pid: int) -> int:
    """Memory that would be free again if this process alone ended."""
    rollup = Path(f"/proc/{pid}/smaps_rollup")
    return _kilobytes(rollup, "Private_Dirty") + _kilobytes(rollup, "Private_Clean")


def children(pid: int) -> list[int]:
    """The processes it has started."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _kilobytes(file: Path, field: str) -> int:
    found = re.search(rf"^{field}:\s+(\d+) kB", file.read_text(), re.MULTILINE)
    assert found is not None, f"{file} has no {field}"
    return int(found[1]) * 1024
