"""From the fleet as it stands to the fleet as declared, as the smallest set of changes; events are kept.

A fleet file changes only what it says otherwise than when it was applied last (N21, S31):

    the file of this node           what its things do
    was applied before              new ones come, changed ones change, dropped ones go
    is new, and others were applied those that were never there come; nothing changes, nothing goes
    is the first of all             the fleet becomes what it says

What has left the fleet in any other way than by a file stays away. An instance of a scale set follows the declared
capacity, when that is declared otherwise than before.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from msgspec import structs

from duenotice.clock import Instant
from duenotice.domain import commands as c
from duenotice.domain import last_applied
from duenotice.domain import records as t
from duenotice.domain.bulk import chunks
from duenotice.domain.commands import ApplyFleet
from duenotice.domain.event import Event, Phase
from duenotice.domain.fleet import Declaration, Domain, Fleet, Group, Host, LastApplied, Vm, domain_of, placement_of
from duenotice.domain.last_applied import HOST, SCALE_SET, SITE, VM, is_away, is_instance
from duenotice.domain.policy import Policy
from duenotice.domain.rules.lifecycle import deserted, needless
from duenotice.domain.state import State
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
    gone_vms = _dropped(fleet, says, vms)
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


def _dropped(fleet: Fleet, says: Says, vms: Mapping[str, Vm]) -> dict[str, None]:
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


After = Callable[[str], Vm | None]
"""A VM of this name as it is after a change, if it is there."""


def apply_fleet(state: State, command: c.ApplyFleet, now: Instant, policy: Policy) -> list[t.Transition]:
    """Everything that must change; nothing when the fleet already is as declared."""
    declared, fleet, file = command.declaration, state.fleet, file_of(command)
    if file is None:
        return _whole(state, command)
    before = fleet.last_applied.get(file.node)
    if before is not None and before.digest == file.digest:
        return []
    says = said_by(fleet, file)
    changes = _changes(state, command, newly_said(fleet, declared, says))
    is_known = any(other.digest == file.digest for other in fleet.last_applied.values())
    return [
        *changes,
        t.FleetDeclared(
            declared.digest if before is not None or not fleet.last_applied else fleet.digest,
            declared.site if SITE in says.new else fleet.site,
            structs.replace(file, lines=b"") if is_known else file,
        ),
    ]


def _whole(state: State, command: c.ApplyFleet) -> list[t.Transition]:
    declared, fleet = command.declaration, state.fleet
    changes = _changes(state, command, whole(fleet, declared))
    if changes or fleet.digest != declared.digest or fleet.site != declared.site:
        changes.append(t.FleetDeclared(declared.digest, declared.site))
    return changes


def _changes(state: State, command: c.ApplyFleet, wanted: Wanted) -> list[t.Transition]:
    declared, fleet = command.declaration, state.fleet
    if wanted.gone_vms and not declared.vms and not command.may_be_empty:
        # More likely a file that was cut short than intended: it would remove every VM at once.
        raise Refused(
            f"The declared fleet is empty and would remove all {len(wanted.gone_vms)} VMs.",
            hint="Declare at least one VM; to take VMs away, delete them.",
        )
    gone_hosts = frozenset(wanted.gone_hosts)
    hosts = {name for name in fleet.hosts if name not in gone_hosts}.union(host.name for host in wanted.hosts)
    placed = (_placed(vm, fleet.vms.get(vm.name), hosts) for vm in wanted.vms.values())
    changed = (vm for vm in placed if fleet.vms.get(vm.name) != vm)
    changes: list[t.Transition] = []
    changes += [t.HostsPut(wanted.hosts)] if wanted.hosts else []
    changes += [t.GroupsPut(wanted.groups)] if wanted.groups else []
    # Removals first: an address may pass from a VM that goes to one that comes.
    changes += [t.VmsRemoved(names, by_file=True) for names in chunks(wanted.gone_vms)]
    changes += [t.VmsPut(chunk) for chunk in chunks(changed)]
    hit = _hit_among(changes, state)
    after = partial(_afterwards, fleet, wanted)
    changes += _events_follow(state, hit, after, _moved(state, hit, _put_by(changes) if hit else ()))
    changes += [t.GroupsRemoved(wanted.gone_groups)] if wanted.gone_groups else []
    changes += [t.HostsRemoved(wanted.gone_hosts)] if wanted.gone_hosts else []
    return changes


def _afterwards(fleet: Fleet, wanted: Wanted, name: str) -> Vm | None:
    if (vm := wanted.vms.get(name)) is not None:
        return vm
    return None if name in wanted.gone_vms else fleet.vms.get(name)


def _hit_among(changes: Iterable[t.Transition], state: State) -> set[str]:
    """The VMs that leave or change while they are in an event; a set of all that do would be a million names."""
    return {
        name
        for change in (changes if state.events_by_vm else ())
        for name in t.vms_touched_by(change)
        if name in state.events_by_vm
    }


def _put_by(changes: Iterable[t.Transition]) -> Iterator[Vm]:
    return (vm for change in changes if isinstance(change, t.VmsPut) for vm in change.vms)


def _moved(state: State, hit: set[str], placed: Iterable[Vm]) -> dict[str, Vm]:
    """Those that are in an event and on another host than before."""
    before = state.fleet.vms
    return {vm.name: vm for vm in placed if vm.name in hit and vm.name in before and before[vm.name].host != vm.host}


def _events_follow(state: State, names: set[str], after: After, moved: dict[str, Vm]) -> list[t.Transition]:
    """A VM that comes to another scope takes its events along: a VM that will be hit must still be told.

    The same holds for a VM that was away for a while: its events have waited in its old scope. It also holds when the
    other VMs of its event have left the fleet. If VMs are separated while they are hit, those that have left the update
    domain of the event leave the event for good. What happens to each event depends only on the fleet as declared.
    """
    events = [event for event in state.events.values() if not names.isdisjoint(event.resources)]
    return [change for event in events for change in _fate(state, event, after, moved)]


def _fate(state: State, event: Event, after: After, moved: dict[str, Vm]) -> list[t.Transition]:
    domains = {name: domain_of(vm) for name in event.resources if (vm := after(name)) is not None}
    if not domains:
        return deserted(state, event)
    if event.phase is Phase.SCHEDULED and len(set(domains.values())) > 1:
        return [t.EventCancelled(event.id, event.scope, "Its VMs are no longer in one update domain.")]
    if event.is_advice and not all(vm.spot for name in domains if (vm := after(name)) is not None):
        return [t.EventCancelled(event.id, event.scope, "Its VMs are no longer spot VMs.")]
    if not moved.keys().isdisjoint(event.resources) and (cancelled := needless(state, event, moved)):
        return cancelled
    place, changes = _place_of(event, list(domains.values())), list[t.Transition]()
    stay = tuple(name for name in event.resources if domains.get(name, place) == place)
    if stay != event.resources:
        event = event.with_(resources=stay)
        changes.append(t.EventNarrowed(event))
    if place != (event.scope, event.update_domain):
        scope, update_domain = place
        # Fault domains of one set mean nothing in another: from now on its update domain is what counts (S11).
        fault_domain = event.fault_domain if scope == event.scope and update_domain is not None else None
        there = event.with_(scope=scope, update_domain=update_domain, fault_domain=fault_domain)
        changes.append(t.EventMoved(there, event.scope))
    return changes


def _place_of(event: Event, domains: list[Domain]) -> Domain:
    """Where an event stays: where it is if a VM of it is still there, else where most of its VMs have gone (S10)."""
    here = (event.scope, event.update_domain)
    return here if here in domains else Counter(domains).most_common(1)[0][0]


def _placed(declared: Vm, present: Vm | None, hosts: set[str]) -> Vm:
    """A declared VM where it belongs: one that was moved since stays, unless the file now says otherwise."""
    host = declared.host
    if present is not None and present.declared_host == declared.host:
        host = present.host if present.host is None or present.host in hosts else declared.host
    stays = present is not None and present.host == host and present.away_from in hosts
    # One that somebody has moved on, or whose old host is gone, does not go back there.
    away_from = present.away_from if present is not None and stays else None
    return structs.replace(declared, host=host, placement=placement_of(declared.host, away_from))
