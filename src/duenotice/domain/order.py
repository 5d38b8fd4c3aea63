"""Sorting very many things so that other threads can run in between: one call of `sorted` stops them all."""

import heapq
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

T = TypeVar("T")

PIECE = 10_000
"""Things sorted in one go: some milliseconds."""


def in_order(things: Iterable[T], key: Callable[[T], Any]) -> Iterator[T]:
    """The things as `sorted` would give them: sorted in pieces, and the pieces merged."""
    source = iter(things)
    pieces = iter(lambda: sorted(islice(source, PIECE), key=key), [])
    return heapq.merge(*pieces, key=key)
