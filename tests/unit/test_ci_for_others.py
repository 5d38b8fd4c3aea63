"""The GitHub action and the GitLab template: well formed, and no input becomes part of a script."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from click import Option

from duenotice.cli.testing import run

ROOT = Path(__file__).parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
GITLAB: dict[str, Any] = yaml.safe_load((ROOT / "examples/ci/duenotice.gitlab-ci.yml").read_text())
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
JOB = GITLAB[".duenotice"]
SCRIPTS = [step["run"] for step in STEPS] + ["\n".join(JOB["before_script"] + JOB["script"])]


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_shell_can_read_each_script(script: str) -> None:
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0


@pytest.mark.parametrize("script", SCRIPTS)
def test_no_input_is_text_of_a_script(script: str) -> None:
    """It would be a way to run commands in somebody else's repository."""
    assert "${{" not in script


@pytest.mark.parametrize(("package", "installed"), [("", "/copy/of/duenotice[test]"), ("other.whl", "other.whl")])
def test_the_action_installs_the_copy_that_it_is_part_of(tmp_path: Path, package: str, installed: str) -> None:
    """Unless another package is named: no registry has one before the first release."""
    (tmp_path / "python3").symlink_to("/bin/true")
    pip = tmp_path / "duenotice" / "bin" / "pip"
    pip.parent.mkdir(parents=True)
    pip.write_text(f'#!/bin/sh\necho "$@" >{tmp_path}/args\n')
    pip.chmod(0o755)
    places = {"RUNNER_TEMP": str(tmp_path), "GITHUB_ACTION_PATH": "/copy/of/duenotice"}
    script = STEPS[0]["run"].replace("sudo", "true")
    subprocess.run(
        ["bash", "-ec", script], env={"PATH": f"{tmp_path}:/usr/bin:/bin", "PACKAGE": package} | places, check=True
    )
    assert (tmp_path / "args").read_text().split()[-1] == installed


def test_every_input_is_used_and_every_used_input_is_declared() -> None:
    used = set(re.findall(r"inputs\.(\w+)", yaml.safe_dump(STEPS)))
    assert used == set(ACTION["inputs"])


def test_each_step_of_a_composite_action_names_its_shell() -> None:
    assert ACTION["runs"]["using"] == "composite"
    assert all(step["shell"] == "bash" for step in STEPS)


def test_the_command_knows_the_options_that_are_used() -> None:
    known = {flag for option in run.params if isinstance(option, Option) for flag in option.opts}
    (line,) = re.findall(r"duenotice\" run (.*) -- ", STEPS[1]["run"], re.DOTALL)
    (other,) = re.findall(r"duenotice run (.*) -- ", JOB["script"][1])
    assert set(re.findall(r"(?<!\S)--?[a-z-]+", f"{line} {other} --scenario")) <= known


def test_the_summary_of_the_job_is_the_table_that_run_wrote(tmp_path: Path) -> None:
    """Nothing of an earlier run of the action, and nothing when the program could not be run at all."""
    program, summary = tmp_path / "duenotice" / "bin" / "duenotice", tmp_path / "summary"
    program.parent.mkdir(parents=True)
    program.write_text(
        '#!/bin/sh\n[ "$TABLE" ] || exit 2\nfor it; do case $it in *.md) echo "$TABLE" >"$it" ;; esac; done\n'
    )
    program.chmod(0o755)
    for table in ("| first |", "", "| last |"):
        environment = {
            "PATH": "/usr/bin:/bin",
            "RUNNER_TEMP": str(tmp_path),
            "GITHUB_STEP_SUMMARY": str(summary),
            "GITHUB_OUTPUT": "/dev/null",
            "REPORT": "junit.xml",
            "OPTIONS": "",
            "SCENARIO": "",
            "PROGRAM": "true",
            "TABLE": table,
        }
        for step in STEPS[1:]:
            subprocess.run(["bash", "-c", step["run"]], env=environment, check=False, cwd=tmp_path)
    assert summary.read_text() == "| first |\n| last |\n"


def test_the_report_is_junit_and_is_kept_when_the_program_failed() -> None:
    artifacts = JOB["artifacts"]
    assert (artifacts["when"], artifacts["reports"]["junit"]) == ("always", "duenotice-verdict.xml")
