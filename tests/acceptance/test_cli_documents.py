"""What README.md, docs/cli.md and docs/service.md tell people to type works as it stands there."""

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

MY_AGENT = """
from client import approve, read


def look(url):
    for event in read(url)["Events"]:
        approve(url, event["EventId"])
"""


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def typed(session: str, folder: Path) -> str:
    """What is printed when a session is pasted into the plainest shell, where the usual ports are free."""
    ip, unshare = require_program("ip", "iproute2"), require_program("unshare", "util-linux")
    require_program("curl", "curl")
    done = subprocess.run(
        [unshare, "--user", "--map-root-user", "--net", "sh", "-euc", f"{ip} link set lo up\n{session}\nwait $!"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env={"PATH": f"{sys.prefix}/bin:/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
    )
    assert done.returncode == 0, done
    assert "error:" not in done.stderr
    return done.stdout


@pytest.mark.machine
def test_the_session_can_be_pasted_as_it_stands(tmp_path: Path) -> None:
    """In the folder of a clone: every command succeeds, and the service ends."""
    (session,) = blocks((ROOT / "docs" / "cli.md").read_text(), "sh")
    (tmp_path / ".venv").symlink_to(sys.prefix)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    printed = typed(session, tmp_path)
    for word in ("web-4", '"EventStatus":"Scheduled"', "event-completed", "5/5", '"action": "event-raised"'):
        assert word in printed, word


@pytest.mark.machine
def test_the_first_service_can_be_started_as_the_page_says(tmp_path: Path) -> None:
    """All blocks of the page, one after the other: a fleet, a service, a VM that asks, an event that is approved."""
    session = "\n".join(blocks((ROOT / "docs" / "service.md").read_text(), "sh"))
    printed = typed(session, tmp_path)
    for word in ('{"DocumentIncarnation":0,"Events":[]}', '"EventStatus":"Scheduled"', "web-1", "started"):
        assert word in printed, word


def test_the_readme_begins_with_what_a_stranger_can_do() -> None:
    """What it is for, a picture, the two commands of a clone, ten lines to paste; before the first heading."""
    first = README.partition("\n## ")[0]
    picture, commands, lines = (first.index(word) for word in ("](docs/images/fleet.png)", "`make run`", "```sh"))
    assert picture < commands < lines and "`make test`" in first
    assert [len(block.splitlines()) for block in blocks(first, "sh")] == [10]


@pytest.mark.machine
def test_the_ten_lines_of_the_readme_can_be_pasted_beside_make_run(tmp_path: Path) -> None:
    """In the folder of a clone: the VM is told, approves, and is hit."""
    (lines,) = blocks(README, "sh")
    (demo,) = re.findall(r"^run: install .*\n\t(.*) \$\(ARGS\)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    (tmp_path / ".venv").symlink_to(sys.prefix)
    start = f"{demo.replace('$(BIN)', '.venv/bin')} >demo.log 2>&1 &\n"
    ready = "curl -s --retry 20 --retry-connrefused --retry-delay 1 http://127.0.0.1:16926/readyz\n"
    printed = typed(f"{start}{ready}{lines}kill $!", tmp_path)
    said = ['"Events":[]', '"EventStatus":"Scheduled"', '"EventStatus":"Started"', "event-approved"]
    assert [word for word in said if word not in printed] == []
    assert printed.index(said[0]) < printed.index(said[1]) < printed.index(said[2])


def test_the_test_in_the_readme_passes(pytester: pytest.Pytester) -> None:
    """With an agent of anybody's."""
    (test,) = blocks(README, "python")
    pytester.makepyfile(client=CLIENT, my_agent=MY_AGENT, test_it=f"import my_agent\n\n{test}")
    pytester.runpytest_subprocess(*PLUGIN, "-W", "error").assert_outcomes(passed=1)
