"""What make says to somebody who has just cloned this, and whose machine lacks something."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OLD = "#!/bin/sh\nexit 1\n"
CUT_OFF = """#!/bin/sh
[ "$1" = -m ] || exit 0
mkdir -p .venv/bin
printf '#!/bin/sh\\necho "WARNING: Retrying" >&2; echo "ERROR: No matching distribution" >&2; exit 1\\n' >.venv/bin/pip
chmod +x .venv/bin/pip
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """As much of a clone as make looks at."""
    for name in ("Makefile", "pyproject.toml", *(file.name for file in ROOT.glob("requirements*.lock"))):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def make(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run make there."""
    return subprocess.run(
        ["make", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PATH": "/usr/bin:/bin"},
    )


def fake_python(folder: Path, text: str) -> str:
    file = folder / "python"
    file.write_text(text)
    file.chmod(0o755)
    return f"PYTHON={file}"


@pytest.mark.parametrize("target", ["run", "test"])
def test_a_python_that_is_too_old_is_told_in_one_line(clone: Path, target: str) -> None:
    """With what to do; make itself adds that it stopped."""
    done = make(clone, target, fake_python(clone, OLD))
    ours = [line for line in done.stderr.splitlines() if not line.startswith("make")]
    assert ours == [
        f"{clone}/python is not Python 3.11 or newer, which duenotice needs. Name another: make PYTHON=python3.12 …"
    ]
    assert not (clone / ".venv").exists()


def test_packages_that_cannot_be_had_are_told_in_one_line(clone: Path) -> None:
    """Pip's own words are kept where they can be read."""
    done = make(clone, "run", fake_python(clone, CUT_OFF))
    ours = [line for line in done.stderr.splitlines() if not line.startswith("make")]
    assert done.returncode != 0
    assert ours == [
        "pip cannot get the packages. Is there a network, or a mirror in pip's settings? Details: .venv/pip.log"
    ]
    assert "No matching distribution" in (clone / ".venv" / "pip.log").read_text()


def test_the_demo_can_be_given_flags(clone: Path) -> None:
    """`make run ARGS=…`."""
    done = make(clone, "-n", "run", "ARGS=--clock 1x --no-watch")
    assert done.stdout.splitlines()[-1].endswith("duenotice demo --data-dir .run/demo --clock 1x --no-watch")


@pytest.mark.parametrize(
    ("target", "locks"),
    [
        ("install", {"requirements.lock"}),
        ("run", {"requirements.lock"}),
        ("lint", {"requirements.lock", "requirements-dev.lock"}),
        ("test", {"requirements.lock", "requirements-dev.lock"}),
        ("bench", {"requirements.lock", "requirements-dev.lock"}),
        ("bench-quick", {"requirements.lock", "requirements-dev.lock"}),
    ],
)
def test_only_work_on_it_installs_the_tools_for_that(clone: Path, target: str, locks: set[str]) -> None:
    """Who only wants to see it run does not wait for mypy and a browser."""
    assert set(re.findall(r"requirements[a-z-]*\.lock", make(clone, "-n", target).stdout)) == locks


def test_help_says_what_installs_debian_packages(clone: Path) -> None:
    """Nobody likes to find that out afterwards."""
    lines = make(clone, "help").stdout.splitlines()
    told = {line.split()[1] for line in lines if "installs Debian packages" in line}
    recipes = re.split(r"\n(?=[a-z-]+:)", (clone / "Makefile").read_text())
    assert told == {
        recipe.partition(":")[0]
        for recipe in recipes
        if re.search(r"\n\t(tools/debian-programs|.*( waiting-tests\n| --keep-going ))", recipe)
    }


def test_lock_makes_all_with_hashes_and_without_an_address(clone: Path) -> None:
    """Those for running and for the image take their versions from the one for developers."""
    compiled = [line for line in make(clone, "-n", "lock").stdout.splitlines() if "compile" in line]
    assert [line.split(" -o ")[1] for line in compiled] == [
        "tools/uv.lock",
        "requirements-dev.lock",
        "requirements.lock",
        "requirements-image.lock",
    ]
    assert all("--generate-hashes" in line and "--no-emit-index-url" in line for line in compiled)
    assert all("-c requirements-dev.lock" in line for line in compiled[2:])


def test_only_the_whole_benchmark_may_write_its_document(clone: Path) -> None:
    """A quick run keeps nothing."""
    last = {target: make(clone, "-n", target).stdout.splitlines()[-1] for target in ("bench", "bench-quick")}
    assert last == {
        "bench": ".venv/bin/python -m benchmarks --write",
        "bench-quick": ".venv/bin/python -m benchmarks --quick",
    }


def test_the_tests_of_a_file_share_a_process(clone: Path) -> None:
    """What a file's fixtures start would else be started in each process, and its tests would meet each other there."""
    (command,) = re.findall(r"pytest (.*) --ignore", make(clone, "-n", "parallel-tests").stdout)
    for name in "abcdef":
        tests = "".join(f"def test_{n}(): print('{name} in', os.getpid())\n" for n in range(9))
        (clone / f"test_{name}.py").write_text(f"import os\n{tests}")
    words = [sys.executable, "-m", "pytest", *shlex.split(command), "-rP", "-p", "no:cacheprovider", str(clone)]
    done = subprocess.run(words, cwd=clone, capture_output=True, text=True, timeout=120, check=False)
    ran = re.findall(r"^(\w) in (\d+)$", done.stdout, re.MULTILINE)
    assert len(ran) == 6 * 9, done.stdout + done.stderr
    assert len(set(ran)) == 6, "the tests of a file ran in several processes"
    assert len({process for _, process in ran}) > 1
