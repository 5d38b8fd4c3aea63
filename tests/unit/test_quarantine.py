"""A test that is quarantined exists, and the table says why it is there."""

import subprocess
import sys
import tomllib
from pathlib import Path

from tests.conftest import QUARANTINE, ROOT


def test_each_quarantined_test_exists_and_has_a_reason() -> None:
    """An entry that names nothing would hide that the test was renamed, and fails again."""
    for name, why in tomllib.loads(QUARANTINE.read_text())["tests"].items():
        file, _, test = name.partition("::")
        assert f"def {test}(" in (ROOT / file).read_text(), name
        assert len(why) > len("2026-11-18: "), name


def test_a_quarantined_test_runs_and_fails_nothing(tmp_path: Path) -> None:
    """The summary names it; the test beside it fails as ever."""
    (tmp_path / "conftest.py").write_text(
        "import tests.conftest as ours\n"
        "from pathlib import Path\n"
        "ours.ROOT = Path(__file__).parent\n"
        "ours.QUARANTINE = ours.ROOT / 'quarantine.toml'\n"
        "pytest_collection_modifyitems = ours.pytest_collection_modifyitems\n"
    )
    (tmp_path / "quarantine.toml").write_text('[tests]\n"test_x.py::test_flaky" = "now and then"\n')
    (tmp_path / "test_x.py").write_text("def test_flaky(): assert 0\ndef test_broken(): assert 0\n")
    whole = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rx",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
        str(tmp_path),
    ]
    done = subprocess.run(whole, cwd=ROOT.parent, capture_output=True, text=True, timeout=120, check=False)
    assert "1 failed, 1 xfailed" in done.stdout, done.stdout + done.stderr
    assert "quarantined: now and then" in done.stdout
