"""A large body on a disk: all of it, or a refusal."""

import asyncio
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from duenotice.bounds import CallBounds
from duenotice.errors import Unavailable
from duenotice.operator_api.large_body import BLOCK, LargeBody

BODY = b"x" * (BLOCK + 100_000)


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """The kernel takes a part of what would make a file larger, as a disk does that is nearly full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def filled() -> bytes:
    async def receive() -> Any:
        return {"type": "http.request", "body": BODY, "more_body": False}

    body = LargeBody()
    try:
        await body.fill(receive, str(len(BODY)), CallBounds(body=2 * len(BODY)))
        return b"".join(body.blocks())
    finally:
        body.close()


def test_all_of_it_is_there() -> None:
    assert asyncio.run(filled()) == BODY


@pytest.mark.parametrize("size", [1000, len(BODY) - 1000])
def test_a_disk_that_takes_only_a_part_is_told(size: int) -> None:
    """A fleet file that was cut short could still be one: of fewer VMs (S5)."""
    with files_of_at_most(size), pytest.raises(Unavailable, match="no room"):
        asyncio.run(filled())
