"""What the agent costs while nothing happens: a new process, as it is started on every VM of a fleet."""

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.agent.test_silence import NOTHING, Service, machine

WARM, SECONDS = 4.0, 8.0
LARGEST_KB = 35 * 1024
MOST_CPU = 0.0025
"""Of a core: 0.1 % on a machine with nothing else to do; here others have emptied its caches: 0.15 % once."""


@pytest.mark.serial
def test_an_idle_agent_costs_nearly_nothing(tmp_path: Path) -> None:
    """35 MB and a thousandth of a core, with a poll each second (S24)."""
    with Service(NOTHING) as service, machine(service, tmp_path) as agent:
        files = ["--config", str(agent.folder / "agent.toml"), "--state-dir", str(agent.state)]
        with (agent.folder / "log").open("wb") as log:
            process = subprocess.Popen([sys.executable, "-m", "duenotice", "agent", "run", *files], stderr=log)
        try:
            time.sleep(WARM)  # time is what is measured
            before, polls = cpu_seconds(process.pid), len(service.requests)
            time.sleep(SECONDS)
            used, resident = cpu_seconds(process.pid) - before, resident_kb(process.pid)
            assert len(service.requests) - polls >= SECONDS / 2, agent.log
            assert resident <= LARGEST_KB and used / SECONDS <= MOST_CPU, (resident, used / SECONDS)
        finally:
            process.terminate()
            assert process.wait(60) == 0


def cpu_seconds(pid: int) -> float:
    """Time of its threads on a processor, exactly: the usual count has steps of 10 ms."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


def resident_kb(pid: int) -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1])
