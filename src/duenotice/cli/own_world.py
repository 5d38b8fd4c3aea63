"""A service in this process, while a scenario is played: empty journal, free ports, no log."""

import contextlib
from collections.abc import Iterator

from duenotice.cli.api import Api
from duenotice.settings import ServeSettings, host_port

_FREE_PORT = "127.0.0.1:0"
_PATIENCE = 30.0


@contextlib.contextmanager
def own_world(clock: str) -> Iterator[Api]:
    """Start it with all VMs and hosts that our scenarios need, and stop it at the end."""
    import asyncio
    import threading
    from importlib.resources import as_file

    import uvloop

    from duenotice.bootstrap.service import Service
    from duenotice.scenarios.library import fleet

    _be_quiet()
    loop = uvloop.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="own-world", daemon=True)
    thread.start()
    try:
        with as_file(fleet()) as file:
            service = Service(_settings(clock, str(file)))
            asyncio.run_coroutine_threadsafe(service.start(), loop).result()
        try:
            yield Api(f"http://{host_port(service.operator_address)}", service.token, _PATIENCE)
        finally:
            asyncio.run_coroutine_threadsafe(service.stop(), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _settings(clock: str, fleet: str) -> ServeSettings:
    return ServeSettings(
        fleet=fleet,
        data_dir=":memory:",
        metadata_listen=_FREE_PORT,
        operator_listen=_FREE_PORT,
        clock=clock,
        allow_faults=True,
    )


def _be_quiet() -> None:
    import logging

    import structlog

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
