"""`duenotice serve`: run one node until told to stop; its settings as options, and what a person reads at the start."""

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, cast

import click

from duenotice.cli.output import print_text
from duenotice.errors import DuenoticeError, Rewound
from duenotice.escape import one_line
from duenotice.settings import Resolved, SettingRow, host_port, resolve, rows, without_password
from duenotice.system import sd_notify, watchdog_seconds

if TYPE_CHECKING:
    import asyncio

    from duenotice.bootstrap.follower import FollowerService
    from duenotice.bootstrap.node import Service
    from duenotice.domain.fleet import Vm

Greet = Callable[[Any], None]
Beside = Callable[[Any], AbstractAsyncContextManager[None]]
_METAVARS = {
    "fleet": "FILE",
    "data_dir": "DIR",
    "journal": "URL",
    "node": "NAME",
    "node_url": "URL",
    "follow": "URL,…",
    "only": "KIND=NAME",
    "azure_cert_file": "FILE",
    "azure_key_file": "FILE",
    "azure_names": "NAME,…",
    "clock": "real|60x|manual",
    "default_vm": "NAME",
    "fault": "NAME",
    "impact_command": "COMMAND",
    "impact_url": "URL",
    "libvirt_hosts": "NAME=URI,…",
    "push_allow": "NETWORK,…",
}


def with_settings(command: Callable[..., None], usual: Mapping[str, object] | None = None) -> Callable[..., None]:
    """One flag per row of the settings; a flag that is not given is left out, so that the next source counts.

    `usual` are defaults that are others for this command.
    """
    for row in reversed(rows()):
        default = (usual or {}).get(row.name, row.default)
        has_default = not row.is_switch and default != ""
        command = option_of(row, f"{row.help}  [default: {_plain(default)}]" if has_default else row.help)(command)
    return command


def option_of(row: SettingRow, text: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The flag of a row of the settings."""
    dashed = row.name.replace("_", "-")
    flag = f"--{dashed}/--no-{dashed}" if row.default is True else f"--{dashed}"
    kind = {"is_flag": True, "default": None} if row.is_switch else {"metavar": _metavar(row)}
    return click.option(flag, row.name, help=text, **kind)


def _plain(default: object) -> str:
    return f"{default:g}" if isinstance(default, int | float) else str(default)


def _metavar(row: SettingRow) -> str:
    """What help shows as its value: the allowed words, or the kind of value."""
    if row.choices:
        return f"[{'|'.join(row.choices)}]"
    ends = {"_listen": "HOST:PORT", "_file": "FILE"}
    kind = next((metavar for end, metavar in ends.items() if row.name.endswith(end)), "N")
    return _METAVARS.get(row.name, "SECONDS" if "seconds" in row.help else kind)


@click.command(epilog="Example: duenotice serve --fleet fleet.toml --data-dir /var/lib/duenotice")
@click.option("--config", metavar="FILE", default="", help="TOML file with settings; flags and environment win")
@with_settings
def serve(config: str, **flags: object) -> None:
    """Run the service that VMs ask for coming events. Everything is stored durably.

    SIGTERM stops it cleanly and leaves a snapshot; SIGHUP reads the fleet file and certificates again. Every option can
    also be an environment variable: --data-dir is DUENOTICE_DATA_DIR. Without --fleet and --default-vm the service
    uses the fleet in the data directory.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    resolved = resolve(given, os.environ, config)
    spare_memory()
    from duenotice.bootstrap.logs import configure

    configure(resolved.settings.log_format)
    run(resolved, follower_welcome if resolved.settings.follow else welcome)


def run(resolved: Resolved, greet: Greet, beside: Beside | None = None) -> None:
    """Run a node until told to stop; `beside` runs at the same time."""
    import uvloop  # costs tens of milliseconds that --help should not pay

    _allow_many_connections()
    error = uvloop.run(_serve(resolved, greet, beside))
    if error is not None:
        raise error


def spare_memory() -> None:
    """structlog loads what it might use; we do not use it, and rich is a tenth of a follower's memory."""
    unused = {name: cast(Any, None) for name in ("rich", "greenlet") if name not in sys.modules}
    sys.modules.update(unused)
    import structlog  # noqa: F401

    for name in unused:
        del sys.modules[name]


def _allow_many_connections() -> None:
    """Raise the limit of open files as far as the system allows: every waiting VM needs one."""
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def _serve(resolved: Resolved, greet: Greet, beside: Beside | None) -> DuenoticeError | None:
    """Run until a signal comes or the engine fails; returns the engine's error.

    If its journal has lost what it had stored, it begins again from what is there (N14).
    """
    from duenotice.bootstrap.start import again, service_of

    stop, reread = _event_of(signal.SIGTERM, signal.SIGINT), _event_of(signal.SIGHUP)
    service = service_of(resolved.settings)
    while await _started(service, stop):
        error = await _served(service, resolved, greet, stop, reread, beside)
        if stop.is_set() or not isinstance(error, Rewound):
            return error
        service = again(service)
    return None


async def _started(service: "Service | FollowerService", stop: "asyncio.Event") -> bool:
    """Start it, unless it is told to stop while it waits for others (N20)."""
    import asyncio

    starting, stopped = asyncio.ensure_future(service.start()), asyncio.ensure_future(stop.wait())
    await asyncio.wait((starting, stopped), return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if starting.done():
        starting.result()
        return True
    starting.cancel()
    with suppress(asyncio.CancelledError, DuenoticeError):
        await starting
    return False


async def _served(
    service: "Service | FollowerService",
    resolved: Resolved,
    greet: Greet,
    stop: "asyncio.Event",
    reread: "asyncio.Event",
    beside: Beside | None,
) -> DuenoticeError | None:
    import structlog

    log = structlog.get_logger()
    with _tuned(service, reread):
        log.info("serving", action="serving", **_addresses(service), settings=_settings(resolved))
        with suppress(OSError):  # nobody reads what we print, but VMs still need answers
            greet(service)
        sd_notify("READY=1")
        await _until(stop, service, beside)
    sd_notify("STOPPING=1")
    log.info("stopping", action="stopping")
    await service.stop()
    log.info("stopped", action="stopped", position=service.state.position)
    return service.failed.result() if service.failed.done() else None


def _event_of(*signals: signal.Signals) -> "asyncio.Event":
    """Is set when one of these signals comes."""
    import asyncio

    came = asyncio.Event()
    for number in signals:
        asyncio.get_running_loop().add_signal_handler(number, came.set)
    return came


@contextmanager
def _tuned(service: "Service | FollowerService", reread: "asyncio.Event") -> Iterator[None]:
    """What goes on beside the service: the memory is kept tidy, and a signal reads the fleet file again."""
    import asyncio

    from duenotice.bootstrap.process import GarbageCollection

    collection = GarbageCollection(service)
    collection.start()
    beside = [asyncio.ensure_future(_reread_when_told(service, reread)), asyncio.ensure_future(_tell_systemd())]
    try:
        yield
    finally:
        for task in beside:
            task.cancel()
        collection.stop()


async def _until(stop: "asyncio.Event", service: "Service | FollowerService", beside: Beside | None) -> None:
    """Until it is told to stop or the engine fails; a watchdog ends a process that stands still."""
    import asyncio

    from duenotice.bootstrap.process import watching

    stopped = asyncio.ensure_future(stop.wait())
    with watching(asyncio.get_running_loop(), service.settings.watchdog):
        async with beside(service) if beside else nullcontext():
            await asyncio.wait((stopped, service.failed), return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()


async def _tell_systemd() -> None:
    """That the loop which answers VMs is alive, if systemd wants to know."""
    import asyncio

    while (every := watchdog_seconds()) is not None:
        sd_notify("WATCHDOG=1")
        await asyncio.sleep(every)


async def _reread_when_told(service: "Service | FollowerService", told: "asyncio.Event") -> None:
    import structlog

    log = structlog.get_logger()
    while True:
        await told.wait()
        told.clear()
        with suppress(DuenoticeError):  # the log says why, and the last good fleet is served
            await service.reread()
            log.info("fleet reread", action="fleet-reread", vms=len(service.state.fleet.vms))


def _addresses(service: "Service | FollowerService") -> dict[str, str]:
    azure = getattr(service, "azure", None)
    return {
        "metadata": f"http://{host_port(service.metadata_address)}",
        "operator": f"{service.operator_scheme}://{host_port(service.operator_address)}",
        **({} if azure is None else {"azure": azure.url}),
    }


def _settings(resolved: Resolved) -> dict[str, str]:
    """Every setting with where it came from."""
    return {
        row.name: without_password(f"{getattr(resolved.settings, row.name)} ({resolved.origins[row.name]})")
        for row in rows()
        if resolved.origins[row.name] != "default"
    }


def follower_welcome(service: "FollowerService") -> None:
    """What it follows, and where VMs ask."""
    vms = service.state.fleet.vms
    print_text(
        f"duenotice follows {service.settings.follow} for {len(vms)} {'VM' if len(vms) == 1 else 'VMs'}", bold=True
    )
    print_text(
        f"  VMs ask       http://{host_port(service.metadata_address)}/metadata/scheduledevents?api-version=2020-07-01"
    )
    sys.stdout.flush()


def welcome(service: "Service") -> None:
    """Addresses and three curl lines, on standard output; nothing when the fleet is empty."""
    vms = service.engine.state.fleet.vms
    metadata = host_port(service.metadata_address)
    operator = f"{service.operator_scheme}://{host_port(service.operator_address)}"
    print_text(f"duenotice serves {len(vms)} {'VM' if len(vms) == 1 else 'VMs'}", bold=True)
    if service.fleet_file.problem:
        print_text(one_line(f"  NOT APPLIED   {service.fleet_file.problem}"), fg="red")
    print_text(f"  VMs ask       http://{metadata}/metadata/scheduledevents?api-version=2020-07-01")
    print_text(f"  the operator  {operator}/v1  (token: {_token(service, '{}')})")
    print_text(f"  the console   {operator}/  (sign in with that token)")
    if service.azure is not None:
        print_text(f"  Azure's tools {service.azure.url}  (see 'duenotice azure profile')")
    if vms:
        _examples(service, _example_vm(service), metadata, operator)
    sys.stdout.flush()


def _examples(service: "Service", vm: "Vm", metadata: str, operator: str) -> None:
    ask = f"'http://{metadata}/metadata/scheduledevents?api-version=2020-07-01'"
    source = "" if vm.address == "127.0.0.1" else f"--interface {vm.address} "
    token = _token(service, "$(cat {})")
    print_text("\nTry, in another terminal:")
    print_text(f"  # 1. ask as {vm.name}: nothing is planned\n  curl {source}-H Metadata:true {ask}")
    print_text(f"  # 2. restart {vm.name} as the operator, then ask again")
    print_text(f'  curl -X POST -H "Authorization: Bearer {token}" {operator}/v1/vms/{vm.name}/restart')
    print_text(f"  # 3. approve as {vm.name}, with the EventId from the answer")
    print_text(f'  curl {source}-H Metadata:true -d \'{{"StartRequests":[{{"EventId":"…"}}]}}\' {ask}')


def _example_vm(service: "Service") -> "Vm":
    """The VM that a plain curl on this machine stands for, or the first one."""
    fleet = service.engine.state.fleet
    default = fleet.vms.get(service.settings.default_vm)
    return default or fleet.by_address.get("127.0.0.1") or next(iter(fleet.vms.values()))


def _token(service: "Service", from_file: str) -> str:
    """The admin's token itself, if no file has it."""
    from duenotice.operator_api.tokens import FILE

    return service.token if service.data_dir is None else from_file.format(service.data_dir / FILE)
