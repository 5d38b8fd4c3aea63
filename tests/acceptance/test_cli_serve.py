"""`duenotice serve` as a person starts it: what it prints, and what it says when it cannot start."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

ANYWHERE = ("--metadata-listen", "127.0.0.1:0", "--operator-listen", "127.0.0.1:0")


def served(*arguments: str) -> tuple[int, str, str]:
    """Start it, stop it when it has said where it listens; the exit code and both outputs."""
    command = [sys.executable, "-m", "duenotice", "serve", *ANYWHERE, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
    return process.returncode, said + out, err


@pytest.mark.parametrize(("log_format", "is_silent"), [("none", True), ("json", False), ("console", False)])
def test_every_log_format_serves_and_none_logs_nothing(tmp_path: Path, log_format: str, is_silent: bool) -> None:
    """Where it listens is printed all the same: that is not a log."""
    arguments = ("--data-dir", str(tmp_path), "--default-vm", "me", "--log-format", log_format)
    code, out, err = served(*arguments)
    assert (code, out.splitlines()[0], err == "") == (0, "duenotice serves 1 VMs", is_silent), err
