"""The names of a fleet in order, so that a page of a list costs what it shows and not what the fleet holds."""

from bisect import bisect_left, bisect_right
from collections.abc import Collection

FEW = 100
"""Changes that are put in their place one by one; after more it is quicker to sort again."""


class Names:
    """The keys of a mapping in order, brought up to date when they are read."""

    def __init__(self, of: Collection[str] = ()) -> None:
        self._of = of
        self._sorted: list[str] | None = None
        self._changed: set[str] = set()

    def touch(self, name: str) -> None:
        """A name has come or gone."""
        if self._sorted is not None:
            self._changed.add(name)
            if len(self._changed) > FEW:
                self._sorted = None
                self._changed.clear()

    def after(self, name: str, count: int) -> list[str]:
        """The next few behind a name."""
        names = self._in_order()
        begin = bisect_right(names, name)
        return names[begin : begin + count]

    def _in_order(self) -> list[str]:
        if self._sorted is None:
            self._sorted = sorted(self._of)
        while self._changed:
            self._place(self._sorted, self._changed.pop())
        return self._sorted

    def _place(self, names: list[str], name: str) -> None:
        at = bisect_left(names, name)
        is_there = names[at : at + 1] == [name]
        if name in self._of and not is_there:
            names.insert(at, name)
        elif name not in self._of and is_there:
            del names[at]
