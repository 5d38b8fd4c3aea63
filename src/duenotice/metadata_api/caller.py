"""Who is asking: the VM of a source address, looked up for every request and never stored with it (A09, S16)."""

from collections.abc import Collection
from typing import Protocol

from duenotice.domain.fleet import Vm
from duenotice.engine.publisher import Publisher, ScopePage
from duenotice.metadata_api.limits import REFUSALS, Bucket, Rate, Strangers
from duenotice.metadata_api.options import MetadataOptions
from duenotice.metadata_api.request_reader import FIRST_BYTES

_MAPPED = "::ffff:"


class Lane:
    """One VM at this door: who it is, whose page it reads, and how much it may ask, and be refused.

    `page` is the one it read last. It is valid only while it is `enabled`: the publisher clears that flag on every page
    that a commit has touched or removed, and then the page is looked up again.
    """

    __slots__ = ("approvals", "page", "polls", "refusals", "scope", "vm")

    def __init__(self, vm: Vm, page: ScopePage, polls: Bucket, approvals: Bucket, refusals: Bucket) -> None:
        self.vm = vm
        self.scope = page.scope
        self.page = page
        self.polls = polls
        self.approvals = approvals
        self.refusals = refusals


class Lanes(Protocol):
    """Where a connection looks for the lane of its caller before anything else."""

    def get(self, address: str, /) -> Lane | None:
        """The lane of an address; None: take the long way."""


class Callers:
    """Lanes by address, made when a VM first asks and dropped when the fleet changes under it."""

    def __init__(self, publisher: Publisher, options: MetadataOptions) -> None:
        self.lanes: dict[str, Lane] = {}
        self._publisher = publisher
        self._default = options.default_vm
        self._polls = Rate(options.throttle)
        self._approvals = Rate(options.approvals_throttle)
        self._refusals = Rate(REFUSALS)
        self.strangers = Strangers(options.throttle)

    def find(self, address: str) -> Lane | None:
        """The lane of the VM with this address, else of the default VM; unknown addresses have none."""
        lane = self.lanes.get(address)
        if lane is not None:
            return lane
        fleet = self._publisher.state.fleet
        vm = fleet.by_address.get(address)
        if vm is None and self._default is not None:
            vm = fleet.vms.get(self._default)
        return None if vm is None else self.lanes.get(vm.address) or self._open(vm)

    def _open(self, vm: Vm) -> Lane:
        page = self._publisher.open_page_of(vm)
        refusals = Bucket(self._refusals)
        lane = self.lanes[vm.address] = Lane(vm, page, Bucket(self._polls), Bucket(self._approvals), refusals)
        return lane

    def is_known(self, address: str) -> bool:
        """Whether requests from there are those of a VM."""
        return address in self.lanes or self.find(address) is not None

    def admit(self, address: str, data: bytes, now: float) -> bool:
        """Whether a request that begins like this may cost something: it takes a token of the caller (A08, S29).

        Nothing else of it is looked at yet. Approvals, which are POSTs, have a bucket of their own.
        """
        lane = self.lanes.get(address) or self.find(address)
        if lane is None:
            return self.strangers.take(address, now)
        is_post = data[:FIRST_BYTES].lstrip(b"\r\n").startswith(b"P")
        return (lane.approvals if is_post else lane.polls).take(now)

    def is_patient_with(self, address: str, now: float) -> bool:
        """Whether a caller that asks too often may keep its connection; who makes nothing but noise may not."""
        lane = self.find(address)
        return (self.strangers if lane is None else lane).refusals.take(now)

    def page_of(self, lane: Lane) -> ScopePage:
        """The page that a VM reads now."""
        lane.page = page = self._publisher.open_page(lane.scope)
        return page

    def forget(self, addresses: Collection[str]) -> None:
        """The VMs of these addresses were added, removed or changed."""
        for address in self.lanes.keys() & addresses:
            del self.lanes[address]


def plain_address(address: str) -> str:
    """The address as the fleet writes it: an IPv4 caller on an IPv6 socket is still an IPv4 caller."""
    return address.removeprefix(_MAPPED) if "." in address else address
