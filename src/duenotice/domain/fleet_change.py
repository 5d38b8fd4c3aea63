"""From the fleet as it stands to the fleet as declared, as the smallest set of changes; events are kept."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from msgspec import structs

from duenotice.clock import Instant
from duenotice.domain import commands as c
from duenotice.domain import transitions as t
from duenotice.domain.ending import deserted, needless
from duenotice.domain.event import Event, Phase
from duenotice.domain.fleet import Fleet, Vm, home
from duenotice.domain.fleet_file import Wanted, file_of, newly_said, said_by, whole
from duenotice.domain.last_applied import SITE
from duenotice.domain.pieces import chunks
from duenotice.domain.policy import Policy
from duenotice.domain.scope import Domain, domain_of
from duenotice.domain.state import State
from duenotice.errors import Refused

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
    return {name for change in (changes if state.on else ()) for name in change.touched_vms if name in state.on}


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
    home, changes = _home(event, list(domains.values())), list[t.Transition]()
    stay = tuple(name for name in event.resources if domains.get(name, home) == home)
    if stay != event.resources:
        event = event.with_(resources=stay)
        changes.append(t.EventNarrowed(event))
    if home != (event.scope, event.update_domain):
        scope, update_domain = home
        changes.append(t.EventMoved(event.with_(scope=scope, update_domain=update_domain), event.scope))
    return changes


def _home(event: Event, domains: list[Domain]) -> Domain:
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
    return structs.replace(declared, host=host, home=home(declared.host, away_from))
