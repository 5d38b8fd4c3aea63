"""What files need to survive power loss, beyond what Python does by itself."""

import os
from contextlib import suppress
from pathlib import Path


def make_directory(directory: Path) -> None:
    """A directory for us alone, with its parents. What is made survives power loss: else all in it would go with it."""
    if not directory.is_dir():
        made = [directory, *(each for each in directory.parents if not each.exists())]
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for each in made:
            with suppress(PermissionError):  # somebody else's, which we may write to and not read
                sync_directory(each.parent)


def sync_directory(directory: Path) -> None:
    """Make the names in a directory survive power loss (S5)."""
    file = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
