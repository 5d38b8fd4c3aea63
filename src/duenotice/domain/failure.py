"""Impacts that have failed: each is known until somebody has dealt with it, or it does not matter any more."""

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime

from msgspec import Struct, structs

from duenotice.domain.bulk import IdsByKey
from duenotice.domain.event import Event, EventType

MOST_KEPT = 10_000
"""So that state stays bounded (S24); the oldest are forgotten first, and the journal has them all."""


class Failure(Struct, frozen=True, gc=False):
    """An event that has failed, with those of its VMs for which that still matters; when it failed, and why."""

    event: Event
    failed_at: datetime
    reason: str

    @property
    def id(self) -> str:
        """The id of the event."""
        return self.event.id


class Failures:
    """Those that nobody has dealt with, the oldest first.

    For each VM only the newest of each type counts: an event of the same type that ends later is its retry.
    """

    __slots__ = ("_by_id", "_ids_by_vm")

    def __init__(self, known: Iterable[Failure] = ()) -> None:
        self._by_id: dict[str, Failure] = {}
        self._ids_by_vm = IdsByKey()
        for failure in known:
            self._put(failure)

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Failure]:
        return iter(self._by_id.values())

    def __contains__(self, event_id: object) -> bool:
        return event_id in self._by_id

    def get(self, event_id: str) -> Failure | None:
        """The failure of this event."""
        return self._by_id.get(event_id)

    def of(self, vm: str) -> Failure | None:
        """The newest that matters for a VM."""
        return self._by_id[list(self._ids_by_vm.of(vm))[-1]] if vm in self._ids_by_vm else None

    def note(self, failure: Failure) -> None:
        """One more."""
        self.over(failure.event.resources, failure.event.type)
        self._put(failure)
        if len(self._by_id) > MOST_KEPT:
            self.dealt_with(next(iter(self._by_id)))

    def over(self, vms: Collection[str], of_type: EventType | None = None) -> None:
        """The failures of a type do not matter for these VMs any more; without a type all of them."""
        if not self._by_id:
            return  # as nearly always
        ids = dict.fromkeys(event_id for name in vms for event_id in self._ids_by_vm.of(name))
        for failure in [self._by_id[event_id] for event_id in ids]:
            if of_type in (None, failure.event.type):
                self._narrow(failure, vms)

    def dealt_with(self, event_id: str) -> None:
        """Somebody has acted, if it is known at all."""
        if (failure := self._by_id.pop(event_id, None)) is not None:
            self._take_off(failure.event.resources, event_id)

    def copy(self) -> "Failures":
        """A copy."""
        copy = Failures()
        copy._by_id, copy._ids_by_vm = self._by_id.copy(), self._ids_by_vm.copy()
        return copy

    def _put(self, failure: Failure) -> None:
        self._by_id[failure.id] = failure
        only = (failure.id,)
        for name in failure.event.resources:
            self._ids_by_vm.add(name, only)

    def _narrow(self, failure: Failure, gone: Collection[str]) -> None:
        names = set(gone)
        left = tuple(name for name in failure.event.resources if name not in names)
        if not left:
            self.dealt_with(failure.id)
            return
        self._take_off([name for name in failure.event.resources if name in names], failure.id)
        self._by_id[failure.id] = structs.replace(failure, event=failure.event.with_(resources=left))

    def _take_off(self, names: Iterable[str], event_id: str) -> None:
        for name in names:
            self._ids_by_vm.remove(name, event_id)
