"""What readers may see: the durable state, a page for each scope that was asked for, and who waits for news of it.

The engine decides ahead of the disk; the publisher is handed a state only after the commit, so a reader never sees
anything that a crash could undo. A page is derived from the state: after a commit that touches it, it is derived again
when it is next asked for. Nobody is told of a change before all of it is in place.
"""

import asyncio
import weakref
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from duenotice.domain.apply import Touched
from duenotice.domain.bulk import by_key, in_order
from duenotice.domain.fleet import Vm, scope_of
from duenotice.domain.state import EMPTY, Document, State
from duenotice.errors import Unavailable
from duenotice.escape import natural
from duenotice.wire.api_versions import EVERY_VERSION

_NOTHING_RENDERED: list[bytes | None] = [None] * len(EVERY_VERSION)
"""Shared by every page that never had an event: 100,000 quiet VMs need their answer rendered once."""

_WOKEN_AT_ONCE = 256
"""Watchers called in one turn of the loop; uvloop sends what they wrote when the turn ends."""

FEW = 100
"""Names that are put in their place one by one; after more it is quicker to sort again."""

_TRIES = 3


class ScopePage:
    """What one scope is shown.

    `rendered` has a place per api-version for the bytes that a door makes of the document; a new document
    brings a new empty list. `last_poll` is in steady time. `watchers` are called once, at the next change.
    Only a current page is `enabled`, so this one flag says whether it can be shown as it is.
    """

    __slots__ = ("document", "enabled", "is_current", "last_poll", "rendered", "scope", "watchers")

    def __init__(self, scope: str, now: int) -> None:
        self.scope = scope
        self.last_poll = now
        self.watchers: dict[object, Callable[[], None]] = {}
        self.enabled = self.is_current = False
        self.document = EMPTY
        self.rendered = _NOTHING_RENDERED

    def show(self, document: Document, enabled: bool) -> None:
        """Make it current; rendered bytes are kept if VMs see no difference (S4)."""
        if document.incarnation != self.document.incarnation:
            self.rendered = [None] * len(EVERY_VERSION)
        self.document, self.enabled, self.is_current = document, enabled, True

    def outdate(self) -> None:
        """Part of it may have changed."""
        self.enabled = self.is_current = False


class Publisher:
    """The durable view of everything. `state` may change at every await: to keep it longer, `freeze` it."""

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self.state = State()
        self.pages: dict[str, ScopePage] = {}
        self.names = SortedNames(lambda: self.state.fleet.vms)
        self.natural_names = SortedNames(lambda: self.state.fleet.vms, lambda name: (natural(name), name))
        self._frozen: weakref.ref[State] | None = None
        self._call_soon = call_soon
        self._opened_at = 0
        self._fleet_watchers: list[Callable[[Collection[str]], None]] = []

    def open(self, state: State, now: int) -> None:
        """Begin with a state that is durable as a whole."""
        self._opened_at = now
        self.state = state

    def freeze(self) -> State:
        """A copy of the state as it is now, which never changes: for long queries, also from other threads.

        It is kept for the next who asks, while somebody has it.
        """
        known = None if self._frozen is None else self._frozen()
        if known is None or known.position != self.state.position:
            known = self.state.copy_to_read()
            self._frozen = weakref.ref(known)
        return known

    def open_page(self, scope: str) -> ScopePage:
        """The page of a scope as it is now: made when it is first opened, and derived again if it has changed."""
        page = self.pages.get(scope)
        if page is None:
            page = self.pages[scope] = ScopePage(scope, self._opened_at)
        if not page.is_current:
            page.show(self.state.document(scope), self.state.enabled(scope))
        return page

    def open_page_of(self, vm: Vm) -> ScopePage:
        """The page a VM reads."""
        return self.open_page(scope_of(vm))

    def watch(self, scope: str, key: object, callback: Callable[[], None]) -> ScopePage:
        """Call back once, when the document of a scope next changes; to stop waiting, remove the key from the page."""
        page = self.open_page(scope)
        page.watchers[key] = callback
        return page

    def watch_fleet(self, callback: Callable[[Collection[str]], None]) -> None:
        """Call back with the addresses whose VM was added, removed or changed. The callback must not answer anybody."""
        self._fleet_watchers.append(callback)

    def silent_among(self, scopes: Iterable[str], now: int, silence: int) -> list[str]:
        """Which of these scopes listen but have not asked for this long; a restart counts as a request."""
        return [scope for scope in scopes if self.state.enabled(scope) and now - self._last_poll(scope) >= silence]

    def publish(self, state: State, touched: Touched, now: int) -> None:
        """Publish a durable state that differs from the last only in what was touched."""
        before, self.state = self.state, state
        self.names.touch(touched.vms)
        self.natural_names.touch(touched.vms)
        changed: list[ScopePage] = []
        for page in self._touched_pages(touched):
            page.outdate()
            if state.enabled(page.scope) and not before.enabled(page.scope):
                page.last_poll = now
            if page.scope not in state.scopes:
                # Its VM or group is gone, or has not asked yet since it is back (F01, S24).
                del self.pages[page.scope]
                changed.append(page)
            elif page.document.incarnation != state.incarnation(page.scope):
                changed.append(page)
        self._tell(changed, touched.addresses)

    def _touched_pages(self, touched: Touched) -> list[ScopePage]:
        if touched.everything:
            return list(self.pages.values())
        return [self.pages[scope] for scope in self.pages.keys() & touched.scopes]

    def _last_poll(self, scope: str) -> int:
        page = self.pages.get(scope)
        return self._opened_at if page is None else page.last_poll

    def _tell(self, changed: list[ScopePage], addresses: set[str]) -> None:
        """Everything is in place: tell of it, a few watchers in each turn of the loop."""
        if addresses:
            for tell in self._fleet_watchers:
                tell(addresses)
        watched = [page.watchers for page in changed if page.watchers]
        for page in changed:
            page.watchers = {}
        waiting = iter([callback for watchers in watched for callback in watchers.values()])

        def some() -> None:
            for woken, callback in enumerate(waiting, start=1):
                callback()
                if woken == _WOKEN_AT_ONCE:
                    self._call_soon(some)
                    return

        some()


class SortedNames:
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
