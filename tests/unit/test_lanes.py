"""The runner of `make test`: all tests run once, and whatever becomes of a process, somebody is told."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
GOOD = """
import os, pytest
from pathlib import Path

@pytest.fixture(scope="session")
def shared():
    yield
    Path(__file__).with_name("over").touch()

@pytest.mark.parametrize("number", range(3))
def test_good(number, shared, tmp_path): pass

def test_bad(shared):
    print("what it said")
    assert not shared is None
"""
DYING = """
import os, pytest
from pathlib import Path

def test_before(): pass
def test_dying(): os._exit(3)
def test_after(): pass

@pytest.mark.skip("not today")
def test_skipped(): pass

@pytest.mark.serial
def test_measuring(): assert Path(__file__).with_name("over").exists()
"""


def test_each_test_runs_once_and_a_process_that_dies_is_told(tmp_path: Path) -> None:
    """Others do what it had left; what is for a session is cleaned up; tests that measure come after all others."""
    (tmp_path / "test_good.py").write_text(GOOD)
    (tmp_path / "test_dying.py").write_text(DYING)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = serial: measures\n")
    whole = [sys.executable, "-m", "pytest", "-q", "-ra", "-p", "tests.support.lanes", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*whole, "--rootdir", tmp_path, tmp_path], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 1
    assert "2 failed, 6 passed, 1 skipped" in done.stdout, done.stdout + done.stderr
    assert "what it said" in done.stdout
    assert "the process of this test, or of the one after it, ended with 3" in done.stdout
