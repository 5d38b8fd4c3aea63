"""What a durable write costs at the least: a block into a file that does not grow, and fdatasync."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

BLOCK = bytes(4096)


class BareFile:
    """A file that is already as long as it will be, so that only data has to reach the disk."""

    def __init__(self, file: int, blocks: int) -> None:
        self._file, self._end = file, blocks * len(BLOCK)
        self._offset = 0

    def write(self, writes: int) -> list[float]:
        """Write a block and sync it, again and again; milliseconds each."""
        taken: list[float] = []
        for _ in range(writes):
            began = perf_counter()
            os.pwrite(self._file, BLOCK, self._offset)
            os.fdatasync(self._file)
            taken.append((perf_counter() - began) * 1e3)
            self._offset = (self._offset + len(BLOCK)) % self._end
        return taken


@contextmanager
def bare_file(path: Path, blocks: int) -> Iterator[BareFile]:
    """For so many writes; after that, it begins again."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        for _ in range(blocks):
            os.write(file, BLOCK)
        os.fsync(file)
        yield BareFile(file, blocks)
    finally:
        os.close(file)
