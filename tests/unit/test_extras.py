"""Extras follow the rooms: what a small installation lacks is named in one line."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from building.debian import closure
from duenotice.errors import BROUGHT_BY, missing_extra

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
MODULES = packages_distributions()
WITHOUT = """
import sys
sys.modules.update(dict.fromkeys({names!r}, None))
import {imports}
"""
WITHOUT_EXTRAS = """
import sys
sys.modules.update(dict.fromkeys({names!r}, None))
from duenotice.cli import main
main({arguments!r})
"""


def small(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command where only `pip install duenotice` was done."""
    code = WITHOUT_EXTRAS.format(names=list(BROUGHT_BY), arguments=arguments)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)


def libraries(extra: str) -> set[str]:
    """What it brings by itself."""
    return {re.split(r"[\[<>=]", name)[0] for name in EXTRAS[extra]} - {"duenotice"}


def module_of(library: str) -> str:
    """What is imported; only libvirt's package has another name."""
    return library.removesuffix("-python")


def test_the_table_of_libraries_is_the_one_of_the_package() -> None:
    named = ("cli", "server", "test", "azure", "postgres", "libvirt")
    expected = {module_of(library): extra for extra in named for library in libraries(extra)}
    assert expected == BROUGHT_BY


def test_an_installation_without_extras_has_two_libraries() -> None:
    assert PROJECT["dependencies"] == ["click", "msgspec"]


@pytest.mark.parametrize("command", ["serve", "demo", "run -- true", "check", "scenario play --all --clock manual"])
def test_a_command_of_the_service_names_its_extra_in_one_line(command: str) -> None:
    done = small(*command.split())
    assert done.returncode == 2
    what, hint = done.stderr.splitlines()
    assert re.fullmatch(r"error: This needs the package \w+, which is not installed\.", what)
    assert hint == " hint: pip install 'duenotice[server]'"


@pytest.mark.parametrize(
    "command",
    ["--help", "agent --help", "vm list --help", "completion bash", "run --help", "--version", "agent --version"],
)
def test_the_agent_and_the_operators_command_need_no_extra(command: str) -> None:
    done = small(*command.split())
    assert (done.returncode, done.stderr) == (0, "")


def test_the_service_and_the_fixture_need_only_what_the_extra_server_brings() -> None:
    """What developers have beside it is hidden: an import that only they can do would break every installation."""
    brought = closure(["duenotice[server]"]) | {"duenotice"}
    normal = {module: {re.sub(r"[-_.]+", "-", name).lower() for name in names} for module, names in MODULES.items()}
    hidden = sorted(module for module, names in normal.items() if names.isdisjoint(brought))
    assert "ruff" in hidden
    code = WITHOUT.format(names=hidden, imports="duenotice.bootstrap.node, duenotice.testkit.emulator")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_module_that_no_extra_brings_is_an_error_of_ours() -> None:
    assert missing_extra(ModuleNotFoundError("No module named 'x'", name="x")) is None


def test_without_rich_the_agents_tables_are_plain_lines(tmp_path: Path) -> None:
    """On a terminal they would be drawn; a VM has no need of that."""
    config = tmp_path / "agent.toml"
    config.write_text('[[rules]]\ntypes = ["Reboot"]\nhandlers = []\n')
    done = small("agent", "check", "--config", str(config), "--state-dir", str(tmp_path / "none"))
    assert done.returncode == 0
    assert done.stdout.splitlines()[2] == "Reboot     1     always     wait for it"
