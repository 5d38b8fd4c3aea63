"""The command line, as a real process: what it prints, how it ends, never a traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from duenotice import __version__
from duenotice.cli.main import COMMANDS, duenotice
from duenotice.settings import rows


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end; the environment has no settings of ours but these."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("DUENOTICE_")}
    return subprocess.run(
        [sys.executable, "-m", "duenotice", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env=clean | environment,
        check=False,
    )


def lines_of_error(done: subprocess.CompletedProcess[str]) -> list[str]:
    assert "Traceback" not in done.stderr
    return done.stderr.splitlines()


def test_it_knows_its_version() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout) == (0, f"duenotice, version {__version__}\n")


def test_its_help_names_what_it_can_do() -> None:
    done = run("--help")
    assert done.returncode == 0
    assert "You are told before you are hit" in done.stdout
    assert "serve" in done.stdout


def test_the_help_of_serve_has_a_flag_for_every_setting() -> None:
    text = CliRunner().invoke(duenotice, ["serve", "--help"]).output
    for row in rows():
        assert "--" + row.name.replace("_", "-") in text


@pytest.mark.parametrize("arguments", ["serve --flet x", "serve --throttle", "sevre", "serve extra"])
def test_a_wrong_flag_or_command_ends_with_2_and_says_so(arguments: str) -> None:
    result = CliRunner().invoke(duenotice, arguments.split())
    assert result.exit_code == 2
    assert "Error: " in result.output


def test_a_wrong_flag_of_the_real_process_too() -> None:
    done = run("serve", "--flet", "x")
    assert done.returncode == 2
    assert "No such option" in "\n".join(lines_of_error(done))


def test_a_broken_fleet_file_is_one_line_of_what_and_one_of_what_to_do(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.toml"
    fleet.write_text('[[vms]]\nname = "a"\nadress = "10.0.0.1"\naddress = "10.0.0.1"\n')
    done = run("serve", "--fleet", str(fleet), "--data-dir", str(tmp_path / "data"))
    assert done.returncode == 2
    assert lines_of_error(done) == [
        f"error: {fleet}, line 3: vms[1] \"a\" has an unknown key 'adress'.",
        " hint: Did you mean 'address'?",
    ]
    assert not (tmp_path / "data").exists()  # nothing was begun


def test_a_wrong_setting_names_key_value_and_origin(tmp_path: Path) -> None:
    done = run("serve", "--data-dir", ":memory:", DUENOTICE_THROTTLE="fast")
    assert done.returncode == 2
    what, hint = lines_of_error(done)
    assert what.startswith("error: throttle = 'fast' (from environment) is not valid")
    assert hint.startswith(" hint: ")


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("--fleet", "/nowhere/fleet.toml"), "Cannot read the fleet file /nowhere/fleet.toml"),
        (("--clock", "sundial"), "clock = 'sundial' is not a clock"),
        (("--metadata-listen", "here"), "metadata_listen = 'here' is not HOST:PORT"),
    ],
)
def test_other_wrong_settings_are_told_alike(arguments: tuple[str, ...], what: str) -> None:
    done = run("serve", "--data-dir", ":memory:", *arguments)
    said = lines_of_error(done)
    assert done.returncode == 2
    assert said[0].startswith(f"error: {what}")
    assert said[1].startswith(" hint: ")


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_of_the_table_is_there_and_has_help(name: str) -> None:
    result = CliRunner().invoke(duenotice, [name, "--help"])
    assert result.exit_code == 0, result.output


def test_shells_can_complete() -> None:
    done = run(_DUENOTICE_COMPLETE="bash_complete", COMP_WORDS="duenotice vm re", COMP_CWORD="2")
    script = run("completion", "bash").stdout
    assert "_DUENOTICE_COMPLETE=bash_complete" in script
    assert done.stdout.split() == ["plain,redeploy", "plain,restart"]
