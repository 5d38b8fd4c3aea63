"""Working through very many things in pieces, so that other threads can run in between and no row gets too large."""

import heapq
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from operator import itemgetter
from typing import Any, TypeVar

T = TypeVar("T")

PIECE = 10_000
"""Things sorted in one go: some milliseconds. One call of `sorted` for all would stop the other threads."""

CHUNK = 1000
"""VMs per transition: a fleet of a million is many rows of a readable size."""


def in_order(things: Iterable[T], key: Callable[[T], Any]) -> Iterator[T]:
    """The things as `sorted` would give them: sorted in pieces, and the pieces merged."""
    source = iter(things)
    pieces = iter(lambda: sorted(islice(source, PIECE), key=key), [])
    return heapq.merge(*pieces, key=key)


def by_key(things: Iterable[T], key: Callable[[T], Any]) -> list[T]:
    """The same for a key that costs something: it is made once for each thing. What is alike stays as it stood."""
    keyed = ((key(thing), thing) for thing in things)
    return [thing for _, thing in in_order(keyed, key=itemgetter(0))]


def chunks(items: Iterable[T], size: int = 0) -> Iterator[tuple[T, ...]]:
    """Some at a time; by default what goes into one transition."""
    iterator = iter(items)
    while chunk := tuple(islice(iterator, size or CHUNK)):
        yield chunk


def used_up(things: list[T]) -> Iterator[T]:
    """The things in order; the list lets go of each when its turn comes, not of all at the end in one go."""
    things.reverse()
    while things:
        yield things.pop()
