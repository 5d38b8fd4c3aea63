"""`duenotice host run`: the service on a hypervisor. Domains of libvirt are its fleet, and ask over their bridge."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import click

from duenotice.cli.output import print_text
from duenotice.cli.serve import Beside, follower_welcome, run, welcome, with_settings
from duenotice.errors import Misconfigured
from duenotice.settings import ENVIRONMENT_PREFIX, Resolved, resolve

if TYPE_CHECKING:
    from duenotice.bootstrap.host_watch import MappingFile
    from duenotice.domain.fleet import Declaration
    from duenotice.host.hypervisor import Hypervisor
    from duenotice.host.network import Bridge

LISTEN = {"metadata_listen": "169.254.169.254:80"}
ALONE = {"impact": "libvirt", "impact_at_once": 1000}
"""Defaults that are others than those of `serve`, the second ones only of a node. A guest that waits for its host to
return takes up one of the impacts at once."""


def _place(command: Callable[..., None]) -> Callable[..., None]:
    """The options that say which hypervisor this is."""
    for option in (
        click.option("--dry-run", is_flag=True, help="Show the fleet and the nftables rules, and change nothing."),
        click.option("--also", multiple=True, metavar="NAME=URI", help="Another libvirt host that VMs may move to."),
        click.option("--name", default="", metavar="NAME", help="Name of this host.  [default: the machine's]"),
        click.option("--bridge", default="virbr0", metavar="NAME", help="Bridge of the guests.  [default: virbr0]"),
        click.option(
            "--connect", default="", metavar="URI", help="libvirt here, as virsh has it.  [default: qemu:///system]"
        ),
    ):
        command = option(command)
    return command


@click.command("run", epilog="Example: duenotice host run --bridge virbr0 --data-dir /var/lib/duenotice")
@_place
@click.option("--config", metavar="FILE", default="", help="TOML file with settings; flags and environment win")
@partial(with_settings, usual=LISTEN | ALONE)
def run_host(
    connect: str, bridge: str, name: str, also: tuple[str, ...], dry_run: bool, config: str, **flags: object
) -> None:
    """Run the service on a hypervisor. Its domains are the fleet; each is told before it is hit, and then is.

    Domains come and go as libvirt says. A domain's metadata element, or the VM of the same name in --fleet, says its
    address, set and update domain. With --follow it answers the guests of this host for a central service.
    """
    given = {key: value for key, value in flags.items() if value is not None}
    name, connect = name or _own_name(), connect or os.environ.get("LIBVIRT_DEFAULT_URI") or "qemu:///system"
    usual: dict[str, object] = {**LISTEN}
    if not given.get("follow"):
        usual |= ALONE | {"libvirt_hosts": ",".join([f"{name}={connect}", *also])}
    else:
        usual |= {"only": f"host={name}"}
    usual = {key: value for key, value in usual.items() if ENVIRONMENT_PREFIX + key.upper() not in os.environ}
    resolved = resolve(usual | given, os.environ, config)
    hosts = _hosts(",".join([f"{name}={connect}", *also]))
    from duenotice.bootstrap.host_watch import MappingFile
    from duenotice.bootstrap.logs import configure
    from duenotice.host.network import Bridge

    configure(resolved.settings.log_format)
    file = MappingFile(resolved.settings.fleet)
    if dry_run:
        _show(hosts, Bridge(bridge), file.says)
    else:
        _run(resolved, hosts, Bridge(bridge), file)


def _run(resolved: Resolved, hosts: "list[Hypervisor]", bridge: "Bridge", file: "MappingFile") -> None:
    from msgspec import structs

    from duenotice.bootstrap.host_watch import HostWatch
    from duenotice.host.network import rules

    hosts[0].guests(bridge.name)  # before anything is changed: a libvirt that is not there is an error of the start
    greet = follower_welcome if resolved.settings.follow else welcome
    beside: Beside = lambda service: HostWatch(hosts, bridge, file).beside(service)  # noqa: E731 (needs the loop)
    own = resolved._replace(settings=structs.replace(resolved.settings, fleet=""))
    with ExitStack() as taken:
        taken.enter_context(
            bridge.prepared(rules(bridge.name, (), bridge.ports()))
        )  # nobody is known yet, so nobody gets through
        run(own, greet, beside)


def _show(hosts: "list[Hypervisor]", bridge: "Bridge", file: "Declaration | None") -> None:
    from duenotice.host.fleet import compose, guest_ports
    from duenotice.host.network import rules

    guests = [guest for host in hosts for guest in host.guests("")]
    made = compose(guests, [host.name for host in hosts], file, {}, set(), bridge.own_addresses())
    vms = {vm.name: vm for vm in made.declaration.vms}
    for vm in vms.values():
        place = f"  {vm.group} UD {vm.update_domain}" if vm.group else f"  zone {vm.zone}" if vm.zone else ""
        print_text(f"# {vm.name}  {vm.address}  on {vm.host}{place}")
    for name, trouble in made.troubles.items():
        print_text(f"# {name} cannot be told: {trouble}")
    known = guest_ports(hosts[0].guests(bridge.name), vms, hosts[0].name)
    print_text(rules(bridge.name, known, bridge.ports()).rstrip())


def _hosts(named: str) -> "list[Hypervisor]":
    from duenotice.bootstrap.drivers import libvirt_hosts
    from duenotice.settings import ServeSettings

    return list(libvirt_hosts(ServeSettings(libvirt_hosts=named)))


def _own_name() -> str:
    import socket

    from duenotice.wire.fleet_file import is_name

    name = socket.gethostname().partition(".")[0]
    if not is_name(name):
        raise Misconfigured(f"This machine's name {name!r} is not valid for a host.", hint="Give one with --name.")
    return name
