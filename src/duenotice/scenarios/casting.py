"""Picks who plays each role from the fleet of a running service: the same every time, those without events first."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from duenotice.client.operator.client import OperatorClient
from duenotice.errors import Malformed, Refused
from duenotice.escape import natural
from duenotice.scenarios.kinds import GROUP_KINDS, CastRole, Needs, needs_of
from duenotice.toml import near_miss
from duenotice.wire.operator import Event, Group, Host, Step, Vm

OWN_WORLD = "play it on its own service with --clock manual"
OPEN = ("running", "paused")
"""The statuses of a maintenance that is not over."""


@dataclass(frozen=True, slots=True)
class CastMember:
    """Who plays a role; `vms` are the names of its VMs, `selector` is how a maintenance chooses it."""

    name: str
    selector: str
    vms: tuple[str, ...]


class Candidates:
    """What there is to pick from, as the operator sees it."""

    def __init__(
        self,
        vms: Iterable[Vm],
        groups: Iterable[Group],
        hosts: Iterable[Host],
        steps: Iterable[Step] = (),
        events: Iterable[Event] = (),
    ) -> None:
        self.vms = sorted(vms, key=lambda vm: natural(vm.name))
        self._by_name = {vm.name: vm for vm in self.vms}
        self.groups = sorted(groups, key=lambda group: natural(group.key))
        self.hosts = sorted(hosts, key=lambda host: natural(host.name))
        self._busy = {event.scope for event in events}
        self._busy |= {step.scope for step in steps}

    @classmethod
    def of(cls, client: OperatorClient) -> "Candidates":
        """The fleet of a service."""
        steps = (step for plan in client.maintenances() if plan.status in OPEN for step in client.steps(plan.id))
        return cls(client.vms(), client.groups(), client.hosts(), steps, client.events())

    def members(self, pick: CastMember) -> list[Vm]:
        """The VMs of a pick."""
        return [self._by_name[name] for name in pick.vms]

    def by(self, key: Callable[[Vm], str | None]) -> dict[str | None, list[Vm]]:
        """The VMs that have the same group or host."""
        found: dict[str | None, list[Vm]] = {}
        for vm in self.vms:
            found.setdefault(key(vm), []).append(vm)
        return found

    def is_busy(self, pick: CastMember) -> bool:
        """Whether it already has an event or a maintenance."""
        return any(vm.scope in self._busy for vm in self.members(pick))


CastMembers = Mapping[str, CastMember]


def cast(roles: Iterable[CastRole], fleet: Candidates, told: Mapping[str, str]) -> dict[str, CastMember]:
    """Somebody for every role: the given one, else the first by name that has no events, else the first by name."""
    roles = list(roles)
    for name in told:
        if name not in (names := [role.name for role in roles]):
            raise Malformed(f"The cast has no role {name!r}.", hint=near_miss(name, names, "roles"))
    picks: dict[str, CastMember] = {}
    for role in roles:
        picks[role.name] = _pick(role, fleet, picks, told.get(role.name))
    return picks


def _pick(role: CastRole, fleet: Candidates, picks: CastMembers, told: str | None) -> CastMember:
    fitting = _FITTING[role.kind](role, fleet, picks)
    if role.is_vm:
        taken = {pick.name for pick in picks.values()}
        fitting = [pick for pick in fitting if pick.name not in taken]
    if told is not None:
        fitting = [pick for pick in fitting if pick.name == told]
    if not fitting:
        who = "Nobody here can" if told is None else f"{told!r} cannot"
        hint = f"Name another with --cast {role.name}=NAME, or {OWN_WORLD}."
        raise Refused(f"{who} play {role.name!r}: it needs {needs_of(role)}.", hint=hint)
    return next((pick for pick in fitting if not fleet.is_busy(pick)), fitting[0])


def _vms(role: CastRole, fleet: Candidates, picks: CastMembers) -> list[CastMember]:
    return [_vm(vm) for vm in fleet.vms if vm.group is None and not vm.spot]


def _spots(role: CastRole, fleet: Candidates, picks: CastMembers) -> list[CastMember]:
    return [_vm(vm) for vm in fleet.vms if vm.spot]


def _groups(role: CastRole, fleet: Candidates, picks: CastMembers) -> list[CastMember]:
    by_group = fleet.by(lambda vm: vm.group)
    return [
        _whole(group.kind, group.name, vms)
        for group in fleet.groups
        if group.kind == role.kind and _is_enough(role.needs, group, vms := by_group.get(group.key, []))
    ]


def _hosts(role: CastRole, fleet: Candidates, picks: CastMembers) -> list[CastMember]:
    by_host = fleet.by(lambda vm: vm.host)
    return [
        _whole("host", host.name, by_host.get(host.name, []))
        for host in fleet.hosts
        if host.condition == "healthy" and host.vms >= max(1, role.needs.get("vms", 1))
    ]


def _members(role: CastRole, fleet: Candidates, picks: CastMembers) -> list[CastMember]:
    """VMs of a role, those of its fullest update domain first. All are of one scope: only those are told together."""
    vms = fleet.members(picks[role.needs["of"]])
    sizes = Counter(vm.update_domain for vm in vms)
    scope = min((vm.scope for vm in vms), default="") if vms and _is_scale_set(vms[0]) else None
    by_name = {vm.name: vm for vm in vms}
    numbers = sorted(domain for domain in sizes if domain is not None)
    fitting = [
        vm
        for vm in sorted(vms, key=lambda vm: (-sizes[vm.update_domain], vm.update_domain or 0))
        if scope in (None, vm.scope) and _stands_right(role.needs, vm, by_name, picks, numbers)
    ]
    return [_vm(vm) for vm in fitting]


def _stands_right(needs: Needs, vm: Vm, by_name: Mapping[str, Vm], picks: CastMembers, numbers: list[int]) -> bool:
    beside, apart = (by_name.get(picks[needs[key]].name) if key in needs else None for key in ("beside", "apart"))
    return (
        ("beside" not in needs or (beside is not None and beside.update_domain == vm.update_domain))
        and ("apart" not in needs or (apart is not None and apart.update_domain != vm.update_domain))
        and ("domain" not in needs or numbers[needs["domain"] - 1 : needs["domain"]] == [vm.update_domain])
    )


def _is_enough(needs: Needs, group: Group, vms: list[Vm]) -> bool:
    sizes = Counter(vm.update_domain for vm in vms)
    return (
        len(vms) >= max(1, needs.get("vms", 1))
        and len(sizes) >= needs.get("update_domains", 0)
        and max(sizes.values()) >= needs.get("together", 0)
        and ("terminate_notice" not in needs or group.terminate_notice is not None)
    )


_FITTING: dict[str, Callable[[CastRole, Candidates, CastMembers], list[CastMember]]] = {
    "vm": _vms,
    "spot": _spots,
    "host": _hosts,
    "member": _members,
    **dict.fromkeys(GROUP_KINDS, _groups),
}


def _whole(kind: str, name: str, vms: list[Vm]) -> CastMember:
    return CastMember(name, f"{kind}={name}", tuple(vm.name for vm in vms))


def _vm(vm: Vm) -> CastMember:
    return CastMember(vm.name, f"vm={vm.name}", (vm.name,))


def _is_scale_set(vm: Vm) -> bool:
    return vm.placement_group is not None
