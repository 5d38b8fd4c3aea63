"""`duenotice demo`: a service with a busy fleet, commands to try, and a live view."""

import os
import shutil
import signal
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, cast

import click

from duenotice.cli.live import OUTCOMES, Events, WatchedPlan, display, is_dumb, newest, watch
from duenotice.cli.output import print_text
from duenotice.cli.session import Session, connected
from duenotice.client.operator.config import DEFAULT_ENDPOINT
from duenotice.errors import DuenoticeError
from duenotice.escape import one_line
from duenotice.settings import default_data_dir, host_port, resolve

if TYPE_CHECKING:
    from rich.console import RenderableType

    from duenotice.bootstrap.node import Service
    from duenotice.cli.serve import Beside
    from duenotice.wire.operator import Event, Record

LOG = "demo.log"
AZURE = "127.0.0.1:16927"
FLEET = Path(__file__).with_name("demo-fleet.toml")
LINES = 8
FEW = 5

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
@click.option(
    "--azure-listen",
    metavar="HOST:PORT",
    default=None,
    help=f"The address for az and the Azure SDKs.  [default: {AZURE}]",
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
    if find_spec("cryptography") is not None:
        given.setdefault("azure_listen", AZURE)
    resolved = resolve({"fleet": str(FLEET), **given}, os.environ)
    configure(resolved.settings.log_format, cast(TextIO, _LateFile(folder / LOG)) if watches else None)
    run(resolved, _greeting(folder, watches), _around(watches))
    with suppress(OSError):  # the terminal may be gone
        print_text("\nThe demo has ended. The next one goes on from here.")


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


def _around(watches: bool) -> "Beside":
    @asynccontextmanager
    async def around(service: "Service") -> AsyncIterator[None]:
        import asyncio

        from duenotice.bootstrap.demo import playing
        from duenotice.wire.fleet_file import read_fleet

        # SIGHUP: the terminal was closed, so the demo ends. A service would read its fleet file again.
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, signal.raise_signal, signal.SIGTERM)
        async with playing(service, read_fleet(FLEET.read_text())):
            if watches:
                async with _shown(service):
                    yield
            else:
                yield

    return around


def _greeting(folder: Path, watches: bool) -> Callable[["Service"], None]:
    def greet(service: "Service") -> None:
        metadata, operator = host_port(service.metadata_address), host_port(service.operator_address)
        poll = f"http://{metadata}/metadata/scheduledevents?api-version=2020-07-01"
        clock = service.engine.clock.name
        print_text(f"duenotice serves {len(service.engine.state.fleet.vms)} VMs", nl=False, bold=True)
        print_text(f", clock {clock}")
        print_text(f"  VMs ask       {poll}")
        print_text(f"  the operator  http://{operator}/v1  (token: {folder / 'admin.token'})")
        print_text(f"  the console   http://{operator}/  (sign in with that token)")
        if service.azure is not None:
            print_text(f"  Azure's tools {service.azure.url}  (see '{_us()} azure profile')")
        print_text(f"  the log       {folder / LOG if watches else 'standard error'}")
        print_text("\nTry, in another terminal:", bold=True)
        print_text(f"  export DUENOTICE_TOKEN_FILE={folder / 'admin.token'}")
        if f"http://{operator}" != DEFAULT_ENDPOINT:
            print_text(f"  export DUENOTICE_ENDPOINT=http://{operator}")
        for command, why in TRIES.items():
            print_text(f"  # {why}", dim=True)
            print_text(f"  {command.format(us=_us(), poll=poll)}")
        print_text()

    return greet


def _us() -> str:
    """The shortest way to call duenotice again."""
    if Path(sys.argv[0]).name == "__main__.py":
        return "python -m duenotice"
    return "duenotice" if shutil.which("duenotice") else os.path.relpath(sys.argv[0])


@asynccontextmanager
async def _shown(service: "Service") -> AsyncIterator[None]:
    """Draw the view in a thread; it asks the service over HTTP, like any client."""
    import asyncio

    client = connected(f"http://{host_port(service.operator_address)}", service.token, 30.0)
    view = DemoView(Session(client))
    thread = threading.Thread(target=view.run, name="demo-view", daemon=True)
    thread.start()
    try:
        yield
    finally:
        view.over = True
        await asyncio.to_thread(thread.join, 5.0)
        client.close()


class DemoView:
    """The demo, watched until somebody ends it."""

    over = False

    def __init__(self, session: Session) -> None:
        self._session = session
        self._plan: WatchedPlan | None = None
        self._happened: deque[str] = deque(maxlen=LINES)
        self._events: Events = {}

    def run(self) -> None:
        """Until the service ends."""
        with suppress(DuenoticeError, OSError), display(stderr=False) as on:
            watch(self._session, self, on, "365d", "The demo is")

    def begin(self) -> None:
        """The newest maintenance, if there is one already."""
        with suppress(DuenoticeError):
            self._follow(newest(self._session))

    def take(self, records: "list[Record]") -> None:
        """Take in what happened; a new maintenance is followed from its start."""
        for record in records:
            if record.action == "maintenance-started" and record.details.maintenance is not None:
                self._follow(record.details.maintenance.id)
            if line := self._sentence(record):
                self._happened.append(one_line(f"{record.at:%H:%M:%S}  {line}"))
        if self._plan is not None:
            self._plan.take(records)

    def picture(self) -> "RenderableType":
        """The maintenance, and the last lines below it."""
        from rich.console import Group
        from rich.text import Text

        story = Text("\n".join(self._happened), "dim")
        return Group(self._plan.picture(), "", story) if self._plan is not None else story

    def _follow(self, plan_id: str) -> None:
        self._plan = WatchedPlan(self._session, plan_id)
        self._plan.begin()

    def _sentence(self, record: "Record") -> str:
        event_id, event = record.event_id or "", record.details.event
        if event is not None:
            self._events[event_id] = event
        known = self._events.get(event_id)
        if record.action in OUTCOMES:
            self._events.pop(event_id, None)
        return sentence(record, known)


def sentence(record: "Record", event: "Event | None") -> str:
    """What happened, in words for a newcomer; empty if it is not worth a line."""
    details, names = record.details, record.details.names or ()
    vms, type_ = (" ".join(event.resources), event.type) if event else ("", "")
    plan = details.maintenance.type if details.maintenance else ""
    sentences = {
        "maintenance-started": f"maintenance begins: {plan}",
        "maintenance-changed": f"maintenance is {details.status}",
        "event-raised": f"{vms}: told of a {type_}",
        "event-approved": f"{vms}: approved by {details.by}",
        "event-started": f"{vms}: {type_} has started",
        "event-narrowed": f"{vms}: {type_} now hits only these",
        "event-completed": f"{vms}: {type_} is over",
        "event-cancelled": f"{vms}: {type_} was cancelled",
        "event-failed": f"{vms}: {type_} has failed",
        "vms-removed": f"{' '.join(names)}: gone",
        "vms-put": f"{' '.join(names)}: here",
    }
    about_nobody = record.action.startswith("event-") and not vms
    return "" if about_nobody or len(names) > FEW else sentences.get(record.action, "")
