"""Polls whose answer is held back until there is news, and until when. It does not answer them itself."""

import math
from collections.abc import Callable, Collection, Iterator

from duenotice.engine.publisher import Publisher, ScopePage
from duenotice.metadata_api.requests import Poll, VmRequest
from duenotice.metadata_api.sessions import Lane

BEAT_SECONDS = 0.1
"""How often the time of waiting polls is looked at; no timer for each of ten thousand."""

_WOKEN_AT_ONCE = 256

Wake = Callable[[], None]

Company = dict[object, None]
"""All whose time is up at the same beat, in order: who came first is answered first."""


class Held:
    """One such poll: who asked what, which page is watched, and whose time is up at the same beat."""

    __slots__ = ("address", "ask", "beat", "caller", "company", "page", "poll", "vm", "wake")

    def __init__(
        self,
        ask: VmRequest,
        poll: Poll,
        lane: Lane,
        page: ScopePage,
        beat: int,
        company: Company,
        wake: Wake,
        caller: str,
    ) -> None:
        self.ask, self.poll, self.page = ask, poll, page
        self.vm, self.address, self.caller = lane.vm.name, lane.vm.address, caller
        self.beat, self.company = beat, company
        self.wake = wake


class HeldPolls:
    """All such polls, by the connection they came on."""

    __slots__ = ("_beats", "_by_beat", "_call_soon", "_publisher", "held")

    def __init__(self, publisher: Publisher, call_soon: Callable[[Wake], object]) -> None:
        self._publisher = publisher
        self.held: dict[object, Held] = {}
        self._by_beat: dict[int, Company] = {}
        self._beats = 0
        self._call_soon = call_soon

    def hold(self, who: object, ask: VmRequest, poll: Poll, lane: Lane, wake: Wake, caller: str = "") -> None:
        """Wake when the document changes or the time is up; never before, and at most a beat after."""
        beat = self._beats + 1 + math.ceil(poll.wait / BEAT_SECONDS)
        company = self._by_beat.setdefault(beat, {})
        company[who] = None
        page = self._publisher.watch(lane.scope, who, wake)
        self.held[who] = Held(ask, poll, lane, page, beat, company, wake, caller)

    def let_go(self, who: object) -> Held | None:
        """Stop waiting; None when nobody waited."""
        held = self.held.pop(who, None)
        if held is not None:
            held.page.watchers.pop(who, None)
            company = held.company
            company.pop(who, None)
            if not company:
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
        held_polls = self.held.values()
        wakes = [held.wake for held in held_polls if held.address in addresses or held.caller in addresses]
        self._call_soon(lambda: self._wake_some(iter(wakes)))

    def _wake_some(self, wakes: Iterator[Wake]) -> None:
        """Wake a few in this turn of the loop and the others in the next ones, so that other polls get a turn."""
        for woken, wake in enumerate(wakes, start=1):
            wake()
            if woken == _WOKEN_AT_ONCE:
                self._call_soon(lambda: self._wake_some(wakes))
                return
