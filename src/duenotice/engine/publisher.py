"""What readers may see: durable documents and fleet, one page per scope, and who waits for a change.

The engine decides ahead of the disk; the publisher is told only after the commit, so a reader never meets
anything that a crash could take back.
"""

from collections.abc import Callable, Iterable, Sequence

from duenotice.domain.document import EMPTY, Document
from duenotice.domain.event import Event
from duenotice.domain.fleet import Group, Host, Site, Vm
from duenotice.domain.maintenance import Maintenance
from duenotice.domain.scope import ALONE, group_of, scope_of
from duenotice.domain.state import State
from duenotice.domain.token import Token
from duenotice.domain.transitions import (
    EventApproved,
    EventCancelled,
    EventCompleted,
    EventFailed,
    EventMoved,
    EventNarrowed,
    EventPostponed,
    EventRaised,
    EventStarted,
    FleetDeclared,
    GroupsPut,
    GroupsRemoved,
    HostsPut,
    HostsRemoved,
    ImpactAccepted,
    ImpactFailed,
    IncarnationsLifted,
    MaintenanceChanged,
    MaintenanceStarted,
    Record,
    ScopeDisabled,
    ScopeEnabled,
    StepBegun,
    StepEnded,
    TokenCreated,
    TokenRevoked,
    VmsPut,
    VmsRemoved,
)
from duenotice.engine.names import Names
from duenotice.wire.api_versions import API_VERSIONS

_NOTHING_RENDERED: list[bytes | None] = [None] * len(API_VERSIONS)
"""Shared by every page that never had an event: 100,000 quiet VMs need their answer rendered once."""


_WOKEN_AT_ONCE = 256
"""Watchers called in one turn of the loop; uvloop sends what they wrote when the turn ends."""


class Page:
    """What one scope is shown now.

    `rendered` has a place per api-version for the bytes that a door makes of the document; a new document
    brings a new empty list. `last_poll` is in steady seconds. `watchers` are called once, at the next change.
    """

    __slots__ = ("document", "enabled", "last_poll", "rendered", "scope", "watchers")

    def __init__(self, scope: str, document: Document, enabled: bool, now: float) -> None:
        self.scope = scope
        self.enabled = enabled
        self.last_poll = now
        self.watchers: dict[object, Callable[[], None]] = {}
        self.show(document)

    def show(self, document: Document) -> None:
        """Replace the document and drop what was rendered of the old one."""
        self.document = document
        self.rendered: list[bytes | None] = _NOTHING_RENDERED if document is EMPTY else [None] * len(API_VERSIONS)

    def watch(self, key: object, callback: Callable[[], None]) -> None:
        """Call back once, when the document next changes."""
        self.watchers[key] = callback

    def unwatch(self, key: object) -> None:
        """Forget a watcher; no matter whether it was called already."""
        self.watchers.pop(key, None)


class Publisher:
    """The durable view of everything a VM may ask for."""

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self.by_address: dict[str, Vm] = {}
        self.by_name: dict[str, Vm] = {}
        self.names = Names(self.by_name)
        self.groups: dict[str, Group] = {}
        self.hosts: dict[str, Host] = {}
        self.tokens: dict[str, Token] = {}
        self.digest = ""
        self.maintenances: dict[str, Maintenance] = {}
        self.site = Site()
        self._call_soon = call_soon
        self._pages: dict[str, Page] = {}
        self._documents: dict[str, Document] = {}
        self._enabled: set[str] = set()
        self._quiet = EMPTY
        self._opened_at = 0.0
        self._fleet_watchers: list[Callable[[Iterable[str]], None]] = []

    def open(self, state: State, now: float) -> None:
        """Begin with a state that is durable as a whole."""
        self._opened_at = now
        self.site, self.groups = state.fleet.site, dict(state.fleet.groups)
        self.hosts, self.digest = dict(state.fleet.hosts), state.fleet.digest
        self.maintenances, self.tokens = state.maintenances, dict(state.tokens)
        self.by_name = dict(state.fleet.vms)
        self.names = Names(self.by_name)
        self.by_address = {vm.address: vm for vm in self.by_name.values()}
        self._quiet = state.quiet_document
        self._documents = {key: state.document(key) for key, scope in state.scopes.items() if scope.incarnation}
        self._enabled = {key for key, scope in state.scopes.items() if scope.enabled}

    def page_of(self, vm: Vm) -> Page:
        """The page a VM reads; made when first asked for."""
        scope = scope_of(vm)
        page = self._pages.get(scope)
        if page is None:
            document = self._documents.get(scope, self._quiet)
            page = self._pages[scope] = Page(scope, document, scope in self._enabled, self._opened_at)
        return page

    def events(self) -> list[Event]:
        """All live events."""
        return [event for document in self._documents.values() for event in document.events]

    def document_of(self, vm: Vm) -> Document:
        """What a VM is shown, without counting as a look of its own."""
        return self._documents.get(scope_of(vm), self._quiet)

    def listens(self, vm: Vm) -> bool:
        """Whether anybody of the VM's scope asks for its document (F01)."""
        return scope_of(vm) in self._enabled

    def listening(self) -> int:
        """How many scopes listen."""
        return len(self._enabled)

    def watch_fleet(self, callback: Callable[[Iterable[str]], None]) -> None:
        """Call back with the addresses whose VM came, went or changed."""
        self._fleet_watchers.append(callback)

    def silent_scopes(self, now: float, silence: float) -> tuple[str, ...]:
        """The enabled scopes that asked for nothing for so long; a restart counts as a request."""
        return tuple(scope for scope in self._enabled if now - self._last_poll(scope) >= silence)

    def publish(self, state: State, records: Sequence[Record], now: float) -> None:
        """Let committed records be seen."""
        if any(isinstance(record.transition, IncarnationsLifted) for record in records):
            self.republish(state, now)
            return
        changed: set[str] = set()
        noted: set[str] = set()
        addresses: set[str] = set()
        plans = False
        for record in records:
            match record.transition:
                case EventRaised(event) | EventPostponed(event) | EventStarted(event) | EventNarrowed(event):
                    changed.add(event.scope)
                case EventApproved(scope=scope) | ImpactFailed(scope=scope) | ImpactAccepted(scope=scope):
                    noted.add(scope)
                case EventMoved(event, from_scope):
                    changed |= {event.scope, from_scope}
                case EventCompleted(scope=scope) | EventCancelled(scope=scope) | EventFailed(scope=scope):
                    changed.add(scope)
                case ScopeEnabled(scope):
                    self._enable(scope, now)
                case ScopeDisabled(scope):
                    self._disable(scope)
                case VmsPut(vms):
                    for vm in vms:
                        self._put(vm, changed, addresses)
                case VmsRemoved(names):
                    for name in names:
                        self._remove(name, changed, addresses)
                case MaintenanceStarted() | MaintenanceChanged() | StepBegun() | StepEnded():
                    # As a whole: plans that are long over leave the state, and so must leave here (S24).
                    plans = True
                case GroupsRemoved(keys):
                    for key in keys:
                        self.groups.pop(key, None)
                    known = self._pages.keys() | self._documents.keys() | self._enabled
                    changed |= {scope for scope in known if group_of(scope) in keys}
                case GroupsPut(groups):
                    self.groups.update((group.key, group) for group in groups)
                case HostsPut(hosts):
                    self.hosts.update((host.name, host) for host in hosts)
                case HostsRemoved(names):
                    for name in names:
                        self.hosts.pop(name, None)
                case TokenCreated(token):
                    self.tokens[token.id] = token
                case TokenRevoked(token_id):
                    self.tokens.pop(token_id, None)
                case FleetDeclared(digest, site):
                    self.digest, self.site = digest, site
        if plans:
            self.maintenances = state.maintenances
        self._tell_fleet_watchers(addresses)
        for scope in changed:
            self._show(scope, state)
        for scope in noted - changed:
            self._note(scope, state)

    def republish(self, state: State, now: float) -> None:
        """Show a state that was folded anew, whatever was shown before."""
        addresses = set(self.by_address)
        self.open(state, now)
        for page in list(self._pages.values()):  # a page goes with its scope
            page.enabled = page.scope in self._enabled
            if page.document != self._documents.get(page.scope, self._quiet):
                self._show(page.scope, state)
        self._tell_fleet_watchers(addresses | set(self.by_address))

    def _last_poll(self, scope: str) -> float:
        page = self._pages.get(scope)
        return self._opened_at if page is None else page.last_poll

    def _enable(self, scope: str, now: float) -> None:
        self._enabled.add(scope)
        if page := self._pages.get(scope):
            page.enabled, page.last_poll = True, now

    def _disable(self, scope: str) -> None:
        self._enabled.discard(scope)
        if page := self._pages.get(scope):
            page.enabled = False

    def _put(self, vm: Vm, changed: set[str], addresses: set[str]) -> None:
        old = self.by_name.get(vm.name)
        if old is not None:
            self._forget(old, addresses)
        if old is None or scope_of(old) != scope_of(vm):
            changed |= {scope_of(vm)} if old is None else {scope_of(old), scope_of(vm)}
        self.by_name[vm.name] = self.by_address[vm.address] = vm
        self.names.touch(vm.name)
        addresses.add(vm.address)

    def _remove(self, name: str, changed: set[str], addresses: set[str]) -> None:
        old = self.by_name.pop(name, None)
        if old is not None:
            self.names.touch(name)
            self._forget(old, addresses)
            changed.add(scope_of(old))

    def _forget(self, vm: Vm, addresses: set[str]) -> None:
        addresses.add(vm.address)
        # The address may have passed to another VM in the same breath.
        if self.by_address[vm.address].name == vm.name:
            del self.by_address[vm.address]

    def _tell_fleet_watchers(self, addresses: set[str]) -> None:
        if addresses:
            for tell in self._fleet_watchers:
                tell(addresses)

    def _show(self, scope: str, state: State) -> None:
        """Bring one page up to date and wake who waits for it."""
        document = state.document(scope)
        if document is EMPTY or scope not in state.scopes:
            self._documents.pop(scope, None)
        else:
            self._documents[scope] = document
        if not state.enabled(scope):
            # What went took its scope along, even if it is back by now and has not asked yet (F01).
            self._disable(scope)
        page = self._pages.get(scope)
        if page is not None and page.document != document:
            page.show(document)
            self._wake(page)
        is_left = scope.startswith(ALONE) or group_of(scope) not in state.fleet.groups
        if is_left and scope not in state.scopes and (gone := self._pages.pop(scope, None)):
            # The VM or the group is gone for good, and nothing of it stays behind (S24).
            self._wake(gone)

    def _note(self, scope: str, state: State) -> None:
        """Something that the operator sees and VMs do not: what was rendered for them stays, and nobody is woken."""
        self._documents[scope] = state.document(scope)
        if page := self._pages.get(scope):
            page.document = self._documents[scope]

    def _wake(self, page: Page) -> None:
        waiting, page.watchers = iter(page.watchers.values()), {}

        def some() -> None:
            for woken, callback in enumerate(waiting, start=1):
                callback()
                if woken == _WOKEN_AT_ONCE:
                    self._call_soon(some)
                    return

        some()
