"""Ids of events under keys, oldest first: those of a scope, and those that hit a VM.

Nearly every key has one id or a few, and they stand in a tuple, which costs least. Where there are many, a tuple would
be copied for each that comes or goes, and 16,000 that go at one moment would cost 16,000 times 16,000 (S26): they stand
in a dict, which keeps the order too.
"""

from collections.abc import Collection, Iterable

MANY = 64
"""More than these stand in a dict; until half of them are left."""

Ids = tuple[str, ...]


class IdsByKey:
    """What is handed out is not to be kept: it changes with the next id."""

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
