"""systemd's units as handlers see them: is it active, stop it, start it; each waits until the job is over."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from duenotice.agent.handlers.base import HandlerFailed
from duenotice.agent.handlers.dbus import SYSTEM_BUS, Connection
from duenotice.agent.handlers.dbus_wire import MEMBER

_SYSTEMD = "org.freedesktop.systemd1"
_MANAGER = (_SYSTEMD, "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager")
_BUS = ("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus")
_JOBS_END = f"type='signal',interface='{_MANAGER[2]}',member='JobRemoved'"
_UP = ("active", "activating", "reloading")


class Units:
    """A connection to systemd's manager."""

    def __init__(self, bus: Connection) -> None:
        self._bus = bus

    async def is_up(self, unit: str) -> bool:
        """Whether there is something to stop. A unit that does not exist is an error, not a stopped unit."""
        if await self._property(unit, f"{_SYSTEMD}.Unit", "LoadState") == "not-found":
            raise HandlerFailed(f"There is no unit {unit!r} in systemd.", hint="See `systemctl list-unit-files`.")
        return await self._property(unit, f"{_SYSTEMD}.Unit", "ActiveState") in _UP

    async def main_pid(self, unit: str) -> int:
        """The process a signal is meant for; 0 when there is none."""
        return int(await self._property(unit, f"{_SYSTEMD}.Service", "MainPID"))

    async def stop(self, unit: str) -> None:
        """Stop it and wait until it is down."""
        await self._job("StopUnit", unit)

    async def start(self, unit: str) -> None:
        """Start it and wait until it is up."""
        await self._job("StartUnit", unit)

    async def _job(self, verb: str, unit: str) -> None:
        # systemd forgets a job when it ends, so only a signal tells its end.
        (job,) = await self._bus.call(*_MANAGER, verb, unit, "replace")
        while True:
            signal = await self._bus.next_signal()
            if signal.fields.get(MEMBER) == "JobRemoved" and signal.body[1] == job:
                break
        if signal.body[3] not in ("done", "skipped"):
            raise HandlerFailed(f"{verb} of {unit} ended as {signal.body[3]}.", hint=f"See `systemctl status {unit}`.")

    async def _property(self, unit: str, interface: str, name: str) -> Any:
        (path,) = await self._bus.call(*_MANAGER, "LoadUnit", unit)
        answer = await self._bus.call(_SYSTEMD, path, "org.freedesktop.DBus.Properties", "Get", interface, name)
        return answer[0]


@asynccontextmanager
async def systemd(socket: str = SYSTEM_BUS) -> AsyncIterator[Units]:
    """Talk to systemd until the block ends."""
    async with Connection(socket) as bus:
        await bus.call(*_BUS, "AddMatch", _JOBS_END)
        await bus.call(*_MANAGER, "Subscribe")
        yield Units(bus)
