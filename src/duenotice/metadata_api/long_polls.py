"""Polls whose answer is held back until there is news, and until when. It does not answer them itself."""

import math
from collections.abc import Callable, Collection, Iterator

from duenotice.engine.publisher import Publisher, ScopePage
from duenotice.metadata_api.requests import ParsedRequest, Poll
from duenotice.metadata_api.sessions import VmSession

BEAT_SECONDS = 0.1
"""How often the time of waiting polls is looked at; no timer for each of ten thousand."""

_WOKEN_AT_ONCE = 256

Wake = Callable[[], None]

DueTogether = dict[object, None]
"""All whose time is up at the same beat, in order: who came first is answered first."""


class LongPoll:
    """One such poll: who asked what, which page is watched, and whose time is up at the same beat."""

    __slots__ = ("address", "beat", "caller", "due_together", "page", "poll", "request", "vm", "wake")

    def __init__(
        self,
        request: ParsedRequest,
        poll: Poll,
        session: VmSession,
        page: ScopePage,
        beat: int,
        due_together: DueTogether,
        wake: Wake,
        caller: str,
    ) -> None:
        self.request, self.poll, self.page = request, poll, page
        self.vm, self.address, self.caller = session.vm.name, session.vm.address, caller
        self.beat, self.due_together = beat, due_together
        self.wake = wake


class LongPolls:
    """All such polls, by the connection they came on."""

    __slots__ = ("_beats", "_by_beat", "_call_soon", "_publisher", "held")

    def __init__(self, publisher: Publisher, call_soon: Callable[[Wake], object]) -> None:
        self._publisher = publisher
        self.held: dict[object, LongPoll] = {}
        self._by_beat: dict[int, DueTogether] = {}
        self._beats = 0
        self._call_soon = call_soon

    def hold(
        self, who: object, request: ParsedRequest, poll: Poll, session: VmSession, wake: Wake, caller: str = ""
    ) -> None:
        """Wake when the document changes or the time is up; never before, and at most a beat after."""
        beat = self._beats + 1 + math.ceil(poll.wait / BEAT_SECONDS)
        due_together = self._by_beat.setdefault(beat, {})
        due_together[who] = None
        page = self._publisher.watch(session.scope, who, wake)
        self.held[who] = LongPoll(request, poll, session, page, beat, due_together, wake, caller)

    def let_go(self, who: object) -> LongPoll | None:
        """Stop waiting; None when nobody waited."""
        held = self.held.pop(who, None)
        if held is not None:
            held.page.watchers.pop(who, None)
            due_together = held.due_together
            due_together.pop(who, None)
            if not due_together:
                self._by_beat.pop(held.beat, None)
        return held

    def beat(self) -> None:
        """Some time has passed: wake those whose time is up."""
        self._beats += 1
        self._wake_some(iter([self.held[who].wake for who in self._by_beat.get(self._beats, ())]))

    def fleet_changed(self, addresses: Collection[str]) -> None:
        """Wake those whose VM changed: they may be in another scope now, or in none (S16).

        A caller that counts as the default VM may become a VM of its own.
        """
        waiting = self.held.values()
        wakes = [held.wake for held in waiting if held.address in addresses or held.caller in addresses]
        self._call_soon(lambda: self._wake_some(iter(wakes)))

    def _wake_some(self, wakes: Iterator[Wake]) -> None:
        """Wake a few in this turn of the loop and the others in the next ones, so that other polls get a turn."""
        for woken, wake in enumerate(wakes, start=1):
            wake()
            if woken == _WOKEN_AT_ONCE:
                self._call_soon(lambda: self._wake_some(wakes))
                return
