"""The systemd units of agents, nodes and followers: valid, hardened, and in step with the commands."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs import require_program

UNITS = Path(__file__).parents[2] / "packaging" / "systemd"
EXPOSURE = {
    "duenotice-agent.service": 37,
    "duenotice-agent-unprivileged.service": 15,
    "duenotice-node.service": 18,
    "duenotice-follower.service": 18,
    "duenotice.service": 20,
}
"""Tenths of systemd's own measure; 0 is nothing, 100 is everything."""


def analyze(*arguments: str) -> None:
    program = require_program("systemd-analyze", "systemd")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""


def test_every_unit_is_looked_at():
    """None is forgotten."""
    assert {path.name for path in UNITS.iterdir() if path.is_file()} == {*EXPOSURE, "duenotice.socket"}


@pytest.mark.parametrize("name", EXPOSURE)
def test_a_unit_is_valid(name: str, tmp_path: Path):
    """Every line is one that systemd knows; only the program is not installed here."""
    text = (UNITS / name).read_text()
    assert f"ExecStart=/usr/bin/duenotice {'agent run' if 'agent' in name else 'serve'} --config" in text
    (tmp_path / "duenotice.socket").write_text((UNITS / "duenotice.socket").read_text())
    copy = tmp_path / name
    copy.write_text(text.replace("/usr/bin/duenotice", sys.executable))
    analyze("verify", "--man=no", str(copy))


@pytest.mark.parametrize("name", EXPOSURE)
def test_a_unit_is_hardened(name: str):
    """The root one too: of root it keeps what its handlers need."""
    analyze("security", "--offline=true", "--no-pager", f"--threshold={EXPOSURE[name]}", str(UNITS / name))
