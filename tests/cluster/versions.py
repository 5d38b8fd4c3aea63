"""How a node is started: as the duenotice that is installed, as the next version of it, or with a wrong clock."""

import re
import shutil
import sys
from pathlib import Path

import duenotice
from tests.crash.server import PROGRAM

ROOT = Path(__file__).parents[2]
NEXT = "99.0.0"
INSTALLED = (str(PROGRAM),)


def next_version(folder: Path, *, newer_records: bool = False) -> tuple[str, ...]:
    """A copy of the sources as the next version of duenotice, which may also write records in a newer format (N16).

    Compiled files are copied too: only what differs is compiled again. Not those that another process writes just now.
    """
    copy = folder / ("newer" if newer_records else "next") / "duenotice"
    shutil.copytree(Path(duenotice.__file__).parent, copy, ignore=shutil.ignore_patterns("*.pyc.*"))
    _change(copy / "__init__.py", r'__version__ = ".*"', f'__version__ = "{NEXT}"')
    if newer_records:
        _change(copy / "store" / "codec.py", r"^RECORDS = Codec\(Record, 13,", "RECORDS = Codec(Record, 14,")
    return ("env", f"PYTHONPATH={copy.parent}", sys.executable, "-m", "duenotice")


def wrong_clock(off: int | Path) -> tuple[str, ...]:
    """The installed one, with a time of day that is wrong by so many seconds, or by those in a file."""
    return ("env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "tests.cluster.wrong_clock", str(off))


def _change(file: Path, old: str, new: str) -> None:
    text, times = re.subn(old, new, file.read_text(), flags=re.MULTILINE)
    assert times == 1, f"{file} has changed: the next version cannot be made of it"
    file.write_text(text)
