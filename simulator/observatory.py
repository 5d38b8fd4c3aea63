"""Sees what the outside could see, in the order in which it could, and holds it against the promises.

Documents and answers are taken when a node has written them: from then on they may be read. Records are those of the
journal, as the audit trail has them; they count from when the first VM could see them. Time is the world's own.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from duenotice.clock import Instant
from duenotice.domain import records as t
from duenotice.domain.event import Event, Phase
from duenotice.domain.records import Record
from simulator.checkers import LEAST_NOTICE, S1, S2, S3, S4, S5, S7, S8, S10, S11, S16, S17, S19, Observer
from simulator.history import NEWEST, Committed, Moment, parsed, scope_of
from simulator.history import World as Known
from simulator.machine import BEGIN

KINDS = (S1, S2, S3, S4, S5, S7, S8, S10, S11, S16, S17, S19)
OF_ANY_VERSION = (S3, S4, S8)
"""Checkers that understand documents of older api-versions too."""
FASTEST = 2e-4
"""No steady clock is faster than the world's time by more than this part."""
STANDSTILL = 3.0
"""Seconds of a pause that still count as notice, and the time until the next beat (S25)."""
SLACK = 0.1
"""Seconds by which we may be wrong ourselves about when something was seen."""

_KNOWN = re.compile(rb'If-None-Match: "(\d+)"')
_VERSION = re.compile(rb"[?&]api-version=([0-9-]+)")


class Stored(NamedTuple):
    """A record, and the world's time when it was decided and when it could first be seen.

    `readable` and `pauses` are how long and how often nobody had been able to read by then.
    """

    record: Record
    decided: float
    visible: float | None = None
    readable: float = 0.0
    pauses: int = 0


class Promised(NamedTuple):
    """Until when an event waits: how much notice it has from when it could first be seen."""

    notice: float
    readable: float
    pauses: int


class Observatory:
    """All checkers, and what they need to know."""

    def __init__(
        self, now: Callable[[], float], say: Callable[[str, str], None], broken: Callable[[str], None]
    ) -> None:
        """`broken` is told of each promise that was broken: what is raised here would be caught by a node."""
        self._now, self._say, self._broken = now, say, broken
        self.log: dict[int, Stored] = {}
        self.fed = 0
        self.known = Known()
        self.by_address: dict[str, str] = {}
        self.live: dict[str, Event] = {}
        self.plans: dict[str, str] = {}
        self.documents = 0
        self.readable, self.pauses, self._can_read, self._since = 0.0, 0, False, 0.0
        self._promised: dict[str, Promised] = {}
        self._owed: dict[str, Promised] = {}
        self.walls_are_right = True
        """Whether nobody has set the time of day of a machine yet."""
        self._approved: set[str] = set()
        self._all, self._any = Observer(), Observer()
        self._seen: dict[tuple[str, str], tuple[bytes, int]] = {}
        self._current: dict[str, int] = {}
        self.on_record: list[Callable[[Record], None]] = []
        """Told of each record when the first VM can see it."""
        self.on_stored: list[Callable[[Record], None]] = []
        """Told of each record when it is stored."""
        self._restart()

    def _restart(self) -> None:
        self._all = Observer([kind for kind in KINDS if kind not in OF_ANY_VERSION])
        self._any = Observer(OF_ANY_VERSION)

    # --- what is stored ---

    def stored(self, records: Sequence[Record], decided: float) -> None:
        """A commit is durable."""
        for record in records:
            if record.position in self.log:
                self._broken(f"S21: record {record.position} is stored twice")
            self.log[record.position] = Stored(record, decided)
            for tell in self.on_stored:
                tell(record)

    def published(self, position: int) -> None:
        """A node shows all up to here from now on."""
        if position > self.fed:
            self._see(position, {})

    def lost_after(self, position: int) -> None:
        """The store has lost all that came after this: it was restored, or failed over without its last commits."""
        self._say("store", f"everything after record {position} is lost")
        kept, before, seen = self.log, self._any, min(self.fed, position)
        self.log, self.fed = {}, 0
        self._restart()
        self.known, self.by_address, self.live, self.plans = Known(), {}, {}, {}
        self._promised, self._owed, self._approved, self._seen = {}, {}, set(), {}
        self.log = {place: stored for place, stored in kept.items() if place <= position}
        self._see(seen, {})  # what nobody has seen yet is seen when a node shows it
        # What VMs have seen cannot be unseen.
        self._any._checkers[S3] = before._checkers[S3]
        self._any.s4.remember(before.s4)

    def _see(self, position: int, documents: dict[tuple[str, str], bytes]) -> None:
        try:
            committed = tuple(self._committed(place) for place in range(self.fed + 1, position + 1))
        except LookupError as error:
            self._broken(f"S5: VMs are shown records up to {position}, and they are not stored: {error!r}")
            return
        self._current.clear()
        self.fed = max(self.fed, position)
        self._check(Moment(Instant(BEGIN, 0), committed, (), documents))

    def _committed(self, position: int) -> Committed:
        stored, is_new = self.log[position], self.log[position].visible is None
        if is_new:
            stored = stored._replace(visible=self._now(), readable=self.readable_now(), pauses=self.pauses)
            self.log[position] = stored
        visible = stored.visible or 0.0
        if is_new and isinstance(stored.record.transition, t.EventStarted):
            self._check_readable(stored.record.transition.event)
        self._follow(stored, visible)
        seen = _truth(stored, visible)
        if not self.walls_are_right:  # then only steady time tells how much notice is left, see `_check_readable`
            seen = seen._replace(at=stored.record.at)
        return Committed(stored.record, _truth(stored, stored.decided), seen)

    def _check(self, moment: Moment) -> None:
        try:
            self._any.see(moment)
            newest = all(version == NEWEST for _, version in moment.documents)
            self._all.see(moment if newest else Moment(moment.now, moment.committed))
        except AssertionError as broken:
            self._broken(str(broken))
        except Exception as error:  # a record that no checker understands: an event that never was, for example
            self._broken(f"S7: a checker failed at {moment.committed or moment.documents}: {error!r}")

    def _follow(self, stored: Stored, visible: float) -> None:
        record, transition = stored.record, stored.record.transition
        match transition:
            case t.VmsPut(vms):
                for vm in vms:
                    self._forget_address(vm.name)
                    self.by_address[vm.address] = vm.name
            case t.VmsRemoved(names):
                for name in names:
                    self._forget_address(name)
            case t.EventRaised(event) | t.EventPostponed(event):
                self.live[event.id] = event
                left = (event.not_before - record.at).total_seconds() - (visible - stored.decided)
                self._promised[event.id] = Promised(left, stored.readable, stored.pauses)
                if isinstance(transition, t.EventRaised):
                    self._owed[event.id] = Promised(LEAST_NOTICE[event.type], stored.readable, stored.pauses)
                if event.approved_by:
                    self._approved.add(event.id)
            case t.EventApproved(event_id):
                self._approved.add(event_id)
            case t.EventStarted(event):
                self.live[event.id] = event
            case t.EventMoved(event) | t.EventNarrowed(event):
                self.live[event.id] = event
            case t.EventCompleted(event_id) | t.EventCancelled(event_id) | t.EventFailed(event_id):
                self.live.pop(event_id, None)
        self.known.see(transition)
        for tell in self.on_record:
            tell(record)

    def _forget_address(self, name: str) -> None:
        self.by_address = {address: vm for address, vm in self.by_address.items() if vm != name}

    # --- S25 ---

    def can_read(self, can: bool) -> None:
        """From now on somebody answers VMs, or nobody does."""
        if can != self._can_read:
            self.readable = self.readable_now()
            self._can_read, self._since = can, self._now()
            self.pauses += not can

    def readable_now(self) -> float:
        """Seconds in which somebody could be answered."""
        return self.readable + (self._now() - self._since if self._can_read else 0.0)

    def _check_readable(self, event: Event) -> None:
        """S25: the notice of an event that nobody has approved could be read, all of it."""
        if event.id in self._approved:
            return
        for promised in (self._promised.get(event.id), self._owed.get(event.id)):
            if promised is None:
                continue
            read = self.readable_now() - promised.readable
            allowed = STANDSTILL * (self.pauses - promised.pauses) + SLACK + promised.notice * FASTEST
            if read < promised.notice - allowed:
                what = f"{read:.1f} s of {promised.notice:.1f} s that could be read"
                self._broken(f"S25: {event.id} started after {what}")

    # --- what is read ---

    def written(
        self, position: int, address: str, request: bytes, answer: bytes, then: Mapping[str, str] | None = None
    ) -> None:
        """A node that shows all up to a position has answered a VM.

        A stale one shows what the store has lost since; `then` is whose addresses those were before.
        """
        is_stale = then is not None
        head, _, body = answer.partition(b"\r\n\r\n")
        is_document = request.startswith(b"GET /metadata/scheduledevents") and head.startswith(b"HTTP/1.1 200")
        if position > self.fed and not is_stale:
            self._see(position, {})
        if head.startswith(b"HTTP/1.1 304") and not is_stale:
            self._check_unchanged(address, request)
        if not is_document or not body:
            return
        vm, found = (self.by_address if then is None else then).get(address), _VERSION.search(request)
        if found is None:
            self._broken(f"A04: {address} gave no api-version, and was answered {answer!r}")
            return
        if vm is None:
            self._broken(f"S16: {address} is no VM's address, and reads {body!r}")
            return
        self.documents += 1
        key = vm, found[1].decode()
        if is_stale:
            self._check_incarnation(key, body)
            return
        if self._seen.get(key) != (body, self.fed):
            self._check(Moment(Instant(BEGIN, 0), (), (), {key: body}))
            self._seen[key] = body, self.fed
            self._current[self.scope_of(vm) or ""] = parsed(body)["DocumentIncarnation"]

    def _check_unchanged(self, address: str, request: bytes) -> None:
        """A10, S4: "not modified" is said only of the document that others read at the same moment."""
        known, scope = _KNOWN.search(request), self.scope_of(self.by_address.get(address, ""))
        current = self._current.get(scope or "")
        if known is not None and current is not None and int(known[1]) != current:
            self._broken(f"S4: {address} is told that {known[1].decode()} is the newest, and others read {current}")

    def _check_incarnation(self, key: tuple[str, str], body: bytes) -> None:
        """What the store has lost may still be read for a while; but nobody reads anything older than before (S3)."""
        try:
            self._any._checkers[S3].see(Moment(Instant(BEGIN, 0), (), (), {key: body}))
        except AssertionError as broken:
            self._broken(f"S3: {broken}")

    def scope_of(self, name: str) -> str | None:
        """The circle of a VM."""
        vm = self.known.vms.get(name)
        return None if vm is None else scope_of(vm)

    def scheduled(self) -> Iterable[Event]:
        """Live events that have not started."""
        return [event for event in self.live.values() if event.phase is Phase.SCHEDULED]


def _truth(stored: Stored, moment: float) -> Instant:
    """A moment as checkers see it: the time of day that the record says, going on in the world's own time.

    Steady time is the world's, as if it were the fastest of the clocks.
    """
    at: Any = stored.record.at + timedelta(seconds=moment - stored.decided)
    return Instant(at, round(moment * (1 + FASTEST) * 1_000_000))
