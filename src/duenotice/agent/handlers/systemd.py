"""`systemd`: stops units in order, and starts again those it stopped."""

from typing import Annotated

from msgspec import Meta, Struct

from duenotice.agent.handlers.base import Handler, Occasion
from duenotice.agent.handlers.options import Argv
from duenotice.agent.handlers.units import SYSTEMCTL, Units, check_unit


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

    async def prepare(self, occasion: Occasion) -> None:
        units = Units(self._options.systemctl, occasion)
        up = [unit for unit in self._options.units if await units.is_up(unit)]
        # A unit that an earlier try stopped is down now, and we must still start it.
        await occasion.note("stopped", sorted({*occasion.notes.get("stopped", []), *up}))
        for unit in up:
            await units.stop(unit)

    async def undone(self, occasion: Occasion) -> str:
        """Somebody, or another unit, has started a unit that was stopped."""
        units = Units(self._options.systemctl, occasion)
        up = [unit for unit in self._options.units if await units.is_up(unit)]
        return f"{', '.join(up)} was started" if up else ""

    async def recover(self, occasion: Occasion) -> None:
        units, stopped = Units(self._options.systemctl, occasion), occasion.notes.get("stopped", [])
        for unit in reversed([unit for unit in self._options.units if unit in stopped]):
            if not await units.is_up(unit):
                await units.start(unit)

    def programs(self) -> list[Argv]:
        return [self._options.systemctl]
