"""wrk on the load's core, and what it saw."""

import re
import subprocess
from typing import NamedTuple

from benchmarks.support.http import PATH, Address
from benchmarks.support.machine import LOAD_CORE, CannotMeasure, pinned, require

_REQUESTS = re.compile(r"^\s*(\d+) requests in", re.MULTILINE)
_P99 = re.compile(r"^\s*99%\s+([\d.]+)(us|ms|s)", re.MULTILINE)
_TROUBLE = re.compile(r"^\s*(?:Non-2xx|Socket errors).*$", re.MULTILINE)
_MICROSECONDS = {"us": 1.0, "ms": 1e3, "s": 1e6}


class Load(NamedTuple):
    """Requests answered, and the time that one in a hundred took longer than, in microseconds."""

    requests: int
    p99: float


def run_wrk(server: Address, connections: int, seconds: int, *headers: str) -> Load:
    """Poll as fast as answers come."""
    command = [require("wrk", "wrk"), "-t1", f"-c{connections}", f"-d{seconds}s", "--latency"]
    for header in ("Metadata: true", *headers):
        command += ["-H", header]
    command.append(f"http://{server}{PATH}")
    done = subprocess.run(pinned(LOAD_CORE, command), capture_output=True, text=True, timeout=seconds + 60)
    requests, p99 = _REQUESTS.search(done.stdout), _P99.search(done.stdout)
    trouble = _TROUBLE.search(done.stdout)
    if requests is None or p99 is None or trouble is not None:
        raise CannotMeasure(f"wrk met trouble at {server}:\n{done.stdout}{done.stderr}")
    return Load(int(requests[1]), float(p99[1]) * _MICROSECONDS[p99[2]])
