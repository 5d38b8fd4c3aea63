"""What the fleet file of a node changes: only what it says otherwise than when it was applied last (N21, S31).

    the file of this node           what its things do
    was applied before              new ones come, changed ones change, dropped ones go
    is new, and others were applied those that were never there come; nothing changes, nothing goes
    is the first of all             the fleet becomes what it says

What has left the fleet in any other way than by a file stays away. An instance of a scale set follows the declared
capacity, when that is declared otherwise than before.
"""

from collections.abc import Mapping
from typing import NamedTuple

from duenotice.domain import last_applied
from duenotice.domain.commands import ApplyFleet
from duenotice.domain.fleet import Declaration, Fleet, Group, Host, LastApplied, Vm
from duenotice.domain.last_applied import HOST, SCALE_SET, SITE, VM, is_away, is_instance
from duenotice.errors import Refused


class Wanted(NamedTuple):
    """How a fleet is to change. `vms` are as declared: some may be there as they are."""

    hosts: tuple[Host, ...]
    groups: tuple[Group, ...]
    vms: Mapping[str, Vm]
    gone_vms: Mapping[str, None]
    gone_groups: tuple[str, ...]
    gone_hosts: tuple[str, ...]


class Says(NamedTuple):
    """By keys: what a file says newly, and what it says no longer."""

    new: set[str]
    dropped: set[str]


def whole(fleet: Fleet, declared: Declaration) -> Wanted:
    """The fleet becomes what is declared."""
    hosts = {host.name: host for host in declared.hosts}
    groups = {group.key: group for group in declared.groups}
    vms = {vm.name: vm for vm in declared.vms}
    return Wanted(
        hosts=tuple(host for host in hosts.values() if host.name not in fleet.hosts),
        groups=tuple(group for key, group in groups.items() if fleet.groups.get(key) != group),
        vms=vms,
        gone_vms=dict.fromkeys(name for name in fleet.vms if name not in vms),
        gone_groups=tuple(key for key in fleet.groups if key not in groups),
        gone_hosts=tuple(name for name in fleet.hosts if name not in hosts),
    )


def file_of(command: ApplyFleet) -> LastApplied | None:
    """What is remembered of the file that is applied, if it is one."""
    if command.node is None:
        return None
    lines = last_applied.packed(last_applied.lines_of(command.declaration))
    return LastApplied(command.node, command.declaration.digest, command.text, lines)


def newly_said(fleet: Fleet, declared: Declaration, says: Says) -> Wanted:
    """How the fleet changes by what a file says newly; with the hosts and groups that have to be there for it."""
    vms = {vm.name: vm for vm in declared.vms if _key(vm) in says.new}
    gone_vms = _gone(fleet, says, vms)
    hosts = {vm.host for vm in vms.values()}
    groups = {vm.group for vm in vms.values()}
    wanted = Wanted(
        hosts=tuple(
            host
            for host in declared.hosts
            if host.name not in fleet.hosts and (HOST + host.name in says.new or host.name in hosts)
        ),
        groups=tuple(
            group
            for group in declared.groups
            if fleet.groups.get(group.key) != group
            and (group.key in says.new or (group.key in groups and group.key not in fleet.groups))
        ),
        vms=vms,
        gone_vms=gone_vms,
        gone_groups=(),
        gone_hosts=(),
    )
    _refuse_taken_address(fleet, wanted)
    return _without_what_is_used(fleet, wanted, says.dropped)


def said_by(fleet: Fleet, file: LastApplied) -> Says:
    """What the file of a node says newly, by the table above."""
    now, before = last_applied.by_key(file.lines), fleet.last_applied.get(file.node)
    if before is not None:
        then = last_applied.by_key(before.lines)
        new = {key for key, said in now.items() if then.get(key) != said and not _stays_away(fleet, key, then)}
        return Says(new, {key for key in then if key not in now})
    if fleet.last_applied:
        return Says({key for key in now if is_away(fleet, key) and key not in fleet.removed}, set())
    if fleet.digest == file.digest:
        return Says(set(), set())
    here = {SITE, *map(HOST.__add__, fleet.hosts), *fleet.groups}
    here.update(VM + vm.name for vm in fleet.vms.values() if not is_instance(vm.group))
    return Says({key for key in now if not _stays_away(fleet, key, {})}, {key for key in here if key not in now})


def _stays_away(fleet: Fleet, key: str, then: Mapping[str, str]) -> bool:
    """What was removed in another way than by a file, or is not there although this file said it all the time (S31)."""
    was_said = key in then and key.startswith((VM, SCALE_SET))
    return is_away(fleet, key) and (was_said or fleet.removed.get(key) is False)


def _key(vm: Vm) -> str:
    return vm.group if vm.group is not None and is_instance(vm.group) else VM + vm.name


def _gone(fleet: Fleet, says: Says, vms: Mapping[str, Vm]) -> dict[str, None]:
    """VMs that are dropped, and instances that a scale set does not have with the capacity that is new."""
    sets = {key for key in says.new if is_instance(key)}
    if not says.dropped and not sets:
        return {}
    return dict.fromkeys(
        name for name, vm in fleet.vms.items() if (key := _key(vm)) in says.dropped or (key in sets and name not in vms)
    )


def _without_what_is_used(fleet: Fleet, wanted: Wanted, dropped: set[str]) -> Wanted:
    """Hosts and groups that are dropped, but not those of VMs that are still there: another node's file has these."""
    hosts = {name for name in fleet.hosts if HOST + name in dropped}
    groups = {key for key in fleet.groups if key in dropped}
    if hosts or groups:
        left = (vm for vm in fleet.vms.values() if vm.name not in wanted.gone_vms and vm.name not in wanted.vms)
        for vm in (*left, *wanted.vms.values()):
            hosts -= {vm.host, vm.declared_host, vm.away_from}
            groups.discard(vm.group or "")
    return wanted._replace(
        gone_hosts=tuple(name for name in fleet.hosts if name in hosts),
        gone_groups=tuple(key for key in fleet.groups if key in groups),
    )


def _refuse_taken_address(fleet: Fleet, wanted: Wanted) -> None:
    """In one file no address is used twice; in the files of two nodes one may be."""
    for vm in wanted.vms.values():
        other = fleet.by_address.get(vm.address)
        if other is None or other.name == vm.name or other.name in wanted.gone_vms:
            continue
        after = wanted.vms.get(other.name, other)
        if after.address == vm.address:
            raise Refused(
                f"The address {vm.address} of the VM {vm.name!r} is the address of {other.name!r}, "
                "which is in the fleet and not in this file.",
                hint="Give each its own; or make the fleet what this file says with 'duenotice fleet apply FILE'.",
            )
