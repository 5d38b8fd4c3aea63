"""Programs of the machine that some tests drive; must not install anything itself (`make test` does)."""

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

ADMIN_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")  # left out of PATH for ordinary users
UNPACKED = Path(__file__).parents[1] / ".run" / "programs"


def require_program(name: str, package: str) -> str:
    """The path of a program (itself a name or a path), or skip naming the Debian package that has it."""
    folders = os.pathsep.join([os.environ.get("PATH", os.defpath), *ADMIN_FOLDERS])
    found = shutil.which(name, path=folders)
    return found or skip_unless_ci(f"needs the program {name} (Debian package {package})")


def skip_unless_ci(reason: str) -> NoReturn:
    """Skip on somebody's machine, fail on CI: there a skip would hide a missing install step."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def require_unpacked(path: str) -> Path:
    """A file or folder of the programs that `tools/real-programs` unpacks, or skip."""
    found = UNPACKED / path
    return found if found.exists() else skip_unless_ci(f"needs {path}: run tools/real-programs")
