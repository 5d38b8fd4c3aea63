"""One libvirt host, behind the port: thin, and the only module that knows the library."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import libvirt
import structlog

from duenotice.errors import Unavailable
from duenotice.host.hypervisor import (
    GONE,
    NOTES_KEY,
    NOTES_NAMESPACE,
    DomainState,
    DomainStatus,
    GuestDomain,
    Hypervisor,
    HypervisorRefused,
    Note,
    guest_of,
    notes_element,
    notes_of,
)

KEEP_ALIVE_SECONDS, KEEP_ALIVE_TIMES = 5, 3
_LIVE, _CONFIG = libvirt.VIR_DOMAIN_AFFECT_LIVE, libvirt.VIR_DOMAIN_AFFECT_CONFIG
_STATES = {
    libvirt.VIR_DOMAIN_RUNNING: DomainState.RUNNING,
    libvirt.VIR_DOMAIN_BLOCKED: DomainState.RUNNING,
    libvirt.VIR_DOMAIN_SHUTDOWN: DomainState.RUNNING,  # it is being shut down
    libvirt.VIR_DOMAIN_PAUSED: DomainState.PAUSED,
    libvirt.VIR_DOMAIN_PMSUSPENDED: DomainState.PAUSED,
}
_LOST = {
    libvirt.VIR_ERR_SYSTEM_ERROR,
    libvirt.VIR_ERR_INTERNAL_ERROR,
    libvirt.VIR_ERR_NO_CONNECT,
    libvirt.VIR_ERR_INVALID_CONN,
    libvirt.VIR_ERR_AUTH_FAILED,
    libvirt.VIR_ERR_RPC,
}
_MIGRATION = libvirt.VIR_MIGRATE_LIVE | libvirt.VIR_MIGRATE_PERSIST_DEST | libvirt.VIR_MIGRATE_UNDEFINE_SOURCE
_UNDEFINE = libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE | libvirt.VIR_DOMAIN_UNDEFINE_KEEP_NVRAM

log = structlog.get_logger()


class LibvirtHost:
    """Connects when it is first asked, and again when the connection is lost."""

    def __init__(self, name: str, uri: str) -> None:
        self.name, self._uri = name, uri
        self._lock = threading.Lock()
        self._connection: Any = None
        self._changed: Callable[[], None] | None = None

    def guests(self, bridge: str) -> list[GuestDomain]:
        """All domains."""
        with self._asking():
            return [guest for each in self._open().listAllDomains(0) if (guest := self._guest(each, bridge))]

    def listen(self, changed: Callable[[], None]) -> None:
        """Also when the connection is lost: then it is time to look again."""
        self._changed = changed

    def look(self, domain: str) -> DomainStatus:
        """Its state and our notes."""
        with self._asking():
            found = self._domain(domain)
            if found is None:
                return GONE
            try:
                state = _STATES.get(found.state()[0], DomainState.OFF)
                is_transient = not found.isPersistent()
                kept = () if is_transient else _read_notes(found, _CONFIG)
                running = () if state is DomainState.OFF else _read_notes(found, _LIVE)
            except libvirt.libvirtError as error:
                if error.get_error_code() in (libvirt.VIR_ERR_NO_DOMAIN, libvirt.VIR_ERR_OPERATION_INVALID):
                    return self.look_again(domain)
                raise
        return DomainStatus(state, is_transient, kept, running, found.UUIDString())

    def look_again(self, domain: str) -> DomainStatus:
        """It has changed while we looked."""
        found = self._domain(domain)
        return (
            GONE
            if found is None
            else DomainStatus(DomainState.OFF, False, _read_notes(found, _CONFIG), uuid=found.UUIDString())
        )

    def keep_notes(self, domain: str, notes: Sequence[Note]) -> None:
        """In the kept configuration; of a transient domain in the running one."""
        with self._asking():
            found = self._found(domain)
            _write(found, notes, _CONFIG if found.isPersistent() else _LIVE)

    def mark_run(self, domain: str, notes: Sequence[Note]) -> None:
        """In the running configuration only."""
        with self._asking():
            _write(self._found(domain), notes, _LIVE)

    def suspend(self, domain: str) -> None:
        """Pause it."""
        self._call(domain, "suspend")

    def resume(self, domain: str) -> None:
        """End its pause."""
        self._call(domain, "resume")

    def press(self, domain: str) -> None:
        """Press its power button (ACPI)."""
        self._call(domain, "shutdownFlags", libvirt.VIR_DOMAIN_SHUTDOWN_ACPI_POWER_BTN)

    def destroy(self, domain: str) -> None:
        """Cut its power."""
        self._call(domain, "destroy")

    def start(self, domain: str) -> None:
        """Power it up."""
        self._call(domain, "create")

    def undefine(self, domain: str) -> None:
        """Forget its configuration; its disks stay."""
        self._call(domain, "undefineFlags", _UNDEFINE)

    def description(self, domain: str) -> str:
        """Its kept configuration, also what only a privileged reader may see."""
        flags = libvirt.VIR_DOMAIN_XML_INACTIVE | libvirt.VIR_DOMAIN_XML_SECURE | libvirt.VIR_DOMAIN_XML_MIGRATABLE
        return str(self._call(domain, "XMLDesc", flags))

    def define(self, description: str) -> None:
        """Take over the configuration of another host's domain."""
        with self._asking():
            self._open().defineXML(description)

    def migrate(self, domain: str, target: Hypervisor) -> None:
        """Move it while it runs; this process carries messages between both, so it ends with this process."""
        assert isinstance(target, LibvirtHost)
        with target._asking():
            there = target._open()
        with self._asking():
            self._found(domain).migrate3(there, {}, _MIGRATION)

    def _call(self, domain: str, what: str, *arguments: object) -> object:
        with self._asking():
            return getattr(self._found(domain), what)(*arguments)

    def _guest(self, domain: Any, bridge: str) -> GuestDomain | None:
        try:
            state = _STATES.get(domain.state()[0], DomainState.OFF)
            return guest_of(domain.XMLDesc(0), self.name, state, bridge, _leases(domain, state))
        except libvirt.libvirtError as error:
            if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:  # gone since it was listed
                return None
            raise

    def _found(self, name: str) -> Any:
        found = self._domain(name)
        if found is None:
            raise HypervisorRefused(f"There is no domain {name} on {self.name}.")
        return found

    def _domain(self, name: str) -> Any:
        try:
            return self._open().lookupByName(name)
        except libvirt.libvirtError as error:
            if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
                return None
            raise

    def _open(self) -> Any:
        with self._lock:
            if self._connection is None or not self._connection.isAlive():
                _run_events()
                self._connection = libvirt.open(self._uri)
                self._listen(self._connection)
        return self._connection

    def _listen(self, connection: Any) -> None:
        connection.setKeepAlive(KEEP_ALIVE_SECONDS, KEEP_ALIVE_TIMES)
        connection.registerCloseCallback(self._tell, None)
        for kind in (libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE, libvirt.VIR_DOMAIN_EVENT_ID_METADATA_CHANGE):
            connection.domainEventRegisterAny(None, kind, self._tell, None)

    def _tell(self, *_: object) -> None:
        if self._changed is not None:
            self._changed()

    def _asking(self) -> "_Asking":
        return _Asking(self)

    @property
    def is_lost(self) -> bool:
        """Whether the connection is gone."""
        try:
            return self._connection is None or not self._connection.isAlive()
        except libvirt.libvirtError:
            return True


class _Asking:
    """libvirt's errors in our words: a host that cannot be asked, or one that says no."""

    def __init__(self, host: LibvirtHost) -> None:
        self._host = host

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if not isinstance(error, libvirt.libvirtError):
            return
        said = (error.get_error_message() or "no reason").rstrip(".")
        if self._host.is_lost and error.get_error_code() in _LOST:
            raise Unavailable(
                f"libvirt on {self._host.name} cannot be asked: {said}.",
                hint="Is libvirtd (or virtqemud) up, and may this user use it?",
            ) from None
        raise HypervisorRefused(f"libvirt on {self._host.name}: {said}.") from None


def _read_notes(domain: Any, flags: int) -> tuple[Note, ...]:
    try:
        return notes_of(domain.metadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, NOTES_NAMESPACE, flags))
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN_METADATA:
            return ()
        raise


def _write(domain: Any, notes: Sequence[Note], flags: int) -> None:
    domain.setMetadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, notes_element(notes), NOTES_KEY, NOTES_NAMESPACE, flags)


def _leases(domain: Any, state: DomainState) -> dict[str, str]:
    """What libvirt's own DHCP server has given out; what a guest says of itself (ARP, its agent) does not count."""
    if state is DomainState.OFF:
        return {}
    try:
        found = domain.interfaceAddresses(libvirt.VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_LEASE)
    except libvirt.libvirtError:
        return {}
    addresses = ((each["hwaddr"], address) for each in found.values() for address in each["addrs"] or ())
    return {
        mac.lower(): address["addr"] for mac, address in addresses if address["type"] == libvirt.VIR_IP_ADDR_TYPE_IPV4
    }


_events = threading.Lock()
_is_running = False


def _run_events() -> None:
    """One thread for the events of all connections; it must be there before the first of them is opened."""
    global _is_running
    with _events:
        if _is_running:
            return
        _is_running = True
        libvirt.registerErrorHandler(lambda *_: None, None)  # else it prints each error, beside raising it
        libvirt.virEventRegisterDefaultImpl()
        threading.Thread(target=_events_for_ever, name="libvirt-events", daemon=True).start()


def _events_for_ever() -> None:
    while True:
        libvirt.virEventRunDefaultImpl()
