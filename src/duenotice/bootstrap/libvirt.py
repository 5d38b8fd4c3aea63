"""The driver and the hosts of libvirt that the settings ask for; imported only when they do."""

from typing import TYPE_CHECKING

from duenotice.domain.fleet import Condition, Fleet
from duenotice.engine.engine import Engine
from duenotice.errors import Misconfigured
from duenotice.impact.libvirt import LibvirtDriver, Whereabouts
from duenotice.settings import ServeSettings
from duenotice.wire.fleet_toml import is_name

if TYPE_CHECKING:
    from duenotice.host.libvirt_host import LibvirtHost


def libvirt_driver(settings: ServeSettings, engine: Engine) -> LibvirtDriver:
    """The driver of all hosts that are named."""
    hosts = {host.name: host for host in libvirt_hosts(settings)}
    first = next(iter(hosts))
    return LibvirtDriver(
        hosts, lambda vm: place_of(engine.state.fleet, first, vm), settings.libvirt_grace, settings.libvirt_undefine
    )


def libvirt_hosts(settings: ServeSettings) -> "list[LibvirtHost]":
    """The hosts that are named; no connection is made yet."""
    named: dict[str, str] = {}
    for text in settings.libvirt_hosts.split(","):
        name, _, uri = text.strip().partition("=")
        if not is_name(name) or "://" not in uri or name in named:
            hint = "Write h1=qemu:///system, each host once; several with commas between them."
            raise Misconfigured(f"libvirt_hosts: {text.strip()!r} is not NAME=URI.", hint=hint)
        named[name] = uri
    from duenotice.host.libvirt_host import LibvirtHost  # libvirt itself may not be there

    return [LibvirtHost(name, uri) for name, uri in named.items()]


def place_of(fleet: Fleet, only: str, vm: str) -> Whereabouts:
    """Where a VM is, and where it may go: the host that the fleet will say when the event is over."""
    known = fleet.vms.get(vm)
    host = known.host if known is not None and known.host else only
    there = fleet.hosts.get(host)
    is_held = there is not None and there.condition is Condition.DRAINED
    return Whereabouts(host, fleet.other_host(avoid=host), is_held)
