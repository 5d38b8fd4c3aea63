"""What an observer can see of a running service, moment by moment; the checkers of the promises read nothing else.

`World` follows where VMs stand from the records alone. It is written again here, not imported from the domain: a
checker that shares a rule with what it checks would share its mistakes.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple

from msgspec import structs

from duenotice.clock import Instant
from duenotice.domain import records as t
from duenotice.domain.commands import Command
from duenotice.domain.event import Cause, Event, EventType, Phase
from duenotice.domain.fleet import Group, GroupKind, Vm
from duenotice.errors import DuenoticeError

NEWEST = "2024-07-09"


class Outcome(Enum):
    """What a caller was told."""

    DONE = "done"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class Answer(NamedTuple):
    """The answer to one command; `actor` is given to no other command, so that its records can be told."""

    actor: str
    command: Command
    outcome: Outcome
    records: tuple[t.Record, ...] = ()
    error: DuenoticeError | None = None


class Committed(NamedTuple):
    """A record, when it was decided and when it could first be seen."""

    record: t.Record
    decided: Instant
    visible: Instant


class Absence(NamedTuple):
    """A time in which nobody could be answered, as the clock of the service saw it before and after."""

    begun: Instant
    ended: Instant


@dataclass(frozen=True)
class Moment:
    """What has become of the service since the moment before.

    `documents` are the bytes that each VM reads in each api-version now. `reread` is the whole journal as a new
    process found it, None unless one was started since. `absences` came before all the rest.
    """

    now: Instant
    committed: tuple[Committed, ...] = ()
    answers: tuple[Answer, ...] = ()
    documents: Mapping[tuple[str, str], bytes] = field(default_factory=dict)
    reread: tuple[t.Record, ...] | None = None
    absences: tuple[Absence, ...] = ()

    def shown(self) -> Iterable[tuple[str, dict[str, Any]]]:
        """Each VM with each event it reads in the newest version."""
        for (vm, version), body in self.documents.items():
            if version == NEWEST:
                for event in parsed(body)["Events"]:
                    yield vm, event

    def shown_ids(self) -> Iterable[tuple[str, str]]:
        """Each VM with the id of each event it reads."""
        return ((vm, event["EventId"]) for vm, event in self.shown())


@lru_cache(maxsize=4096)
def parsed(body: bytes) -> dict[str, Any]:
    """A document; to be read, not changed."""
    document: dict[str, Any] = json.loads(body)
    return document


class World:
    """Where VMs stand and which scopes listen, as the records tell it."""

    def __init__(self) -> None:
        self.vms: dict[str, Vm] = {}
        self.groups: dict[str, Group] = {}
        self.listening: set[str] = set()
        self._under_way: dict[str, Event] = {}

    def see(self, transition: t.Transition) -> None:
        """Follow one change."""
        match transition:
            case t.VmsPut(vms):
                for vm in vms:
                    self._leave(vm.name, unless=scope_of(vm))
                    self.vms[vm.name] = vm
            case t.VmsRemoved(names):
                for name in names:
                    self._leave(name)
                    self.vms.pop(name, None)
            case t.GroupsPut(groups):
                self.groups.update((group.key, group) for group in groups)
            case t.GroupsRemoved(keys):
                self.listening = {scope for scope in self.listening if not scope.startswith(keys)}
            case t.ScopeEnabled(scope):
                self.listening.add(scope)
            case t.ScopeDisabled(scope):
                self.listening.discard(scope)
            case t.EventsPolicySet(of, policy) if of.startswith("vm/"):
                self.vms[of[3:]] = structs.replace(self.vms[of[3:]], events_policy=policy)
            case t.EventsPolicySet(of, policy):
                self.groups[of] = structs.replace(self.groups[of], events_policy=policy)
            case t.EventRaised(event) | t.EventMoved(event) | t.EventNarrowed(event) | t.EventStarted(event):
                if event.phase is Phase.STARTED:
                    self._under_way[event.id] = event
            case t.EventCompleted(event_id) | t.EventFailed(event_id):
                self._under_way.pop(event_id, None)

    def _leave(self, name: str, unless: str | None = None) -> None:
        # Whether the scope of a single VM still listens once the VM is gone is nobody's business.
        if unless != f"vm/{name}":
            self.listening.discard(f"vm/{name}")

    def owner_has_approved(self, event: Event) -> bool:
        """Whether a new event was approved beforehand by the owner of each VM that it hits (M09), and says so."""
        if event.approved_by != "policy":
            return False
        key = {EventType.REBOOT: "user_initiated_reboot", EventType.REDEPLOY: "user_initiated_redeploy"}.get(event.type)
        if key is not None and event.cause is Cause.USER and self._all_say(event, key):
            return True
        return self._all_say(event, "all_instances_down") and self._nobody_is_up(event.scope)

    def _all_say(self, event: Event, key: str) -> bool:
        return all(self._says(self.vms[name], key) for name in event.resources)

    def _says(self, vm: Vm, key: str) -> bool:
        group = self.groups.get(vm.group or "")
        owned = vm if group is None or group.kind is GroupKind.CLOUD_SERVICE else group
        said = getattr(owned.events_policy, key)
        return key == "all_instances_down" if said is None else bool(said)  # the usual (M14)

    def _nobody_is_up(self, scope: str) -> bool:
        hits = [event for event in self._under_way.values() if event.scope == scope]
        down = {name for event in hits if event.type is not EventType.FREEZE for name in event.resources}
        return all(vm.name in down for vm in self.vms.values() if scope_of(vm) == scope)

    def scope(self, name: str) -> str | None:
        """The circle a VM shares its document with; None for a VM that is not there."""
        vm = self.vms.get(name)
        return None if vm is None else scope_of(vm)


def scope_of(vm: Vm) -> str:
    """The circle a VM shares its document with (E01-E05)."""
    if vm.group is None:
        return f"vm/{vm.name}"
    return vm.group if vm.placement_group is None else f"{vm.group}/{vm.placement_group}"
