"""`duenotice demo`: a service with a busy fleet, commands to try, and a live view."""

import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any, TextIO, cast

import click

from duenotice.cli.api import DEFAULT_ENDPOINT
from duenotice.cli.live import is_dumb
from duenotice.cli.saying import say
from duenotice.settings import default_data_dir, host_port, resolve

LOG = "demo.log"
FLEET = Path(__file__).with_name("demo-fleet.toml")

TRIES = {
    "{us} events watch": "every event as it comes and goes",
    "{us} maintenance show --watch": "the newest maintenance alone",
    "{us} host fail host-2 --yes": "and see which VMs are hit",
    "curl -H Metadata:true '{poll}'": "ask as the VM 'me'",
    "{us} vm restart me --wait": "then restart it, and ask again",
}


@click.command(epilog="Example: duenotice demo --data-dir .run/demo")
@click.option(
    "--data-dir", metavar="DIR", default=None, help="Where the demo keeps its data; the next demo goes on from there."
)
@click.option("--clock", metavar="60x", default="60x", help="How fast time passes.  [default: 60x]")
@click.option(
    "--metadata-listen", metavar="HOST:PORT", default=None, help="The address for VMs.  [default: 127.0.0.1:16925]"
)
@click.option(
    "--operator-listen",
    metavar="HOST:PORT",
    default=None,
    help="The address for the operator, which is you.  [default: 127.0.0.1:16926]",
)
@click.option("--watch/--no-watch", default=None, help="Show a live view.  [default: on a terminal]")
def demo(watch: bool | None, **flags: str | None) -> None:
    """Start a busy fleet of 60 VMs, and watch it.

    A maintenance rolls through, one update domain at a time; VMs poll, some approve; now and then a spot VM is evicted.
    """
    from duenotice.bootstrap.logs import configure
    from duenotice.cli.serve import run

    watches = sys.stdout.isatty() and not is_dumb(stderr=False) if watch is None else watch
    given = {name: value for name, value in flags.items() if value is not None}
    folder = Path(given.setdefault("data_dir", str(default_data_dir().with_name("duenotice-demo"))))
    resolved = resolve({"fleet": str(FLEET), **given}, os.environ)
    configure(resolved.settings.log_format, cast(TextIO, _LateFile(folder / LOG)) if watches else None)
    run(resolved, _greeting(folder, watches), _around(watches))
    with suppress(OSError):  # the terminal may be gone
        say("\nThe demo has ended. The next one goes on from here.")


class _LateFile:
    """A file that is created with the first line, so that a demo that cannot start leaves no file behind."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @cached_property
    def _file(self) -> TextIO:
        return self._path.open("a")

    def write(self, text: str) -> int:
        return self._file.write(text)

    def flush(self) -> None:
        self._file.flush()

    def isatty(self) -> bool:
        return False


def _around(watches: bool) -> Callable[[Any], Any]:
    @asynccontextmanager
    async def around(service: Any) -> AsyncIterator[None]:
        import asyncio

        from duenotice.bootstrap.demo import playing
        from duenotice.cli.demo_view import shown
        from duenotice.wire.fleet_toml import read_fleet

        # SIGHUP: the terminal was closed, so the demo ends. A service would read its fleet file again.
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, signal.raise_signal, signal.SIGTERM)
        async with playing(service, read_fleet(FLEET.read_text())):
            if watches:
                async with shown(service):
                    yield
            else:
                yield

    return around


def _greeting(folder: Path, watches: bool) -> Callable[[Any], None]:
    def greet(service: Any) -> None:
        metadata, operator = host_port(service.metadata_address), host_port(service.operator_address)
        poll = f"http://{metadata}/metadata/scheduledevents?api-version=2020-07-01"
        clock = service.engine.clock.name
        say(f"duenotice serves {len(service.engine.state.fleet.vms)} VMs", nl=False, bold=True)
        say(f", clock {clock}")
        say(f"  VMs ask       {poll}")
        say(f"  the operator  http://{operator}/v1  (token: {folder / 'admin.token'})")
        say(f"  the console   http://{operator}/  (sign in with that token)")
        say(f"  the log       {folder / LOG if watches else 'standard error'}")
        say("\nTry, in another terminal:", bold=True)
        say(f"  export DUENOTICE_TOKEN_FILE={folder / 'admin.token'}")
        if f"http://{operator}" != DEFAULT_ENDPOINT:
            say(f"  export DUENOTICE_ENDPOINT=http://{operator}")
        for command, why in TRIES.items():
            say(f"  # {why}", dim=True)
            say(f"  {command.format(us=_us(), poll=poll)}")
        say()

    return greet


def _us() -> str:
    """The shortest way to call duenotice again."""
    if Path(sys.argv[0]).name == "__main__.py":
        return "python -m duenotice"
    return "duenotice" if shutil.which("duenotice") else os.path.relpath(sys.argv[0])
