"""The names of a fleet in order, so that a page of a list costs as much as it shows, not as much as the fleet holds."""

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from typing import Any

from duenotice.domain.bulk import by_key, in_order
from duenotice.errors import Unavailable

FEW = 100
"""Changes that are put in their place one by one; after more it is quicker to sort again."""

_TRIES = 3


class Names:
    """The keys of a mapping in order, brought up to date when somebody needs them."""

    def __init__(self, of: Callable[[], Collection[str]], key: Callable[[str], Any] = str) -> None:
        """`key` is what to sort by; no two names may have the same."""
        self._of, self._key = of, key
        self._sorted: list[str] | None = None
        self._changed: set[str] = set()
        self._sorting: asyncio.Task[list[str]] | None = None

    def touch(self, names: Collection[str]) -> None:
        """Names have come or gone."""
        if len(names) + len(self._changed) > FEW:
            self._sorted = self._sorting = None
            self._changed = set()
        else:
            self._changed.update(names)

    async def put_in_order(self) -> Sequence[str]:
        """All of them, up to date, in a list that is never changed again."""
        for _ in range(_TRIES):
            if self._sorted is None:
                await self._sort()
            if self._sorted is not None:
                self._place_changed(self._sorted)
                return self._sorted
        raise Unavailable("The fleet changes too quickly to be listed.", hint="Try again in a moment.")

    async def _sort(self) -> None:
        """Sort once, even if many wait for it. Many changes in the meantime make the result useless."""
        if self._sorting is None:
            self._changed = set()
            self._sorting = asyncio.create_task(asyncio.to_thread(_sorted, list(self._of()), self._key))
        sorting = self._sorting
        in_order = await asyncio.shield(sorting)
        if self._sorting is sorting:
            self._sorted, self._sorting = in_order, None

    def _place_changed(self, names: list[str]) -> None:
        if self._changed:
            names = self._sorted = names.copy()  # the other list may still be read
            for name in self._changed:
                self._place(names, name)
            self._changed = set()

    def _place(self, names: list[str], name: str) -> None:
        at = bisect_left(names, self._key(name), key=self._key)
        is_there = names[at : at + 1] == [name]
        if name in self._of() and not is_there:
            names.insert(at, name)
        elif name not in self._of() and is_there:
            del names[at]


def _sorted(names: list[str], key: Callable[[str], Any]) -> list[str]:
    return list(in_order(names, key=key)) if key is str else by_key(names, key)
