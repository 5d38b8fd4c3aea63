"""Which call a path names: one look in a table, where trying pattern after pattern would cost as much as the call."""

from collections.abc import Mapping
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

_ANY = "/"
"""Stands in a shape where any name may stand; no part of a path can be this."""


class FoundPath(NamedTuple, Generic[T]):
    """What a path names, and the names in it."""

    what: T
    names: dict[str, str]


class Paths(Generic[T]):
    """Things by their path, such as `/v1/vms/{name}`; a name is never empty."""

    def __init__(self, things: Mapping[str, T]) -> None:
        self._things: dict[tuple[str, ...], tuple[T, tuple[str, ...]]] = {}
        self._places: dict[int, list[tuple[int, ...]]] = {}
        for path, thing in things.items():
            parts = path.split("/")
            places = tuple(place for place, part in enumerate(parts) if part.startswith("{"))
            names = tuple(parts[place][1:-1] for place in places)
            self._things.setdefault(_shape(parts, places), (thing, names))
            known = self._places.setdefault(len(parts), [])
            if places not in known:
                known.append(places)
        for known in self._places.values():
            known.sort(key=len)  # a path without names comes before one with a name in its place

    def find(self, path: str) -> FoundPath[T] | None:
        """What a path names, if there is something."""
        parts = path.split("/")
        for places in self._places.get(len(parts), ()):
            known = self._things.get(_shape(parts, places))
            if known is not None and all(parts[place] for place in places):
                thing, names = known
                return FoundPath(thing, {name: parts[place] for name, place in zip(names, places, strict=True)})
        return None


def _shape(parts: list[str], places: tuple[int, ...]) -> tuple[str, ...]:
    shape = parts.copy()
    for place in places:
        shape[place] = _ANY
    return tuple(shape)
