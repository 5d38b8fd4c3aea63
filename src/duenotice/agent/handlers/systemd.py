"""`systemd`: stops units in order over D-Bus, and starts again those it stopped."""

from typing import Annotated

from msgspec import Meta, Struct

from duenotice.agent.handlers.base import Handler, Occasion
from duenotice.agent.handlers.dbus import SYSTEM_BUS
from duenotice.agent.handlers.units import systemd


class Options(Struct, frozen=True, forbid_unknown_fields=True):
    """Whole unit names, in the order they are to stop."""

    units: Annotated[tuple[str, ...], Meta(min_length=1)]
    socket: str = SYSTEM_BUS

    def __post_init__(self) -> None:
        for unit in self.units:
            if "." not in unit:
                raise ValueError(f"{unit!r} is not a whole unit name; write {unit}.service")


class Systemd(Handler[Options]):
    """Notes which units are up before it stops the first."""

    options = Options

    async def prepare(self, occasion: Occasion) -> None:
        async with systemd(self._options.socket) as units:
            up = [unit for unit in self._options.units if await units.is_up(unit)]
            # A unit that an earlier try stopped is down now, and we must still start it.
            await occasion.note("stopped", sorted({*occasion.notes.get("stopped", []), *up}))
            for unit in up:
                await units.stop(unit)

    async def recover(self, occasion: Occasion) -> None:
        stopped = occasion.notes.get("stopped", [])
        if not stopped:
            return
        async with systemd(self._options.socket) as units:
            for unit in reversed([unit for unit in self._options.units if unit in stopped]):
                if not await units.is_up(unit):
                    await units.start(unit)
