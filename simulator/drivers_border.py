"""The border around drivers: requests of webhooks and wrappers of commands go to the world's outside."""

import asyncio
import json
import os
import ssl
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

from duenotice.bootstrap import drivers
from duenotice.engine.engine import Engine
from duenotice.http.fetch import HttpAnswer
from duenotice.impact import command, webhook
from duenotice.impact.driver import Driver
from duenotice.settings import ServeSettings
from simulator.agents_border import check_alive
from simulator.drivers import OUTSIDE, TIMEOUT
from simulator.drivers_commands import commands_of
from simulator.loop import OWNER
from simulator.machine import MACHINE

_real_driver = drivers._driver


async def call(url: str, *, body: bytes = b"", headers: Mapping[str, str] | None = None, **_: Any) -> HttpAnswer:
    """As `http_call.call`: the request arrives, whatever becomes of who sent it."""
    check_alive()
    outside, sent = OUTSIDE.get(), headers or {}
    told = sorted(f"{name}: {value}" for name, value in sent.items())
    outside.world.transcripts.answered.add("impact", url, f"{told}:", data=body)
    answer: asyncio.Future[HttpAnswer] = asyncio.get_running_loop().create_future()
    outside.world.begin(
        outside.post(OWNER.get(), sent["Idempotency-Key"], int(sent["Duenotice-Attempt"]), body, answer)
    )
    return await answer


def _driver(settings: ServeSettings, engine: Engine, data_dir: Path | None) -> Driver | None:
    """The real drivers; notes of commands are on the disk of the machine, in the data directory of the process."""
    outside = OUTSIDE.get(None)
    if outside is None or outside.kind == "webhook":
        return _real_driver(settings, engine, data_dir)
    machine = MACHINE.get()
    folder = cast(Path, commands_of(machine).disk / f"data-{machine.directories}/impact")
    return command.CommandDriver(["/bin/true"], folder, TIMEOUT)


def _spawn_wrapper(stdin: int, environment: dict[str, str]) -> int:
    check_alive()
    size, commands = os.fstat(stdin).st_size, commands_of(MACHINE.get())
    task, told = json.loads(os.pread(stdin, size, 0)), sorted(f"{key}={value}" for key, value in environment.items())
    commands.outside.world.transcripts.answered.add("impact", task["command"], f"{told}:", data=task["input"].encode())
    return commands.spawn(task, environment)


async def _end_of(pid: int) -> None:
    await commands_of(MACHINE.get()).end_of(pid)


def _waitpid(pid: int, _: int) -> tuple[int, int]:
    return pid, 0


@contextmanager
def drivers_border() -> Iterator[None]:
    """While this is open, drivers reach the world's outside."""
    calls = SimpleNamespace(**{name: getattr(os, name) for name in ("close", "strerror", "waitstatus_to_exitcode")})
    calls.waitpid = _waitpid
    with ExitStack() as inside:
        for target, name, value in (
            (drivers, "_driver", _driver),
            (webhook, "fetch", call),
            (webhook, "ssl", SimpleNamespace(create_default_context=lambda **_: None, SSLContext=ssl.SSLContext)),
            (command, "os", calls),
            (command, "_spawn_wrapper", _spawn_wrapper),
            (command, "_end_of", _end_of),
            # no draw: the ids of a world stay as they were
            (command.RunRecords, "name", lambda records: str(records.directory)),
            (command, "boot_id", lambda: MACHINE.get().boot_id),
            (command, "start_time", lambda pid: commands_of(MACHINE.get()).start_time(pid)),
        ):
            inside.enter_context(patch.object(target, name, value))
        yield
