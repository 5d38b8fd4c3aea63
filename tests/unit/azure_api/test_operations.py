"""How long a poll of long work is held: pollers that wait for hours ask seldom, and not all at once."""

from collections.abc import Iterator
from zlib import crc32

import pytest

from duenotice.azure_api import operations as module
from duenotice.azure_api.operations import LONGEST_HELD, Operations
from tests.support.node import Node


@pytest.fixture
def operations() -> Iterator[Operations]:
    with Node() as node:
        yield Operations(node.service.engine)


def test_each_poll_is_held_twice_as_long_up_to_a_limit(operations: Operations) -> None:
    held = [operations._patience("a") for _ in range(8)]
    assert held[:5] == [held[0] * factor for factor in (1, 2, 4, 8, 16)]
    assert len(set(held[5:])) == 1
    assert 0.75 <= held[0] < 1
    assert held[-1] <= LONGEST_HELD


def test_operations_are_held_for_different_times(operations: Operations) -> None:
    assert len({operations._patience(str(number)) for number in range(100)}) > 50


def test_of_those_that_nobody_asks_for_any_more_nothing_is_kept(
    operations: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_REMEMBERED", 3)
    for number in range(10):
        operations._patience(str(number))
    assert list(operations._asked) == [crc32(name) for name in (b"7", b"8", b"9")]
