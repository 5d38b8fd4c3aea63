"""One world for all tests of a module that do not need their own."""

from collections.abc import Iterator

import pytest

from tests.protocol.world import World, running


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with running() as world:
        yield world
