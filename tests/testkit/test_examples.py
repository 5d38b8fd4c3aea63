"""Every program in the documents and under examples/ goes through `duenotice run`, as a person would start it."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.acceptance.test_H_examples import bash, c_sharp, go, node_js, python

pytestmark = pytest.mark.machine

ROOT = Path(__file__).parents[2]
TEMPO = ("--patience", "12s", "--notice", "6s")
HOOK = """#!/bin/sh
case $1 in
prepare) echo "$2" >>{done} ;;
others-ready) grep -q "$2" {ready} ;;
esac
"""
PREPARE = """#!/bin/sh
# The agent asks nobody else with the policy "own", so this waits until the other VMs are ready.
case $DUENOTICE_EVENT_RESOURCES in *,*) until grep -q "$DUENOTICE_EVENT_ID" {ready}; do sleep 0.1; done ;; esac
echo "$DUENOTICE_EVENT_ID" >>{done}
"""


class Files:
    """Where a program and `duenotice run` tell each other which VMs are ready, and which work is done."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.ready, self.done = folder, folder / "ready", folder / "done"
        self.ready.touch()

    @property
    def options(self) -> tuple[str, ...]:
        return "--peers-ready", str(self.ready), "--work-done", str(self.done)

    def script(self, name: str, text: str) -> str:
        """Write a program; its path."""
        file = self.folder / name
        file.write_text(text.format(ready=self.ready, done=self.done))
        file.chmod(0o755)
        return str(file)


def blocks(page: str, language: str) -> list[str]:
    """The examples of a page in one language."""
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def client_page(files: Files) -> list[str]:
    """The programs of docs/client.md; there is one."""
    (text,) = blocks("docs/client.md", "python")
    program = files.folder / "session.py"
    program.write_text(text)
    return [sys.executable, str(program)]


def agent_page(files: Files) -> list[str]:
    return _agent(files, "docs/agent.md")


def read_me(files: Files) -> list[str]:
    return _agent(files, "README.md")


def _agent(files: Files, page: str) -> list[str]:
    """The agent with the first configuration of a page; only the paths of the hooks are ours."""
    (text,) = re.findall(r"(?:cat \S*|\n# )agent\.toml\n(.*?)\n(?:\n|[$#] |```)", (ROOT / page).read_text(), re.DOTALL)
    hooks = {
        "/etc/duenotice/drain": files.script("drain", PREPARE),
        "/etc/duenotice/undrain": files.script("undrain", "#!/bin/sh\n"),
    }
    for named, ours in hooks.items():
        assert f'"{named}"' in text
        text = text.replace(f'"{named}"', f'"{ours}"')
    config = files.folder / "agent.toml"
    config.write_text(text)
    state = files.folder / "state"
    return [sys.executable, "-m", "duenotice", "agent", "run", "--config", str(config), "--state-dir", str(state)]


def _with_hook(build: Callable[[Path], list[str]]) -> Callable[[Files], list[str]]:
    def command(files: Files) -> list[str]:
        state = f"DUENOTICE_STATE_DIR={files.folder / 'state'}"
        return ["env", state, *build(files.folder), files.script("hook", HOOK)]

    return command


WITHOUT_HOOKS = {"docs/client.md": client_page}
"""They only print where work would be done, so nobody can tell whether it was."""
WITH_HOOKS = {"docs/agent.md": agent_page, "README.md": read_me} | {
    build.__name__: _with_hook(build) for build in (bash, python, node_js, go, c_sharp)
}
Judged = dict[str, "Future[dict[str, str]]"]


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    """All at once: they hardly do anything but wait."""
    started = {}
    pool = ThreadPoolExecutor(len(WITH_HOOKS) + len(WITHOUT_HOOKS))
    for name, build in (WITH_HOOKS | WITHOUT_HOOKS).items():
        files = Files(tmp_path_factory.mktemp("example"))
        options = files.options if name in WITH_HOOKS else ()
        started[name] = pool.submit(_outcomes, [*TEMPO, *options, "-o", "json", "--", *build(files)])
    pool.shutdown(wait=False)
    return started


def _outcomes(arguments: list[str]) -> dict[str, str]:
    """What each rule found; what it says of a rule that failed."""
    command = [sys.executable, "-m", "duenotice", "run", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    rules = json.loads(done.stdout)["rules"]
    return {rule["id"]: " ".join([rule["outcome"], *rule["said"]]) for rule in rules}


@pytest.mark.parametrize("name", [*WITHOUT_HOOKS, *WITH_HOOKS])
def test_every_example_passes_every_rule(judged: Judged, name: str) -> None:
    """Whoever copies it has a client that does nothing wrong."""
    found = judged[name].result()
    untried = {"peers", "work"} if name in WITHOUT_HOOKS else set()
    assert found == {rule: "not tried" if rule in untried else "passed" for rule in found}
