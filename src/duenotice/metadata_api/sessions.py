"""Who asks, how often, and on how many connections.

The VM of a source address is looked up for every request and never stored with it (A09, S16). Each VM has its own
buckets (A08), and so has each address that nobody registered (S29).
"""

import resource
import socket
from collections.abc import Callable, Collection
from typing import Generic, Protocol, TypeVar

from duenotice.domain.fleet import Vm
from duenotice.engine.publisher import Publisher, ScopePage
from duenotice.metadata_api.http1 import FIRST_BYTES
from duenotice.metadata_api.options import MetadataOptions

_ROUNDING = 1e-6
_REFUSED_AT_ONCE = 100
_OTHER_FILES = 500
"""Of these the operator's port and the Azure door may fill 200 each; the rest is for the journal, the log, the loop."""

REFUSALS = 128.0
"""So many refusals a second leave a connection open; with more, each is the last answer of its connection."""

UNKNOWN_CALLERS = 40.0
"""So many times what one VM may ask, all addresses that nobody registered may ask together."""

MAX_UNKNOWN_CALLERS = 4096
"""How many of them have a bucket of their own at a time."""


def files_left() -> int:
    """How many connections the limit on open files allows, with some left for the rest of the process."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(1, soft - _REFUSED_AT_ONCE - _OTHER_FILES)


class Rate:
    """A rate and a burst of the same size; 0 means no limit."""

    __slots__ = ("interval", "slack")

    def __init__(self, per_second: float) -> None:
        self.interval = 1.0 / per_second if per_second > 0 else 0.0
        self.slack = max(0.0, per_second - 1.0) * self.interval + _ROUNDING


class Bucket:
    """A token bucket; it only stores when it will be full again."""

    __slots__ = ("_full_at", "_rate")

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self._full_at = 0.0

    def take(self, now: float) -> bool:
        """Take a token; False when there is none."""
        full_at, rate = self._full_at, self._rate
        if full_at <= now:
            self._full_at = now + rate.interval
            return True
        if full_at - now > rate.slack:
            return False
        self._full_at = full_at + rate.interval
        return True

    def last_taken(self, now: float) -> float | None:
        """When a token was last taken, at most a second too late; None when none was taken."""
        return min(now, self._full_at - self._rate.interval) if self._full_at else None


class UnknownCallers:
    """Buckets for addresses that nobody registered: one for each, in a table with an end, and one for all together.

    All together may take `together` times what one may. When the table is full it is cleared. That gives nobody more:
    what all of them may ask together stays as it is.
    """

    __slots__ = ("_buckets", "_of_all", "_rate", "refusals")

    def __init__(self, per_second: float, together: float = UNKNOWN_CALLERS) -> None:
        self._rate = Rate(per_second)
        self._of_all = Bucket(Rate(together * per_second))
        self.refusals = Bucket(Rate(REFUSALS))
        self._buckets: dict[str | bytes, Bucket] = {}

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, address: str, now: float) -> bool:
        """Take a token of an address."""
        key = network_of(address)
        bucket = self._buckets.get(key)
        if bucket is None:
            if len(self._buckets) == MAX_UNKNOWN_CALLERS:
                self._buckets.clear()
            bucket = self._buckets[key] = Bucket(self._rate)
        return bucket.take(now) and self._of_all.take(now)


def network_of(address: str) -> str | bytes:
    """Who has one IPv6 address has all 2^64 of its network, so these share a bucket."""
    return socket.inet_pton(socket.AF_INET6, address.partition("%")[0])[:8] if ":" in address else address


class Counted(Protocol):
    """What the limits need to know about a connection."""

    address: str
    deadline: float


G = TypeVar("G", bound=Counted)


class ConnectionLimits(Generic[G]):
    """Everybody connected now; nothing is kept of those who left.

    Half of the places are only for addresses that are known: others have as many addresses as they like (S29).
    """

    __slots__ = ("_for_all", "_is_known", "_most", "_most_per_address", "by_address", "connections")

    def __init__(
        self, most: int, most_per_address: int, is_known: Callable[[str], bool] = lambda address: True
    ) -> None:
        self._most, self._for_all = most, most // 2
        self._most_per_address = most_per_address
        self._is_known = is_known
        self.connections: dict[G, None] = {}  # in the order in which they came: a set has another one in each process
        self.by_address: dict[str, int] = {}

    def enter(self, connection: G) -> None:
        """Count a connection in."""
        self.by_address[connection.address] = self.by_address.get(connection.address, 0) + 1
        self.connections[connection] = None

    def has_room_for(self, address: str) -> bool:
        """Whether one more connection from there would not be too many."""
        if self.by_address.get(address, 0) >= self._most_per_address:
            return False
        return (here := len(self.connections)) < self._for_all or here < self._places_for(address)

    def is_half_full_of(self, address: str) -> bool:
        """Whether half of the places of an address are taken."""
        return 2 * self.by_address.get(address, 0) > self._most_per_address

    def _places_for(self, address: str) -> int:
        return self._most if self._is_known(address) else self._for_all

    def leave(self, connection: G) -> None:
        """Count a connection out."""
        self.connections.pop(connection, None)
        count = self.by_address[connection.address] - 1
        if count:
            self.by_address[connection.address] = count
        else:
            del self.by_address[connection.address]

    def overdue(self, now: float) -> list[G]:
        """Those whose deadline has passed."""
        return [connection for connection in self.connections if connection.deadline <= now]


_MAPPED = "::ffff:"


class VmSession:
    """One VM at this port: who it is, whose page it reads, and how much it may ask, and be refused.

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


class SessionTable(Protocol):
    """Where a connection looks for the session of its caller before anything else."""

    def get(self, address: str, /) -> VmSession | None:
        """The session of an address; None: take the long way."""


class Sessions:
    """Sessions by address, made when a VM first asks and dropped when the fleet changes under it."""

    def __init__(self, publisher: Publisher, options: MetadataOptions) -> None:
        self.by_address: dict[str, VmSession] = {}
        self._publisher = publisher
        self._default = options.default_vm
        self._polls = Rate(options.throttle)
        self._approvals = Rate(options.approvals_throttle)
        self._refusals = Rate(REFUSALS)
        self.unknown_callers = UnknownCallers(options.throttle)

    def find(self, address: str) -> VmSession | None:
        """The session of the VM with this address, else of the default VM; unknown addresses have none."""
        session = self.by_address.get(address)
        if session is not None:
            return session
        fleet = self._publisher.state.fleet
        vm = fleet.by_address.get(address)
        if vm is None and self._default is not None:
            vm = fleet.vms.get(self._default)
        return None if vm is None else self.by_address.get(vm.address) or self._open(vm)

    def _open(self, vm: Vm) -> VmSession:
        page = self._publisher.open_page_of(vm)
        refusals = Bucket(self._refusals)
        session = self.by_address[vm.address] = VmSession(
            vm, page, Bucket(self._polls), Bucket(self._approvals), refusals
        )
        return session

    def is_known(self, address: str) -> bool:
        """Whether requests from there are those of a VM."""
        return address in self.by_address or self.find(address) is not None

    def admit(self, address: str, data: bytes, now: float) -> bool:
        """Whether a request that begins like this may cost something: it takes a token of the caller (A08, S29).

        Nothing else of it is looked at yet. Approvals, which are POSTs, have a bucket of their own.
        """
        session = self.by_address.get(address) or self.find(address)
        if session is None:
            return self.unknown_callers.take(address, now)
        is_post = data[:FIRST_BYTES].lstrip(b"\r\n").startswith(b"P")
        return (session.approvals if is_post else session.polls).take(now)

    def is_patient_with(self, address: str, now: float) -> bool:
        """Whether a caller that asks too often may keep its connection; who makes nothing but noise may not."""
        session = self.find(address)
        return (self.unknown_callers if session is None else session).refusals.take(now)

    def page_of(self, session: VmSession) -> ScopePage:
        """The page that a VM reads now."""
        session.page = page = self._publisher.open_page(session.scope)
        return page

    def forget(self, addresses: Collection[str]) -> None:
        """The VMs of these addresses were added, removed or changed."""
        for address in self.by_address.keys() & addresses:
            del self.by_address[address]


def plain_address(address: str) -> str:
    """The address as the fleet writes it: an IPv4 caller on an IPv6 socket is still an IPv4 caller."""
    return address.removeprefix(_MAPPED) if "." in address else address
