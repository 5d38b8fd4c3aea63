"""The fleet: VMs, groups, hosts and the site; the scope and the update domain of a VM; reports about hosts.

The scope of a VM is the set of VMs that share its document (E01-E05): who is told of an event.
"""

from datetime import datetime
from enum import Enum

from msgspec import Struct, structs

from duenotice.errors import InvariantBroken

PLACEMENT_GROUP_SIZE = 100
"""A scale set is cut into placement groups of at most this many VMs (E05)."""

LARGEST_SCALE_SET = 1_000_000


class GroupKind(Enum):
    """What kind of group VMs are in; the value is the first part of its key."""

    AVAILABILITY_SET = "set"
    CLOUD_SERVICE = "service"
    SCALE_SET = "scale-set"


class Condition(Enum):
    """The condition of a host."""

    HEALTHY = "healthy"
    SUSPECT = "suspect"
    """A VM has reported it (M17): nothing moves there until an operator has looked."""
    DEGRADED = "degraded"
    FAILED = "failed"
    DRAINED = "drained"
    """Out of service on purpose: nothing moves there, and what was stopped there stays so until it returns."""


class EventsPolicy(Struct, frozen=True, omit_defaults=True, gc=False):
    """What an owner says about the events of a VM or a set, None: nothing (M09).

    The first three approve events as soon as they are raised; the other two say who else is told, and are only kept.
    """

    user_initiated_reboot: bool | None = None
    user_initiated_redeploy: bool | None = None
    all_instances_down: bool | None = None
    event_grid_and_resource_graph: bool | None = None
    scheduled_events_api_version: str | None = None

    def over(self, other: "EventsPolicy") -> "EventsPolicy":
        """This one, and where it says nothing the other."""
        both = zip(structs.astuple(self), structs.astuple(other), strict=True)
        return EventsPolicy(*(theirs if ours is None else ours for ours, theirs in both))

    def usual(self) -> "EventsPolicy":
        """The same; the one that says nothing is always the same object, which costs no room in a journal."""
        return SAYS_NOTHING if self == SAYS_NOTHING else self


SAYS_NOTHING = EventsPolicy()


class Displaced(Struct, frozen=True, omit_defaults=True, gc=False):
    """Of a VM that was moved because its host was drained: the host it goes back to, and where the fleet file put it.

    Who moves it on to yet another host has other plans with it.
    """

    away_from: str
    declared_host: str | None = None


class Vm(Struct, frozen=True, omit_defaults=True, gc=False):
    """One virtual machine. `host` is where it runs, `placement` where the fleet file put it, or for the few that are
    away from there, `Displaced`: one more field would cost a fleet of a million VMs 16 MB. For the same reason
    `placement_group` is below 0, ~ of its number, where the VM is told alone.
    """

    name: str
    address: str
    group: str | None = None
    placement_group: int | None = None
    update_domain: int | None = None
    fault_domain: int | None = None
    zone: str | None = None
    host: str | None = None
    placement: str | Displaced | None = None
    spot: bool = False
    size: str = "Standard_D2s_v5"
    os: str = "Linux"
    tags: tuple[tuple[str, str], ...] = ()
    events_policy: EventsPolicy = SAYS_NOTHING

    @property
    def declared_host(self) -> str | None:
        """Where the fleet file put it."""
        return self.placement.declared_host if isinstance(self.placement, Displaced) else self.placement

    @property
    def away_from(self) -> str | None:
        """The host that it was moved away from because that was drained."""
        return self.placement.away_from if isinstance(self.placement, Displaced) else None

    @property
    def is_told_alone(self) -> bool:
        """Whether its scale set tells only the VMs that are hit (E05)."""
        return self.placement_group is not None and self.placement_group < 0

    @property
    def placed_in(self) -> int | None:
        """The number of its placement group."""
        return (
            ~self.placement_group if self.placement_group is not None and self.is_told_alone else self.placement_group
        )

    def moved_to(self, host: str | None, away_from: str | None = None) -> "Vm":
        """The same VM on another host."""
        return structs.replace(self, host=host, placement=placement_of(self.declared_host, away_from))


def placement_of(declared_host: str | None, away_from: str | None) -> str | Displaced | None:
    """The placement of a VM that the fleet file put here, and that is away from there, if it is."""
    return declared_host if away_from is None else Displaced(away_from, declared_host)


class Group(Struct, frozen=True, omit_defaults=True):
    """A cloud service, availability set or scale set; `terminate_notice` in seconds, None when off (G05).

    `os_image_notice` says whether instances are told before their OS image is replaced (M15). `addresses`, `spot` and
    `zone` are what new instances of a scale set are made with. One with `tells_only_hit` tells of an event only the VMs
    that it hits (E05).
    """

    kind: GroupKind
    name: str
    update_domains: int = 5
    fault_domains: int = 2
    terminate_notice: int | None = None
    addresses: str = ""
    spot: bool = False
    zone: str | None = None
    events_policy: EventsPolicy = SAYS_NOTHING
    tells_only_hit: bool = False
    os_image_notice: bool = False

    @property
    def key(self) -> str:
        """Names the group among all kinds: `set/web`."""
        return f"{self.kind.value}/{self.name}"

    def instance(self, number: int, address: str) -> Vm:
        """The instance of a scale set with this number, spread in turn over the domains (E05, E06)."""
        place = number // PLACEMENT_GROUP_SIZE
        return Vm(
            name=f"{self.name}_{number}",
            address=address,
            group=self.key,
            placement_group=~place if self.tells_only_hit else place,
            update_domain=number % self.update_domains,
            fault_domain=number % self.fault_domains,
            zone=self.zone,
            spot=self.spot,
        )


class Host(Struct, frozen=True, omit_defaults=True):
    """A physical machine."""

    name: str
    condition: Condition = Condition.HEALTHY


class Site(Struct, frozen=True, omit_defaults=True):
    """What all VMs of the fleet have in common in their instance metadata (A12)."""

    location: str = "local"
    resource_group: str = "duenotice"
    subscription_id: str = "00000000-0000-0000-0000-000000000000"


class Declaration(Struct, frozen=True):
    """A whole fleet as a fleet file declares it; `digest` tells one declaration from another, not one text."""

    digest: str
    site: Site = Site()
    hosts: tuple[Host, ...] = ()
    groups: tuple[Group, ...] = ()
    vms: tuple[Vm, ...] = ()


class LastApplied(Struct, frozen=True, omit_defaults=True):
    """What the fleet file of a node said when it was applied last (N21); a node on its own has no name here.

    `digest` is that of its declaration, `text` that of its text. `lines` has one line for each thing that it declares:
    its key and a hash, all compressed. It is left out where another one with this digest has it.
    """

    node: str
    digest: str
    text: str = ""
    lines: bytes = b""


class Fleet:
    """The fleet as it stands; changed only by `apply`.

    `by_address` has the same VMs as `vms`; `healthy_hosts` are the first two healthy hosts by name. `last_applied` has
    the fleet files by node, `removed` the keys of VMs and scale sets that are gone, and whether a fleet file dropped
    them.
    """

    __slots__ = ("by_address", "digest", "groups", "healthy_hosts", "hosts", "last_applied", "removed", "site", "vms")

    def __init__(self) -> None:
        self.digest = ""
        self.site = Site()
        self.hosts: dict[str, Host] = {}
        self.healthy_hosts: tuple[str, ...] = ()
        self.groups: dict[str, Group] = {}
        self.vms: dict[str, Vm] = {}
        self.by_address: dict[str, Vm] = {}
        self.last_applied: dict[str, LastApplied] = {}
        self.removed: dict[str, bool] = {}

    def copy(self) -> "Fleet":
        """A copy of the fleet."""
        copy = self.copy_to_read()
        copy.by_address = self.by_address.copy()
        return copy

    def copy_to_read(self) -> "Fleet":
        """A copy in which nobody is found by address."""
        copy = Fleet()
        copy.digest, copy.site = self.digest, self.site
        copy.hosts, copy.groups, copy.healthy_hosts = self.hosts.copy(), self.groups.copy(), self.healthy_hosts
        copy.vms = self.vms.copy()
        copy.last_applied, copy.removed = self.last_applied.copy(), self.removed.copy()
        return copy

    def put(self, vm: Vm) -> None:
        """A VM came or changed."""
        old = self.vms.get(vm.name)
        self.vms[vm.name] = vm
        self._give_address(vm, old)

    def remove(self, name: str) -> Vm | None:
        """A VM left; None when there was none of that name."""
        if (old := self.vms.pop(name, None)) is not None:
            self._free_address(old)
        return old

    def _give_address(self, vm: Vm, old: Vm | None) -> None:
        # A call of its own: both dicts grow with the same VM, and with a million that takes a while. Between two calls
        # other threads get a turn.
        if old is not None:
            self._free_address(old)
        self.by_address[vm.address] = vm

    def _free_address(self, vm: Vm) -> None:
        # The same change may have given it to another VM.
        if self.by_address[vm.address].name == vm.name:
            del self.by_address[vm.address]

    def say(self, of: str, policy: EventsPolicy) -> None:
        """What an owner says about events; `of` is the key of a VM (`vm/db-0`) or of a group."""
        (kind, _, name), policy = of.partition("/"), policy.usual()
        if kind == "vm" and (vm := self.vms.get(name)) is not None:
            self.put(structs.replace(vm, events_policy=policy))
        elif (group := self.groups.get(of)) is not None:
            self.groups[of] = structs.replace(group, events_policy=policy)
        else:
            raise InvariantBroken(f"There is no {of}.", hint="Please report this.")

    def on_host(self, host: str) -> list[Vm]:
        """The VMs that run on a host."""
        return [vm for vm in self.vms.values() if vm.host == host]

    def away(self, host: str) -> list[Vm]:
        """The VMs that were moved away from a host while it was drained."""
        return [vm for vm in self.vms.values() if vm.away_from == host]

    def is_drained(self, host: str) -> bool:
        """Whether a host is out of service on purpose."""
        found = self.hosts.get(host)
        return found is not None and found.condition is Condition.DRAINED

    def other_host(self, avoid: str | None) -> str | None:
        """A healthy host to move to, by name so that the choice is the same every time; None: elsewhere."""
        return next((name for name in self.healthy_hosts if name != avoid), None)


ALONE = "vm/"
"""How the key of a scope begins that is one VM."""

_OF_GROUP = "/vm/"
"""Stands between a group and a VM of it that is told alone."""

Domain = tuple[str, int | None]
"""A scope and an update domain in it."""

_CLOUD_SERVICE = f"{GroupKind.CLOUD_SERVICE.value}/"


def is_cloud_service(scope: str) -> bool:
    """Whether a scope is a cloud service, whose VMs are role instances and not IaaS VMs (B10)."""
    return scope.startswith(_CLOUD_SERVICE)


def alone_in(scope: str) -> str | None:
    """The VM that a scope is; None for a scope of several."""
    if scope.startswith(ALONE):
        return scope.removeprefix(ALONE)
    _, is_alone, name = scope.partition(_OF_GROUP)
    return name if is_alone else None


def group_of(scope: str) -> str:
    """The key of the group that a scope is, or is a placement group of; a key of no group for a single VM."""
    return "/".join(scope.split("/")[:2])


def domain_of(vm: Vm) -> Domain:
    """The scope and update domain a VM is in; an event stays within one (B06, S10)."""
    return scope_of(vm), vm.update_domain


def scope_of(vm: Vm) -> str:
    """The key of the scope of a VM.

    A standalone VM and a single VM in a zone stand alone (E01, E04); a cloud service, an availability set
    and a placement group are told as a whole (E02, E03, E05); of some scale sets each VM is told alone (E05).
    """
    if vm.group is None:
        return ALONE + vm.name
    if vm.is_told_alone:
        return f"{vm.group}{_OF_GROUP}{vm.name}"
    return scope_in(vm.group, vm.placement_group)


def scope_in(group: str, placement_group: int | None) -> str:
    """The key of the scope of those who are in a group, or in one of its placement groups."""
    return group if placement_group is None else f"{group}/{placement_group}"


MOST_REPORTS = 1000
"""Reports; the oldest that is closed goes first (S24)."""
MOST_REPORT_STEPS = 20
HOST_GONE = "gone"
"""The last step of a report whose host has left the fleet."""
_CLOSING = frozenset({Condition.HEALTHY.value, Condition.DRAINED.value, Condition.FAILED.value, HOST_GONE})
"""After these a report is closed."""


class Verdict(Enum):
    """What a category says of the host: the value is its part behind `Resource.Hpc.`."""

    HEALTHY = "Healthy"
    """Also `Reset`: what was said before does not count any more."""
    REBOOT = "Reboot"
    UNHEALTHY = "Unhealthy"
    INVESTIGATE = "Investigate"


class HealthReport(Struct, frozen=True, omit_defaults=True):
    """What a VM says of a host since when. `more` are further properties as texts.

    `steps` are the conditions that the host has had since then, each with its time.
    """

    name: str
    vm: str
    host: str
    category: str
    description: str
    began: datetime
    at: datetime
    more: tuple[tuple[str, str], ...] = ()
    steps: tuple[tuple[str, datetime], ...] = ()

    @property
    def key(self) -> str:
        """Names it among all: in upper or lower case it is the same report."""
        return self.name.lower()

    @property
    def is_open(self) -> bool:
        """Whether its host may still come into another condition that it tells of."""
        return not self.steps or self.steps[-1][0] not in _CLOSING

    def with_step(self, condition: str, at: datetime) -> "HealthReport":
        """The same, and the host is in another condition."""
        if self.steps and (
            self.steps[-1][0] == condition or (len(self.steps) >= MOST_REPORT_STEPS and condition not in _CLOSING)
        ):
            return self
        return structs.replace(self, steps=(*self.steps, (condition, at)))


def verdict_of(category: str) -> Verdict:
    """Of a category that is known: `Resource.Hpc.Unhealthy.MissingIB`."""
    word = category.split(".")[2]
    return Verdict.HEALTHY if word == "Reset" else Verdict(word)
