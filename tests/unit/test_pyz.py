"""The agent in one file: all that it needs is in it, and nothing else."""

import platform
import subprocess
import sys
import zipfile
from pathlib import Path

import click
import msgspec
import pytest

from building import pyz

TAG = f"cp{sys.version_info.major}{sys.version_info.minor}"


def as_wheel(library: Path, folder: Path) -> Path:
    """A library that is installed here, as a wheel."""
    wheel = folder / f"{library.name}-0-{TAG}-{TAG}-manylinux_{platform.machine()}.whl"
    with zipfile.ZipFile(wheel, "w") as opened:
        for path in library.rglob("*.*"):
            if "__pycache__" not in path.parts:
                opened.write(path, path.relative_to(library.parent))
    return wheel


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file, made from what is installed here."""
    folder = tmp_path_factory.mktemp("pyz")
    wheels = [as_wheel(Path(library.__file__ or "").parent, folder) for library in (click, msgspec)]
    pyz.write(folder / "agent.pyz", pyz.contents(wheels))
    return folder / "agent.pyz"


def run(*command: object) -> subprocess.CompletedProcess[str]:
    """Without any library of this environment."""
    line = [sys.executable, "-I", "-S", *map(str, command)]
    return subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)


def test_it_runs_with_a_python_that_has_no_library(agent: Path, tmp_path: Path) -> None:
    config = tmp_path / "agent.toml"
    config.write_text('[[rules]]\ntypes = ["Reboot"]\nhandlers = []\n')
    done = run(agent, "check", "--config", config)
    assert (done.returncode, done.stderr) == (0, f"{config} is good.\n")
    assert "Reboot" in done.stdout


def test_an_error_is_two_lines_as_everywhere(agent: Path) -> None:
    done = run(agent, "check", "--config", "/nowhere")
    assert done.returncode == 2
    assert done.stderr.splitlines()[0] == "error: Cannot read /nowhere: No such file or directory."


def test_it_has_the_agent_and_nothing_of_the_server(agent: Path) -> None:
    with zipfile.ZipFile(agent) as opened:
        rooms = {
            name.split("/")[2] for name in opened.namelist() if name.startswith("py/duenotice/") and name.count("/") > 2
        }
    assert rooms == {"agent", "cli", "client", "http", "wire"}


def test_the_same_sources_give_the_same_bytes(agent: Path, tmp_path: Path) -> None:
    wheels = sorted(agent.parent.glob("*.whl"))
    pyz.write(tmp_path / "again.pyz", pyz.contents(wheels))
    assert (tmp_path / "again.pyz").read_bytes() == agent.read_bytes()


def test_a_python_for_which_it_has_nothing_is_told_so(agent: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(agent) as opened:
        files = {name: opened.read(name) for name in opened.namelist() if not name.startswith("native/")}
    pyz.write(tmp_path / "other.pyz", files)
    done = run(tmp_path / "other.pyz", "check", "--config", "/nowhere")
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        f"error: This file has nothing for {TAG} on {platform.machine()}.",
        " hint: Install the package instead: pip install duenotice",
    ]


def test_it_starts_too_with_a_python_for_which_nothing_is_compiled(agent: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(agent) as opened:
        files = {name: opened.read(name) for name in opened.namelist() if not name.startswith("cp")}
    pyz.write(tmp_path / "plain.pyz", files)
    assert run(tmp_path / "plain.pyz", "--help").returncode == 0
