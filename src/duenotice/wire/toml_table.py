"""A TOML table that knows its place in a file, so that an error can name it; it reads no files."""

import difflib
from collections.abc import Iterable, Iterator
from typing import Any, Self, TypeVar

from duenotice.errors import Misconfigured

T = TypeVar("T")
_KINDS = {str: "a text", int: "a whole number", bool: "true or false", list: "a list", dict: "a table"}
_UNSET: Any = object()


class Table:
    """One TOML table that knows its place; a key that is never taken is a mistake."""

    def __init__(self, source: str, place: str, values: object) -> None:
        self.source, self.place = source, place
        if not isinstance(values, dict):
            raise self.wrong("must be a table", "Write it as a table of keys.")
        self._values = dict(values)
        self._known: list[str] = []

    @property
    def keys(self) -> list[str]:
        """The keys that nobody took yet."""
        return list(self._values)

    def has(self, key: str) -> bool:
        """Whether the table has this key; it counts as known from now on."""
        self._known.append(key)
        return key in self._values

    def wrong(self, what: str, hint: str, key: str = "") -> Misconfigured:
        """An error about a key, or about the whole table."""
        place = f"{self.place} " if self.place else ""
        return Misconfigured(f"{self.where(key)}: {place}{what}.", hint=hint)

    def where(self, key: str) -> str:
        """The file, and the line of a key if it is known."""
        return self.source

    def take(self, key: str, kind: type[T], default: Any = _UNSET) -> T:
        """The value of a key, of the right kind, or its default."""
        self._known.append(key)
        value: T = self._values.pop(key, default)
        if value is _UNSET:
            raise self._missing(key)
        if value is not default and (not isinstance(value, kind) or (kind is int and isinstance(value, bool))):
            raise self.wrong(f"{key} must be {_KINDS[kind]}", f"Found {value!r}.", key)
        return value

    def _missing(self, key: str) -> Misconfigured:
        """A missing key may be there with a name that is almost right."""
        if near := nearest(key, self._values):
            return self.wrong(f"has an unknown key {near!r}", f"Did you mean {key!r}?", near)
        return self.wrong(f"has no {key!r}", f"Add {key} = …")

    def within(self, key: str, low: int, high: int, default: Any = _UNSET) -> int:
        """A whole number in bounds."""
        value = self.take(key, int, default)
        if not low <= value <= high:
            raise self.wrong(f"{key} = {value} is out of bounds", f"Use {low} to {high}.", key)
        return value

    def tables(self, key: str) -> Iterator[Self]:
        """The tables of a list, each with its own place."""
        for number, values in enumerate(self.take(key, list, []), start=1):
            place = f"{key}[{number}]"
            yield type(self)(self.source, f"{self.place}.{place}" if self.place else place, values)

    def done(self) -> None:
        """Refuse keys that nobody took; the hint names the nearest known key."""
        for key in self._values:
            what = f"has an unknown key {key!r}" if self.place else f"unknown key {key!r}"
            raise self.wrong(what, near_miss(key, self._known, "keys"), key)


def near_miss(word: str, known: Iterable[str], what: str) -> str:
    """A hint that names the nearest known word, or all of them."""
    known = list(known)
    near = nearest(word, known)
    return f"Did you mean {near!r}?" if near else f"Known {what}: {', '.join(known)}."


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word that was probably meant, in upper or lower case; empty when none is near."""
    spelled = {each.lower(): each for each in known}
    return next((spelled[near] for near in difflib.get_close_matches(word.lower(), spelled, 1)), "")
