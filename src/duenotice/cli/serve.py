"""`duenotice serve`: run one node until told to stop."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from typing import Any, cast

import click

from duenotice.cli.setting_options import with_settings
from duenotice.errors import DuenoticeError
from duenotice.settings import Resolved, host_port, resolve, rows, without_password

Beside = Callable[[Any], AbstractAsyncContextManager[Any]]


@click.command(epilog="Example: duenotice serve --fleet fleet.toml --data-dir /var/lib/duenotice")
@click.option("--config", metavar="FILE", default="", help="TOML file with settings; flags and environment win")
@with_settings
def serve(config: str, **flags: Any) -> None:
    """Run the service that VMs ask for coming events. Everything is stored durably.

    SIGTERM stops it cleanly and leaves a snapshot; SIGHUP reads the fleet file again. Every option can
    also be an environment variable: --data-dir is DUENOTICE_DATA_DIR. Without --fleet and --default-vm the service
    uses the fleet in the data directory.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    resolved = resolve(given, os.environ, config)
    if resolved.settings.follow:
        _spare_memory()
    from duenotice.bootstrap.logs import configure
    from duenotice.cli.welcome import follower_welcome, welcome

    configure(resolved.settings.log_format)
    run(resolved, follower_welcome if resolved.settings.follow else welcome)


def run(resolved: Resolved, greet: Callable[[Any], None], beside: Beside = nullcontext) -> None:
    """Run a node until told to stop; `beside` runs at the same time."""
    import uvloop  # costs tens of milliseconds that --help should not pay

    _allow_many_connections()
    error = uvloop.run(_serve(resolved, greet, beside))
    if error is not None:
        raise error


def _spare_memory() -> None:
    """There is a follower on every host. structlog would load rich, which is a tenth of all its memory."""
    sys.modules["rich"] = cast(Any, None)


def _allow_many_connections() -> None:
    """Raise the limit of open files as far as the system allows: every waiting VM needs one."""
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def _serve(resolved: Resolved, greet: Callable[[Any], None], beside: Beside) -> DuenoticeError | None:
    """Run until a signal comes or the engine fails; returns the engine's error."""
    import structlog

    from duenotice.bootstrap.services import service_of
    from duenotice.bootstrap.tuning import Tuning
    from duenotice.bootstrap.watchdog import watching

    log = structlog.get_logger()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    reread = asyncio.Event()
    loop.add_signal_handler(signal.SIGHUP, reread.set)
    service = service_of(resolved.settings)
    await service.start()
    tuning = Tuning(service)
    tuning.start()
    rereading = asyncio.ensure_future(_reread_when_told(service, reread))
    log.info("serving", action="serving", **_addresses(service), settings=_settings(resolved))
    with suppress(OSError):  # nobody reads what we print, but VMs still need answers
        greet(service)
    told: asyncio.Future[Any] = asyncio.ensure_future(stop.wait())
    with watching(loop, resolved.settings.watchdog):
        async with beside(service):
            await asyncio.wait([told, service.failed], return_when=asyncio.FIRST_COMPLETED)
    told.cancel()
    rereading.cancel()
    tuning.stop()
    log.info("stopping", action="stopping")
    await service.stop()
    log.info("stopped", action="stopped", position=service.state.position)
    return service.failed.result() if service.failed.done() else None


async def _reread_when_told(service: Any, told: asyncio.Event) -> None:
    import structlog

    log = structlog.get_logger()
    while True:
        await told.wait()
        told.clear()
        with suppress(DuenoticeError):  # the log says why, and the last good fleet is served
            await service.reread()
            log.info("fleet reread", action="fleet-reread", vms=len(service.state.fleet.vms))


def _addresses(service: Any) -> dict[str, str]:
    return {
        "metadata": f"http://{host_port(service.metadata_address)}",
        "operator": f"http://{host_port(service.operator_address)}",
    }


def _settings(resolved: Resolved) -> dict[str, str]:
    """Every setting with where it came from."""
    return {
        row.name: without_password(f"{getattr(resolved.settings, row.name)} ({resolved.origins[row.name]})")
        for row in rows()
        if resolved.origins[row.name] != "default"
    }
