"""The tutorial of docs/hypervisor.md: its commands are run as they stand there, with three real guests."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.host.hypervisor import Hypervisor
from tests.support.namespaces import ENVIRONMENT

pytestmark = pytest.mark.host

DOCUMENT = Path(__file__).parents[2] / "docs" / "hypervisor.md"
STOP = "kill %1; wait"


def commands(folder: Path) -> str:
    """What the tutorial says, with a folder of the test for its files."""
    blocks = re.findall(r"^<!-- tried by .*? -->\n```sh\n(.*?)^```", DOCUMENT.read_text(), re.M | re.S)
    assert len(blocks) == 4
    ready = "until duenotice vm list -o name 2>/dev/null | grep -c . | grep -qx 3; do sleep 0.5; done\n"
    listens = 'until [ "$(duenotice vm list -o json | grep -c \'"listens": true\')" = 3 ]; do sleep 0.5; done\n'
    first, *more = blocks[3].splitlines(keepends=True)
    wait = "until [ -e /tmp/duenotice-data/admin.token ]; do sleep 0.2; done\n"
    text = "".join([*blocks[:3], wait, first, ready, listens, *more, STOP, "\n"])
    return text.replace("/tmp/duenotice-data", str(folder / "data"))


def test_three_vms_are_told_before_they_are_rebooted(h1: Hypervisor, tmp_path: Path) -> None:
    """Each one approves its own event (any of the set could: C04), and is rebooted once, one after the other."""
    guests = [
        h1.guest(f"web-{n}", f"10.77.0.1{n}", facts="zone='1'", does=f"dn.approve=yes dn.own=web-{n}") for n in range(3)
    ]
    paths = f"{Path(sys.executable).parent}:{ENVIRONMENT['PATH']}"
    done = subprocess.run(
        h1.command("bash", "-euo", "pipefail", "-c", commands(tmp_path)),
        env=ENVIRONMENT | {"PATH": paths, "LIBVIRT_DEFAULT_URI": h1.uri},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    assert "# web-1  10.77.0.11  on h1  set/web UD 1" in done.stdout
    for guest in guests:
        guest.wait("boot ", 2)
        lines = guest.lines()
        approved = next(number for number, line in enumerate(lines) if line.startswith("approved "))
        assert approved < lines.index("clean end")
