"""Which scopes are hidden for a moment: something newer is stored and may be shown elsewhere already (N06).

A poll of a hidden scope waits until the curtain is lifted; all other scopes are answered as always. Addresses are
hidden too: whose they are may be known elsewhere already.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from duenotice.domain.apply import Touched


class Curtain:
    """To be used on the loop that answers."""

    def __init__(self) -> None:
        self._hidden: set[str] = set()
        self._hides_all = self.is_down = False
        self._lifted = asyncio.Event()
        self.on_change: Callable[[], None] = lambda: None
        """Is called when it comes down, and when it is lifted."""

    def hide(self, touched: Touched) -> None:
        """Hide what some records touch, until all is shown."""
        self._hidden |= touched.scopes | touched.addresses
        self._hides_all = self._hides_all or touched.everything
        self.is_down = True
        self._lifted.clear()
        self.on_change()

    def hides(self, *what: str) -> bool:
        """Whether one of these scopes and addresses is hidden."""
        return self._hides_all or not self._hidden.isdisjoint(what)

    def lift(self) -> None:
        """All that is folded may be shown."""
        self._hidden = set()
        self._hides_all = self.is_down = False
        self._lifted.set()
        self.on_change()

    async def wait(self, *what: str, timeout: float) -> bool:
        """Wait until all of these can be shown; whether they can."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while self.hides(*what):
                    await self._lifted.wait()
        return not self.hides(*what)
