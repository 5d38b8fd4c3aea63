"""Counts how far a reader walks: the functions and files of ours that one poll, one approval and so on pass through.

`python tools/measure_walks.py [-v]`; with `PYTHONPATH=OTHER/src` it measures another work tree. A real service runs in
this process, and every call of a function of ours is noted; what it does with nobody there is left out.
"""

import asyncio
import http.client
import inspect
import io
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import duenotice

HOUSE = Path(duenotice.__file__).parent
FLEET = Path(__file__).resolve().parents[1] / "examples" / "demo-fleet.toml"
VERSION = "api-version=2020-07-01"
AGENTS_ROOMS = ("agent/", "client/", "wire/", "clock.py", "errors.py", "escape.py")

Step = tuple[str, str]
_noted: list[Step] | None = None


def _note(frame: FrameType, event: str, _: object) -> None:
    code = frame.f_code
    is_function = code.co_flags & inspect.CO_OPTIMIZED  # and not the body of a class or of a module
    if event == "call" and _noted is not None and is_function and code.co_filename.startswith(f"{HOUSE}/"):
        _noted.append((code.co_filename.removeprefix(f"{HOUSE}/"), code.co_qualname))


@contextmanager
def walked(seconds: float = 0.5) -> Iterator[dict[Step, None]]:
    """What is called meanwhile, in the order of the first calls; and so many seconds longer, for what follows."""
    global _noted
    steps: dict[Step, None] = {}
    _noted = []
    yield steps
    time.sleep(seconds)
    noted, _noted = _noted, None
    steps.update(dict.fromkeys(noted))


def report(name: str, steps: dict[Step, None], idle: dict[Step, None]) -> None:
    """One line; with -v every function too."""
    walk = [step for step in steps if step not in idle and "<" not in step[1].rsplit(".", 1)[-1]]
    files = dict.fromkeys(file for file, _ in walk)
    print(f"{name:28}{len(walk):5} functions{len(files):5} files")
    if "-v" in sys.argv:
        print(*(f"    {file}: {', '.join(f for at, f in walk if at == file)}" for file in files), sep="\n")


def ask(address: tuple[str, int], method: str, path: str, body: object = None, **headers: str) -> bytes:
    """One request on a connection of its own."""
    connection = http.client.HTTPConnection(*address, timeout=10)
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    answer = connection.getresponse()
    said = answer.read()
    assert answer.status < 300, said
    connection.close()
    return said


def command(words: list[str]) -> None:
    """The command line, in this process."""
    from duenotice.cli import main

    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        main(words)


@contextmanager
def serving() -> Iterator[Any]:
    """A service with a fleet, in a thread; nothing listens in."""
    from duenotice.bootstrap.node import Service
    from duenotice.settings import ServeSettings

    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    port = "127.0.0.1:0"
    settings = ServeSettings(
        data_dir=":memory:",
        fleet=str(FLEET),
        log_format="none",
        throttle=1e6,
        metadata_listen=port,
        operator_listen=port,
    )
    node = Service(settings)
    asyncio.run_coroutine_threadsafe(node.start(), loop).result(30)
    yield node
    asyncio.run_coroutine_threadsafe(node.stop(), loop).result(30)


def main() -> None:
    """All walks, one after the other."""
    threading.setprofile(_note)
    sys.setprofile(_note)
    with serving() as node:
        vms, operator = node.metadata_address, node.operator_address
        poll = f"/metadata/scheduledevents?{VERSION}"
        bearer = {"Authorization": f"Bearer {node.token}", "Content-Type": "application/json"}
        ask(vms, "GET", poll, Metadata="true")
        time.sleep(0.5)
        with walked(3.0) as idle:
            pass

        def walk(name: str, act: Callable[[], object]) -> None:
            with walked() as steps:
                act()
            report(name, steps, idle)

        def restarted(vm: str) -> str:
            ask(operator, "POST", f"/v1/vms/{vm}/listen", **bearer)
            return str(json.loads(ask(operator, "POST", f"/v1/vms/{vm}/restart", **bearer))["events"][0]["id"])

        walk("poll, first of its bytes", lambda: ask(vms, "GET", poll, Metadata="true", Accept="x"))
        walk("poll, as every second", lambda: ask(vms, "GET", poll, Metadata="true", Accept="x"))
        approval = {"StartRequests": [{"EventId": restarted("me")}]}
        walk("approval", lambda: ask(vms, "POST", poll, approval, Metadata="true"))
        plan = {"on": ["set=web"], "type": "Reboot"}
        place = ["--endpoint", "http://{}:{}".format(*operator)]
        os.environ["DUENOTICE_TOKEN"] = node.token
        command(["events", "list", *place])  # what it loads is not counted
        told = restarted("web-0")
        walk("duenotice events approve", lambda: command(["events", "approve", told, *place]))
        walk("maintenance start", lambda: ask(operator, "POST", "/v1/maintenances", plan, **bearer))
        restarted("cache-0")
        with tempfile.TemporaryDirectory() as folder, walked() as steps:
            asyncio.run(through_a_reboot(Path(folder), vms))
        report("agent through a reboot", {step: None for step in steps if step[0].startswith(AGENTS_ROOMS)}, {})
    fixture(idle)
    sys.setprofile(None)


def fixture(idle: dict[Step, None]) -> None:
    """What a test pays for one event: from the fixture to the document."""
    from duenotice.testkit.emulator import Emulator
    from duenotice.testkit.fixture import ScheduledEvents

    with Emulator(default_vm="vm") as emulator:
        with walked() as steps:
            ScheduledEvents(emulator).vm().restart()
        report("fixture: vm().restart()", steps, idle)


CONFIG = """
[metadata]
endpoint = "http://{host}:{port}"
source_address = "127.0.1.1"
name = "cache-0"
[approval]
policy = "own"
[[rules]]
handlers = ["note"]
[handlers.note]
kind = "command"
prepare = ["/bin/true"]
recover = ["/bin/true"]
"""


async def through_a_reboot(folder: Path, vms: tuple[str, int]) -> None:
    """An agent prepares for a reboot and approves it; after the reboot the next agent puts everything back."""
    from duenotice import clock
    from duenotice.agent.process import run

    file, boot, state = folder / "agent.toml", folder / "boot", folder / "state"
    file.write_text(CONFIG.format(host=vms[0], port=vms[1]))
    clock._BOOT_ID = boot
    for number, enough in ((1, "approved"), (2, "recovered")):
        boot.write_text(f"boot-{number}\n")
        life = asyncio.ensure_future(run(file, state))
        for _ in range(400):
            await asyncio.sleep(0.05)
            if life.done() or any(enough in path.read_text() for path in state.glob("*ledger*")):
                break
        life.cancel()
        with suppress(asyncio.CancelledError):
            await life


if __name__ == "__main__":
    main()
