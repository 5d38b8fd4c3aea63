"""Finding what a path names: VMs by name, everything else by id or the beginning of one."""

from collections.abc import Iterable
from typing import Protocol, TypeVar

from duenotice.domain.fleet import Vm
from duenotice.domain.state import State
from duenotice.errors import Conflict, Listing, NotFound
from duenotice.wire.start_requests_json import canonical_id


class _HasId(Protocol):
    @property
    def id(self) -> str:
        """Its id."""


T = TypeVar("T", bound=_HasId)


def by_id(things: Iterable[T], text: str, what: str) -> T:
    """The one thing whose id is this or begins with it."""
    wanted = canonical_id(text)
    found = [thing for thing in things if thing.id.startswith(wanted.upper())]
    exact = [thing for thing in found if thing.id == wanted]
    if not found:
        raise NotFound(f"There is no {what} {text}.", look_at=Listing(f"{what}s"))
    if len(found) > 1 and not exact:
        raise Conflict(f"{len(found)} {what}s begin with {text}.", hint="Give more of the id.")
    return (exact or found)[0]


def vm_named(state: State, name: str) -> Vm:
    """A VM of the fleet."""
    vm = state.fleet.vms.get(name)
    if vm is None:
        raise NotFound(f"There is no VM named {name!r}.", look_at=Listing.VMS)
    return vm
