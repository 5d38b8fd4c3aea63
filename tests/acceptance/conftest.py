"""The fleet that acceptance tests talk to, with one of everything."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clients import connect
from tests.support.node import Node

__all__ = ["connect"]

DEMO = Path(__file__).parents[2] / "examples" / "demo-fleet.toml"


@pytest.fixture
def node() -> Iterator[Node]:
    """A fresh node with the demo fleet on a manual clock."""
    with Node(DEMO) as running:
        yield running


@pytest.fixture(scope="module")
def shared() -> Iterator[Node]:
    """The same, one for all tests of a file that raise no events."""
    with Node(DEMO) as running:
        yield running
