"""What goes on beside a service on a hypervisor: domains come and go, and fleet and rules follow them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import structlog

from duenotice.backoff import Backoff
from duenotice.bootstrap.fleet_file import text_of
from duenotice.domain import records as t
from duenotice.domain.commands import ApplyFleet
from duenotice.domain.event import Phase
from duenotice.domain.fleet import Declaration
from duenotice.domain.state import State
from duenotice.engine.engine import SELF, Engine
from duenotice.errors import DuenoticeError, Refused, Unavailable
from duenotice.host.fleet import compose, guest_ports
from duenotice.host.hypervisor import GuestDomain, Hypervisor
from duenotice.host.network import Bridge, rules
from duenotice.wire.fleet_file import read_fleet


class MappingFile:
    """Read at once: a file that is not valid at the start is an error. Without a path it says nothing."""

    def __init__(self, path: str = "") -> None:
        self._path, self._text = path, text_of(path) if path else ""
        self.says: Declaration | None = read_fleet(self._text, path) if path else None

    def reread(self) -> str:
        """Why the file as it is now does not count; empty if it does."""
        try:
            text = text_of(self._path) if self._path else ""
            if text != self._text:
                self.says, self._text = read_fleet(text, self._path), text
        except DuenoticeError as error:
            return f"{error.message} {error.hint} What it said before counts."
        return ""


if TYPE_CHECKING:
    from duenotice.bootstrap.follower import FollowerService
    from duenotice.bootstrap.node import Service

LOOK_ANYWAY = 10.0
"""Seconds after which libvirt is asked although it has said nothing: a lease may have come."""
_HOST, _FLEET, _FILE = "host/", "/fleet", "/file"
"""Complaints that are about no domain; no domain may have a slash in its name."""
_AGAIN = Backoff(0.5, 15.0)
OVER = (t.EventCompleted, t.EventFailed, t.EventCancelled)

log = structlog.get_logger()


class HostWatch:
    """The first of `hosts` is this one; `file` says more about domains of the same names."""

    def __init__(self, hosts: Sequence[Hypervisor], bridge: Bridge, file: MappingFile) -> None:
        self._hosts, self._bridge, self._file = hosts, bridge, file
        self._changed = asyncio.Event()
        self._complaints: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._script = ""
        self._was_empty = False

    @asynccontextmanager
    async def beside(self, service: "Service | FollowerService") -> AsyncIterator[None]:
        """For as long as the service runs."""
        loop = asyncio.get_running_loop()

        def changed() -> None:
            loop.call_soon_threadsafe(self._changed.set)

        for host in self._hosts:
            host.listen(changed)
        engine = getattr(service, "engine", None)
        if engine is not None:
            engine.on_commit.append(self._heard)
        task = asyncio.create_task(self._watch(service), name="host-watch")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _heard(self, records: Sequence[t.Record]) -> None:
        """A VM that is no longer being hit is looked at again."""
        if any(isinstance(record.transition, OVER) for record in records):
            self._changed.set()

    async def _watch(self, service: "Service | FollowerService") -> None:
        failures = 0
        while True:
            self._changed.clear()
            try:
                await self.look(service)
                failures, pause = 0, LOOK_ANYWAY
            except Unavailable as error:
                self._complain("", f"{error.message} {error.hint} The last fleet is served; nothing is hit meanwhile.")
                failures, pause = failures + 1, _AGAIN.after(failures)
            except DuenoticeError as error:
                self._complain("", f"{error.message} {error.hint}")
                pause = LOOK_ANYWAY
            except Exception:
                log.exception("the hypervisor was not looked at", action="host-failed")
                pause = LOOK_ANYWAY
            try:
                async with asyncio.timeout(pause):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def look(self, service: "Service | FollowerService") -> None:
        """Ask libvirt, and make fleet and rules as it says."""
        fleet, names = service.state.fleet, [host.name for host in self._hosts]
        asked = {host.name: await self._asked(host) for host in self._hosts}
        guests = [guest for found in asked.values() for guest in found or ()]
        unknown = {vm.name for vm in fleet.vms.values() if vm.host in asked and asked[vm.host] is None}
        here = await asyncio.to_thread(self._hosts[0].guests, self._bridge.name)
        self._note_names(guests, service.state)
        engine = getattr(service, "engine", None)
        if engine is not None and engine.leads:
            own = await asyncio.to_thread(self._bridge.own_addresses)
            self._complain(_FILE, await asyncio.to_thread(self._file.reread))
            made = compose(guests, names, self._file.says, fleet.vms, busy(service.state) | unknown, own)
            self._complain_about(made.troubles)
            await self._apply(made.declaration, engine)
        await self._guard(here, service.state)
        if self._complaints.pop("", None):
            log.info("libvirt is there again", action="host-again")

    async def _apply(self, declared: Declaration, engine: Engine) -> None:
        """The last domain leaves the fleet when two looks in a row have found none, and we have seen all of them go.

        Else it is more likely that this is the wrong libvirt.
        """
        fleet, was_empty = engine.state.fleet, self._was_empty
        self._was_empty = not declared.vms
        have_gone = self._was_empty and fleet.vms.keys() <= set(self._names.values())
        if declared.digest == fleet.digest or (have_gone and not was_empty):
            return
        try:
            await engine.submit(ApplyFleet(declared, have_gone), SELF)
            self._complain(_FLEET, "")
        except Refused as refusal:
            self._complain(_FLEET, f"{refusal.message} {refusal.hint}")

    async def _asked(self, host: Hypervisor) -> list[GuestDomain] | None:
        """Its domains; None: it is another host that cannot be asked, which costs the guests here nothing."""
        try:
            found = await asyncio.to_thread(host.guests, "")
        except Unavailable as error:
            if host is self._hosts[0]:
                raise
            self._complain(_HOST + host.name, f"{error.message} {error.hint} Its VMs stay in the fleet as they were.")
            return None
        if self._complaints.pop(_HOST + host.name, None):
            log.info(f"libvirt on {host.name} is there again", action="host-again")
        return found

    async def _guard(self, here: Sequence[GuestDomain], state: State) -> None:
        ports = await asyncio.to_thread(self._bridge.ports)
        known = guest_ports(here, state.fleet.vms, self._hosts[0].name)
        script = rules(self._bridge.name, known, ports)
        if script != self._script:
            await asyncio.to_thread(self._bridge.put, script)
            self._script = script
        if not await asyncio.to_thread(self._bridge.is_prepared):
            await asyncio.to_thread(self._bridge.put_back, script)
            log.warning("somebody had taken our rules or address from the bridge: put back", action="bridge-again")
        await asyncio.to_thread(self._bridge.announce, [guest.tap for guest in known])

    def _note_names(self, guests: Sequence[GuestDomain], state: State) -> None:
        for guest in guests:
            old = self._names.setdefault(guest.uuid, guest.name)
            if old != guest.name:
                self._names[guest.uuid] = guest.name
                hint = f"It is a new VM to the fleet. Events of {old} wait for that name; cancel them if it is gone."
                live = [event.id for event in state.events.values() if old in event.resources]
                what = f"domain {old} is named {guest.name} now"
                log.warning(what, action="domain-renamed", hint=hint, **({"event_ids": live} if live else {}))

    def _complain_about(self, troubles: dict[str, str]) -> None:
        for name, trouble in troubles.items():
            self._complain(name, f"domain {name} cannot be told: {trouble}")
        for name in self._complaints.keys() - troubles.keys() - {""}:
            if "/" not in name:
                del self._complaints[name]

    def _complain(self, about: str, what: str) -> None:
        """Each trouble is logged once, until it changes; one that is empty is over."""
        if self._complaints.get(about, "") != what:
            self._complaints[about] = what
            if what:
                log.warning(what, action="host-trouble")


def busy(state: State) -> set[str]:
    """The VMs that are being hit."""
    started = (event for event in state.events.values() if event.phase is Phase.STARTED)
    return {name for event in started for name in event.resources}
