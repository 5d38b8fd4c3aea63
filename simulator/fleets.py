"""Fleets of odd shapes: what an operator has declared so far, and the fleet file that says so."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import ip_network
from itertools import islice
from random import Random

_ODD_NAMES = ("x", "web.1", "DB-main", "a" * 80, "9lives", "Frontend_IN_0", "ο".encode().hex())


@dataclass
class DeclaredVm:
    """A VM as the fleet file lists it; its machine is its address."""

    name: str
    address: str
    host: str | None = None
    update_domain: int | None = None
    spot: bool = False
    policy: str = ""

    def lines(self, table: str) -> Iterator[str]:
        """Its table of the file."""
        yield f"[[{table}]]"
        yield f'name = "{self.name}"'
        yield f'address = "{self.address}"'
        if self.host is not None:
            yield f'host = "{self.host}"'
        if self.update_domain is not None:
            yield f"update_domain = {self.update_domain}"
        if self.spot:
            yield "spot = true"
        if self.policy and table != "availability_sets.vms":  # there it belongs to the set (M14)
            yield f"policy = {{ {self.policy} = true }}"


@dataclass
class DeclaredSet:
    """An availability set or a cloud service."""

    kind: str
    name: str
    update_domains: int
    vms: list[DeclaredVm] = field(default_factory=list)


@dataclass
class DeclaredScaleSet:
    """A scale set; `most` is how many of its addresses have a machine."""

    name: str
    capacity: int
    addresses: str
    notice: str
    update_domains: int
    spot: bool
    most: int

    def machines(self) -> list[str]:
        """The addresses at which there may be an instance."""
        return [str(each) for each in islice(ip_network(self.addresses).hosts(), self.most)]


@dataclass
class DeclaredFleet:
    """All of it; operators change it and apply it again."""

    hosts: list[str]
    vms: list[DeclaredVm]
    sets: list[DeclaredSet]
    scale_sets: list[DeclaredScaleSet]
    removed: list[DeclaredVm] = field(default_factory=list)

    def text(self) -> str:
        """The fleet file."""
        lines = [line for name in self.hosts for line in ("[[hosts]]", f'name = "{name}"')]
        for vm in self.vms:
            lines += vm.lines("vms")
        for each in self.sets:
            if each.vms:
                lines += [f"[[{each.kind}]]", f'name = "{each.name}"', f"update_domains = {each.update_domains}"]
            for vm in each.vms:
                lines += vm.lines(f"{each.kind}.vms")
        for group in self.scale_sets:
            lines += ["[[scale_sets]]", f'name = "{group.name}"', f"capacity = {group.capacity}"]
            lines += [f'addresses = "{group.addresses}"', f"update_domains = {group.update_domains}"]
            lines += [f'terminate_notice = "{group.notice}"'] if group.notice else []
            lines += ["spot = true"] if group.spot else []
        return "\n".join(lines) + "\n"

    def listed(self) -> list[DeclaredVm]:
        """The VMs that the file lists one by one."""
        return [*self.vms, *(vm for each in self.sets for vm in each.vms)]

    def addresses(self) -> list[str]:
        """Where there are machines."""
        return [vm.address for vm in self.listed()] + [
            address for group in self.scale_sets for address in group.machines()
        ]

    def take_out(self, vm: DeclaredVm) -> None:
        """It is in no list any more."""
        for where in (self.vms, *(each.vms for each in self.sets)):
            if vm in where:
                where.remove(vm)


def drawn_fleet(dice: Random, count: int) -> DeclaredFleet:
    """A fleet of about so many VMs: a few hosts, VMs alone, sets, cloud services and scale sets."""
    hosts = [f"host-{number}" for number in range(dice.randint(1, 5))]
    fleet = DeclaredFleet(hosts, [], [], [])
    for number in range(dice.randint(0, 3)):
        kind = dice.choice(("availability_sets", "availability_sets", "cloud_services"))
        fleet.sets.append(DeclaredSet(kind, f"group-{number}", dice.randint(1, 5)))
    for number in range(dice.randint(0, 2)):
        capacity = dice.randint(1, 4)
        notice = dice.choice(("", "PT5M", "PT10M"))
        spot = dice.random() < 0.3
        most = capacity + 2
        network = f"10.1.{number}.0/28"
        fleet.scale_sets.append(
            DeclaredScaleSet(f"batch{number}", capacity, network, notice, dice.randint(1, 5), spot, most)
        )
        count -= capacity
    names = list(_ODD_NAMES)
    dice.shuffle(names)
    for number in range(max(1, count)):
        name = names.pop() if names and dice.random() < 0.2 else f"vm-{number}"
        vm = DeclaredVm(name, f"10.0.0.{number + 1}", dice.choice([*hosts, None]), spot=dice.random() < 0.1)
        place = dice.choice([None, *fleet.sets])
        put(fleet, vm, place, dice)
    return fleet


def put(fleet: DeclaredFleet, vm: DeclaredVm, place: DeclaredSet | None, dice: Random) -> None:
    """Declare a VM in a set, or alone."""
    if place is None:
        vm.update_domain = None
        fleet.vms.append(vm)
    else:
        vm.update_domain = dice.randrange(place.update_domains)
        place.vms.append(vm)
