"""Very many things: sorted and cut in pieces, so that other threads can run in between; ids for them, under keys."""

import heapq
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any, Protocol, TypeVar
from uuid import UUID, uuid5

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


class _Ordered(Protocol):
    def __lt__(self, other: Any, /) -> bool: ...


H = TypeVar("H", bound=_Ordered)
E = TypeVar("E", bound=tuple[Any, ...])


def ascending(heap: Sequence[H]) -> Iterator[H]:
    """The entries of a heap, smallest first; the cost depends on how many are asked for."""
    edge = [(heap[0], 0)] if heap else []
    while edge:
        entry, index = heapq.heappop(edge)
        yield entry
        for below in (2 * index + 1, 2 * index + 2):
            if below < len(heap):
                heapq.heappush(edge, (heap[below], below))


def up_to(heap: Sequence[E], moment: int) -> Iterator[E]:
    """The entries of a heap whose first part is not beyond a moment, in no order; what cannot be is not looked at."""
    edge = [0]
    while edge:
        index = edge.pop()
        if index < len(heap) and heap[index][0] <= moment:
            yield heap[index]
            edge += (2 * index + 1, 2 * index + 2)


def derived(seed: str, name: str) -> str:
    """An id for one of many things that one command makes."""
    return str(uuid5(UUID(seed), name)).upper()


MANY = 64
"""More than these stand in a dict; until half of them are left."""

Ids = tuple[str, ...]


class IdsByKey:
    """Ids of events under keys, oldest first: those of a scope, and those that hit a VM.

    Nearly every key has one id or a few, and they stand in a tuple, which costs least. Where there are many, a tuple
    would be copied for each that comes or goes, and 16,000 that go at one moment would cost 16,000 times 16,000 (S26):
    they stand in a dict, which keeps the order too. What is handed out is not to be kept: it changes with the next id.
    """

    __slots__ = ("_few", "_many")

    def __init__(self) -> None:
        self._few: dict[str, Ids] = {}
        self._many: dict[str, dict[str, None]] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._few or key in self._many

    def __bool__(self) -> bool:
        return bool(self._few or self._many)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IdsByKey) and dict(self._items()) == dict(other._items())

    __hash__ = None  # type: ignore[assignment]  # it changes

    def of(self, key: str) -> Collection[str]:
        """The ids under a key, oldest first."""
        found = self._few.get(key)
        return self._many.get(key, ()) if found is None else found

    def add(self, key: str, only: Ids) -> None:
        """One more; it comes as a tuple of itself, which many keys then share."""
        found = self._few.get(key)
        if found is None and key not in self._many:
            self._few[key] = only
        elif found is None:
            self._many[key][only[0]] = None
        elif len(found) < MANY:
            self._few[key] = found + only
        else:
            self._many[key] = dict.fromkeys(self._few.pop(key) + only)

    def remove(self, key: str, event_id: str) -> None:
        """One less; a key without ids is forgotten."""
        found = self._few.get(key)
        if found is None:
            many = self._many[key]
            del many[event_id]
            if len(many) <= MANY // 2:
                self._few[key] = tuple(self._many.pop(key))
        elif len(found) == 1:
            del self._few[key]
        else:
            self._few[key] = tuple(known for known in found if known != event_id)

    def copy(self) -> "IdsByKey":
        """A copy; its dicts are its own."""
        copy = IdsByKey()
        copy._few = self._few.copy()
        copy._many = {key: many.copy() for key, many in self._many.items()}
        return copy

    def _items(self) -> Iterable[tuple[str, Ids]]:
        yield from self._few.items()
        yield from ((key, tuple(many)) for key, many in self._many.items())
