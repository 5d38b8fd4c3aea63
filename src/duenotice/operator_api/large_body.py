"""A body that is too large for memory: it goes into a file without a name while it arrives (S24).

What is not a fleet takes a part of a disk for a moment, and no memory. It is written and read in a thread, because a
disk may be slow, and VMs must not wait for it (S26).
"""

import asyncio
import hashlib
import os
import tempfile
from collections.abc import Iterator
from typing import IO

from duenotice.bounds import CallBounds, Receive, pieces_of
from duenotice.errors import Unavailable

BLOCK = 256 * 1024
"""Bytes that are in memory at a time."""


class LargeBody:
    """One such body; `close` gives back its room."""

    def __init__(self) -> None:
        self._file, self._hash = _without_a_name(), hashlib.sha256()

    async def fill(self, receive: Receive, announced: str, bounds: CallBounds) -> None:
        """Take all of it, up to what the row of its call says."""
        block = bytearray()
        async for piece in pieces_of(receive, announced, bounds):
            block += piece
            if len(block) >= BLOCK:
                await asyncio.to_thread(self._write, block)
                block = bytearray()
        await asyncio.to_thread(self._write, block)

    @property
    def digest(self) -> bytes:
        """Tells this body from others."""
        return self._hash.digest()

    def blocks(self) -> Iterator[bytes]:
        """All of it, a block at a time."""
        self._file.seek(0)
        while block := self._file.read(BLOCK):
            yield block

    def close(self) -> None:
        self._file.close()

    def _write(self, block: bytearray) -> None:
        try:
            rest = memoryview(block)
            while rest:  # a disk that is nearly full takes a part, and says so only at the next one (S5)
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            hint = f"Make room in {tempfile.gettempdir()}, or set TMPDIR for the service."
            raise Unavailable(f"There is no room for the body: {error.strerror}.", hint=hint) from None
        self._hash.update(block)


def _without_a_name() -> IO[bytes]:
    try:
        return tempfile.TemporaryFile(buffering=0)
    except OSError:  # no directory may be written to: then it is in memory, though not in that of this process
        return os.fdopen(os.memfd_create("duenotice-body"), "w+b", buffering=0)
