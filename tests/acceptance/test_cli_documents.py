"""What README.md and docs/cli.md tell people to type works as it stands there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs import require_program
from tests.testkit.test_plugin import CLIENT, PLUGIN

pytest_plugins = ["pytester"]
ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
FIRST_SCREEN = 32
"""Lines that somebody sees who opens the page."""

MY_AGENT = """
from client import approve, read


def look(url):
    for event in read(url)["Events"]:
        approve(url, event["EventId"])
"""


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.mark.machine  # in which the usual ports are free
def test_the_session_can_be_pasted_as_it_stands(tmp_path: Path) -> None:
    """Into the plainest shell, in the folder of a clone: every command succeeds, and the service ends."""
    (session,) = blocks((ROOT / "docs" / "cli.md").read_text(), "sh")
    (tmp_path / ".venv").symlink_to(sys.prefix)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    ip, unshare = require_program("ip", "iproute2"), require_program("unshare", "util-linux")
    require_program("curl", "curl")
    done = subprocess.run(
        [unshare, "--user", "--map-root-user", "--net", "sh", "-euc", f"{ip} link set lo up\n{session}\nwait $!"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
    )
    assert done.returncode == 0, done
    assert "error:" not in done.stderr
    for word in ("web-4", '"EventStatus":"Scheduled"', "event-completed", "5/5", '"action": "event-raised"'):
        assert word in done.stdout, word


def test_the_first_screen_says_how_to_test_an_application() -> None:
    """It is what most people come for; two commands, and no reading."""
    first = "\n".join(README.splitlines()[:FIRST_SCREEN])
    assert "## Test your application in two minutes" in first
    assert "make install" in first and "duenotice run -- ./my-application" in first
    assert "scheduled_events" in first


def test_the_test_on_the_first_screen_passes(pytester: pytest.Pytester) -> None:
    """With an agent of anybody's."""
    (test,) = blocks(README, "python")
    pytester.makepyfile(client=CLIENT, my_agent=MY_AGENT, test_it=f"import my_agent\n\n{test}")
    pytester.runpytest_subprocess(*PLUGIN, "-W", "error").assert_outcomes(passed=1)
