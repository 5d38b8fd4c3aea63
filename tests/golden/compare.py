"""Compares a text with the golden file that has its name; on a difference it shows a diff and says how to renew it."""

import difflib
import os
from pathlib import Path

FILES = Path(__file__).with_name("files")
RENEW = "GOLDEN"
"""`GOLDEN=write` writes the files instead; `python -m tests.golden` sets it."""
MOST_LINES = 200


def assert_golden(name: str, text: str) -> None:
    """Fail with a diff unless the file says the same, byte for byte."""
    if is_writing():
        FILES.mkdir(exist_ok=True)
        (FILES / name).write_bytes(_ended(text).encode())
    assert_same_as_golden(name, text)


def assert_same_as_golden(name: str, text: str) -> None:
    """The same for what was read from the file itself: it is never written."""
    before, after = golden(name), _ended(text)
    if before != after:
        raise AssertionError(_told(name, before, after))


def golden(name: str) -> str:
    """What the file says; nothing when there is none."""
    path = FILES / name
    return path.read_bytes().decode() if path.exists() else ""


def is_writing() -> bool:
    """Whether files are to be renewed; never in CI."""
    wanted = os.environ.get(RENEW) == "write"
    if wanted and os.environ.get("CI"):
        raise AssertionError(
            "Golden files are not renewed in CI. Run `python -m tests.golden`, look at the diff, commit it."
        )
    return wanted


def _ended(text: str) -> str:
    return text if text.endswith("\n") else f"{text}\n"


def _told(name: str, before: str, after: str) -> str:
    # Not splitlines: some of what is stored has other line ends in it.
    diff = list(difflib.unified_diff(before.split("\n"), after.split("\n"), "golden", "now", n=2, lineterm=""))
    shown = [line[:500] for line in diff[:MOST_LINES]]
    more = [f"… and {len(diff) - MOST_LINES} lines more"] if len(diff) > MOST_LINES else []
    head = (
        f"tests/golden/files/{name} is not what the code gives now. Users or disks would see this change.\n"
        "If it is wanted: run `.venv/bin/python -m tests.golden`, read `git diff tests/golden`, commit it."
    )
    return "\n".join([head, *shown, *more])
