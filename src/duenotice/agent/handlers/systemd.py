"""`systemd`: stops units in order, and starts again those it stopped."""

import os
import re
from typing import Annotated

from msgspec import Meta, Struct

from duenotice.agent.handlers.base import Argv, Handler, HandlerContext, HandlerFailed, TryAgain
from duenotice.agent.handlers.processes import Finished, finish

SYSTEMCTL: Argv = ("/usr/bin/systemctl",)
_UP = ("active", "activating", "reloading")
_UNIT = re.compile(r"[A-Za-z0-9:_.\\@-]+\.[a-z]+", re.ASCII)


def check_unit(unit: str) -> None:
    """Refuse what systemctl would complete, or take for a pattern of several units."""
    if not _UNIT.fullmatch(unit):
        name = re.split(r"[^A-Za-z0-9:_\\@-]", unit)[0] or "name"
        raise ValueError(f"{unit!r} is not a whole unit name; write {name}.service")


class Units:
    """systemd's manager, asked through systemctl until the context's deadline."""

    def __init__(self, systemctl: Argv, context: HandlerContext) -> None:
        self._systemctl, self._context = systemctl, context

    async def is_up(self, unit: str) -> bool:
        """Whether there is something to stop. A unit that does not exist is an error, not a stopped unit."""
        shown = await self._show(unit)
        if shown["LoadState"] == "not-found":
            raise HandlerFailed(f"There is no unit {unit!r} in systemd.", hint="See `systemctl list-unit-files`.")
        return shown["ActiveState"] in _UP

    async def main_pid(self, unit: str) -> int:
        """The process a signal is meant for; 0 when there is none."""
        return int((await self._show(unit)).get("MainPID", 0))

    async def stop(self, unit: str) -> None:
        """Stop it and wait until it is down."""
        await self._job("stop", unit)

    async def start(self, unit: str) -> None:
        """Start it and wait until it is up."""
        await self._job("start", unit)

    async def _job(self, verb: str, unit: str) -> None:
        """systemctl waits for the end of the job. If it is killed, with us or at the deadline, the job goes on."""
        finished = await self._run(verb, "--", unit)
        if finished.code:
            said = _first_line(finished)
            lost = "connect" in said.lower()  # systemd starts itself again at an upgrade
            kind = TryAgain if lost else HandlerFailed
            raise kind(f"systemd did not {verb} {unit}: {said}", hint=f"See `systemctl status {unit}`.")

    async def _show(self, unit: str) -> dict[str, str]:
        finished = await self._run("show", "--property=LoadState,ActiveState,MainPID", "--", unit)
        if finished.code:  # also a unit that does not exist is shown
            raise TryAgain(f"systemd does not answer: {_first_line(finished)}", hint="Is it running?")
        return dict(line.split("=", 1) for line in finished.output.splitlines())

    async def _run(self, *words: str) -> Finished:
        environment = os.environ | {"LC_ALL": "C"}
        argv = (*self._systemctl, "--no-ask-password", *words)
        return await finish(argv, self._context, environment=environment)


def _first_line(finished: Finished) -> str:
    return next(iter(finished.errors.strip().splitlines()), f"systemctl exited with {finished.code}.")


class Options(Struct, frozen=True, forbid_unknown_fields=True):
    """Whole unit names, in the order they are to stop; `systemctl` may have arguments, such as `--user`."""

    units: Annotated[tuple[str, ...], Meta(min_length=1)]
    """Such as `nginx.service`."""
    systemctl: Annotated[Argv, Meta(min_length=1)] = SYSTEMCTL

    def __post_init__(self) -> None:
        for unit in self.units:
            check_unit(unit)


class Systemd(Handler[Options]):
    """Notes which units are up before it stops the first."""

    options = Options

    async def prepare(self, context: HandlerContext) -> None:
        units = Units(self._options.systemctl, context)
        up = [unit for unit in self._options.units if await units.is_up(unit)]
        # A unit that an earlier try stopped is down now, and we must still start it.
        await context.note("stopped", sorted({*context.notes.get("stopped", []), *up}))
        for unit in up:
            await units.stop(unit)

    async def undone(self, context: HandlerContext) -> str:
        """Somebody, or another unit, has started a unit that was stopped."""
        units = Units(self._options.systemctl, context)
        up = [unit for unit in self._options.units if await units.is_up(unit)]
        return f"{', '.join(up)} was started" if up else ""

    async def recover(self, context: HandlerContext) -> None:
        units, stopped = Units(self._options.systemctl, context), context.notes.get("stopped", [])
        for unit in reversed([unit for unit in self._options.units if unit in stopped]):
            if not await units.is_up(unit):
                await units.start(unit)

    def programs(self) -> list[Argv]:
        return [self._options.systemctl]
