"""Looking into a heap without changing it: no entry is smaller than the one above it, so branches can be skipped."""

import heapq
from collections.abc import Iterator, Sequence
from typing import Any, Protocol, TypeVar


class _Ordered(Protocol):
    def __lt__(self, other: Any, /) -> bool: ...


T = TypeVar("T", bound=_Ordered)
E = TypeVar("E", bound=tuple[Any, ...])


def ascending(heap: Sequence[T]) -> Iterator[T]:
    """The entries, smallest first; the cost depends on how many are asked for."""
    edge = [(heap[0], 0)] if heap else []
    while edge:
        entry, index = heapq.heappop(edge)
        yield entry
        for below in (2 * index + 1, 2 * index + 2):
            if below < len(heap):
                heapq.heappush(edge, (heap[below], below))


def up_to(heap: Sequence[E], moment: int) -> Iterator[E]:
    """The entries whose first part is not beyond a moment, in no order."""
    edge = [0]
    while edge:
        index = edge.pop()
        if index < len(heap) and heap[index][0] <= moment:
            yield heap[index]
            edge += (2 * index + 1, 2 * index + 2)
