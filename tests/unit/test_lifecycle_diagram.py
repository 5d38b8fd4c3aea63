"""ARCHITECTURE.md shows the lifecycle as the table has it."""

import subprocess
import sys
from pathlib import Path


def test_the_diagram_of_an_events_life_is_drawn_from_its_table() -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "tools/lifecycle.py", "--check"], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
