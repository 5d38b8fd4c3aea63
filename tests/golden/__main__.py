"""`python -m tests.golden` writes the golden files anew, from what the code gives now. Read the diff."""

import os
import sys
from pathlib import Path

import pytest

from tests.golden.compare import FILES, RENEW

if __name__ == "__main__":
    os.environ[RENEW] = "write"
    failed = pytest.main(["-q", str(Path(__file__).parent), *sys.argv[1:]])
    sys.stdout.write(f"Now read `git diff {FILES}`.\n")
    sys.exit(failed)
