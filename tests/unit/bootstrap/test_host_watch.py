"""Domains come and go, and the fleet follows them; what is odd is said once, and takes nobody away."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from structlog.testing import capture_logs

from duenotice.bootstrap.host_watch import HostWatch, MappingFile
from duenotice.domain.commands import ScheduleEvent
from duenotice.domain.event import EventType
from duenotice.domain.state import State
from duenotice.engine.engine import Engine
from duenotice.errors import Unavailable
from duenotice.host.hypervisor import DomainState, GuestDomain
from duenotice.store.memory import MemoryJournal
from tests.unit.engine.rig import BEGIN, engine_on

WEB = GuestDomain("web-0", "u1", "h1", DomainState.RUNNING, "52:54:00:00:00:0b", "vnet0", "10.0.0.11")
DB = GuestDomain("db-0", "u2", "h1", DomainState.OFF, "52:54:00:00:00:0c", "", "10.0.0.12")
FILE = """
[[vms]]
name = "web-0"
address = "{}"
"""


class ToyHost:
    """A host with these domains; None: libvirt is gone."""

    name = "h1"

    def __init__(self, *guests: GuestDomain) -> None:
        self.domains: list[GuestDomain] | None = list(guests)

    def guests(self, bridge: str) -> list[GuestDomain]:
        if self.domains is None:
            raise Unavailable("libvirt on h1 cannot be asked.", hint="Is it up?")
        return self.domains


class ToyBridge:
    """A bridge that takes any rules."""

    name = "br0"

    def ports(self) -> list[str]:
        return ["vnet0"]

    def own_addresses(self) -> set[str]:
        return {"10.0.0.1"}

    def put(self, script: str) -> None:
        pass

    def is_prepared(self) -> bool:
        return True

    def announce(self, taps: Iterable[str]) -> None:
        pass


class Alone:
    """A service that is a node of its own."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    @property
    def state(self) -> State:
        return self.engine.state


class Watched:
    """A host, its watch, and the node beside which it runs."""

    def __init__(self, host: ToyHost, engine: Engine, file: MappingFile) -> None:
        self.host, self.engine = host, engine
        self.logs: Sequence[Any] = ()
        self._watch = HostWatch([host], ToyBridge(), file)  # type: ignore[list-item, arg-type]

    async def look(self) -> list[str]:
        """What a look says; a libvirt that is gone is no surprise here."""
        with capture_logs() as logs:
            try:
                await self._watch.look(Alone(self.engine))  # type: ignore[arg-type]
            except Unavailable as error:
                return [error.message]
        self.logs = logs
        return [line["event"] for line in logs]

    def addresses(self) -> dict[str, str]:
        return {vm.name: vm.address for vm in self.engine.state.fleet.vms.values()}


@asynccontextmanager
async def watched(*guests: GuestDomain, file: str = "") -> AsyncIterator[Watched]:
    engine = engine_on(MemoryJournal())
    engine.start()
    try:
        yield Watched(ToyHost(*guests), engine, MappingFile(file))
    finally:
        await engine.stop()


def story(tell: Callable[[], Any]) -> None:
    asyncio.run(tell())


def test_a_file_that_has_changed_is_read_again_and_one_that_is_not_valid_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "fleet.toml"
    file.write_text(FILE.format("10.0.0.98"))

    async def tell() -> None:
        async with watched(WEB, file=str(file)) as host:
            assert await host.look() == []
            assert host.addresses() == {"web-0": "10.0.0.98"}
            file.write_text(FILE.format("10.0.0.99"))
            assert await host.look() == []
            assert host.addresses() == {"web-0": "10.0.0.99"}
            file.write_text("[[vms]")
            (line,) = await host.look()
            assert line.startswith(str(file)) and line.endswith("What it said before counts.")
            assert await host.look() == []
            assert host.addresses() == {"web-0": "10.0.0.99"}
            file.unlink()
            (line,) = await host.look()
            assert line.startswith(f"Cannot read the fleet file {file}")
            assert host.addresses() == {"web-0": "10.0.0.99"}
            file.write_text(FILE.format("10.0.0.97"))
            assert await host.look() == []
            assert host.addresses() == {"web-0": "10.0.0.97"}

    story(tell)


def test_the_last_domain_that_is_undefined_leaves_the_fleet() -> None:
    """At the second look: one list that is empty may be a mistake."""

    async def tell() -> None:
        async with watched(WEB) as host:
            await host.look()
            host.host.domains = []
            assert (await host.look(), set(host.addresses())) == ([], {"web-0"})
            assert (await host.look(), host.addresses()) == ([], {})

    story(tell)


def test_a_libvirt_that_is_gone_takes_nobody_away() -> None:
    async def tell() -> None:
        async with watched(WEB, DB) as host:
            await host.look()
            host.host.domains = None
            for _ in range(3):
                assert await host.look() == ["libvirt on h1 cannot be asked."]
            host.host.domains = []
            await host.look()
            host.host.domains = [WEB, DB]
            await host.look()
            host.host.domains = []
            await host.look()
            assert set(host.addresses()) == {"web-0", "db-0"}

    story(tell)


def test_a_start_at_a_libvirt_without_any_domain_takes_nobody_away() -> None:
    """It may be the wrong one: this process has never seen a domain there."""

    async def tell() -> None:
        async with watched(WEB) as host:
            await host.look()
            again = Watched(ToyHost(), host.engine, MappingFile())
            said = [await again.look() for _ in range(3)]
            assert [len(lines) for lines in said] == [1, 0, 0]
            assert "would remove all 1 VMs" in said[0][0]
            assert set(again.addresses()) == {"web-0"}

    story(tell)


def test_a_domain_that_is_renamed_is_named_with_the_events_of_its_old_name() -> None:
    """They are not lost: they wait for a domain of that name, or somebody cancels them."""

    async def tell() -> None:
        async with watched(WEB, DB) as host:
            await host.look()
            asked = ScheduleEvent("e1", EventType.REBOOT, ("db-0",), BEGIN.at + timedelta(days=1))
            await host.engine.submit(asked, "test")
            host.host.domains = [WEB, DB._replace(name="db-9")]
            assert await host.look() == ["domain db-0 is named db-9 now"]
            assert host.logs[0]["event_ids"] == ["e1"]
            assert await host.look() == []
            assert (set(host.addresses()), set(host.engine.state.events)) == ({"web-0", "db-9"}, {"e1"})

    story(tell)
