"""A node among many answers VMs only while it may, and holds polls of scopes that are hidden (N05, N06)."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from duenotice.domain.apply import Touched
from duenotice.domain.commands import ApplyFleet, CancelEvent, Command
from duenotice.domain.fleet import Declaration, Vm
from duenotice.engine.curtain import Curtain
from duenotice.engine.engine import Engine, Records
from duenotice.engine.tally import Tally
from duenotice.metadata_api.context import ServerContext
from duenotice.metadata_api.guard import Guard
from duenotice.metadata_api.options import MetadataOptions
from duenotice.metadata_api.server import MetadataServer
from tests.unit.engine.rig import ALONE, ask, in_loop, listen, reboot, running

PATH = "/metadata/scheduledevents?api-version=2020-07-01"


class GuardedPort:
    """A door with a guard, asked over TCP."""

    address: tuple[str, int]

    def __init__(self, engine: Engine, default_vm: str) -> None:
        self.engine, self.curtain = engine, Curtain()
        self.may_answer = True
        self.tally = Tally()
        guard = Guard(lambda: self.may_answer, self.curtain, self.tally)
        options = MetadataOptions(default_vm=default_vm)
        self.server = MetadataServer(engine.submit, engine.publisher, engine.clock, options, prepare=guard.stand_before)

    async def get(self, query: str = "", method: str = "GET", body: str = "", headers: str = "") -> tuple[int, str]:
        """Status and body of an answer."""
        reader, writer = await asyncio.open_connection(*self.address)
        length = f"Content-Length: {len(body)}\r\n" if body else ""
        always = "Host: x\r\nMetadata: true\r\nConnection: close\r\n"
        head = f"{method} {PATH}{query} HTTP/1.1\r\n{always}{length}{headers}\r\n"
        writer.write((head + body).encode())
        answer = (await reader.read()).decode()
        writer.close()
        top, _, rest = answer.partition("\r\n\r\n")
        assert ("Retry-After: 1" in top) is (" 503 " in top)
        return int(top.split()[1]), rest


@asynccontextmanager
async def guarded(default_vm: str = "alone") -> AsyncIterator[GuardedPort]:
    """A door of a node whose VM listens."""
    async with running() as engine:
        await listen(engine, "alone")
        door = GuardedPort(engine, default_vm)
        door.address = await door.server.start("127.0.0.1", 0)
        try:
            yield door
        finally:
            await door.server.drain(1.0)


def hide(door: GuardedPort, *scopes: str) -> None:
    door.curtain.hide(Touched(set(scopes), set(), set()))


@in_loop
async def test_with_the_right_it_answers_as_any_door() -> None:
    """The second time the same bytes take the short way."""
    async with guarded() as door:
        first, second = await door.get(), await door.get()
        assert first[0] == second[0] == 200
        assert first == second


@in_loop
async def test_without_the_right_every_request_is_503() -> None:
    """Polls that took the short way before too, approvals too; and it comes back (N05)."""
    async with guarded() as door:
        assert [(await door.get())[0] for _ in range(2)] == [200, 200]
        door.may_answer = False
        assert [(await door.get())[0] for _ in range(2)] == [503, 503]
        assert (await door.get(method="POST", body='{"StartRequests": [{"EventId": "x"}]}'))[0] == 503
        assert (door.tally.without_right, door.tally.held) == (3, 0)
        door.may_answer = True
        assert (await door.get())[0] == 200


@pytest.mark.parametrize("default_vm", ["", "alone"])
@in_loop
async def test_an_address_that_is_hidden_waits_until_it_is_known_whose_it_is(default_vm: str) -> None:
    """Another node may know the VM already, and have answered it: here it would be a 404, or another VM's (S27)."""
    async with guarded(default_vm) as door:
        door.curtain.hide(Touched(set(), {"new"}, {"127.0.0.1"}))
        polling = asyncio.create_task(door.get())
        for _ in range(20):
            await asyncio.sleep(0)
        assert not polling.done()
        await ask(door.engine, ApplyFleet(Declaration("two", vms=(Vm("new", "127.0.0.1"), Vm("alone", "10.0.0.1")))))
        await ask(door.engine, reboot("new"))
        door.curtain.lift()
        status, body = await polling
        assert (status, '"Resources":["new"]' in body) == (200, True)


@in_loop
async def test_a_poll_of_a_hidden_scope_waits_and_reads_the_new_document() -> None:
    """It is held until the curtain is lifted, on both ways (N06)."""
    async with guarded() as door:
        assert [(await door.get())[0] for _ in range(2)] == [200, 200]
        hide(door, "vm/alone")
        polling = asyncio.create_task(door.get())
        await ask(door.engine, reboot("alone"))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not polling.done()
        door.curtain.lift()
        status, body = await polling
        assert status == 200
        assert ALONE in body
        assert (door.tally.held, door.tally.hidden_too_long) == (1, 0)


@in_loop
async def test_polls_of_other_scopes_do_not_wait() -> None:
    async with guarded() as door:
        hide(door, "vm/zonal", "set/web")
        assert (await door.get())[0] == 200


@in_loop
async def test_everything_may_be_hidden() -> None:
    async with guarded() as door:
        door.curtain.hide(Touched(set(), set(), set(), everything=True))
        polling = asyncio.create_task(door.get())
        for _ in range(20):
            await asyncio.sleep(0)
        assert not polling.done()
        door.curtain.lift()
        assert (await polling)[0] == 200


@in_loop
async def test_the_right_may_go_while_a_poll_waits() -> None:
    """Then the answer is 503 and not an old document (S27)."""
    async with guarded() as door:
        hide(door, "vm/alone")
        polling = asyncio.create_task(door.get())
        for _ in range(20):
            await asyncio.sleep(0)
        door.may_answer = False
        door.curtain.lift()
        assert (await polling)[0] == 503


@in_loop
async def test_a_held_poll_is_not_answered_without_the_right() -> None:
    """It waits for news of the next document; when it is woken, what it may read is looked at again."""
    async with guarded() as door:
        event = reboot("alone")
        await ask(door.engine, event)
        incarnation = door.engine.state.incarnation("vm/alone")
        for without_right in (True, False):
            tag = f'If-None-Match: "{door.engine.state.incarnation("vm/alone")}"\r\n'
            polling = asyncio.create_task(door.get("&wait=60", headers=tag))
            while not door.server._context.long_polls.held:  # noqa: ASYNC110 (there is no event for that)
                await asyncio.sleep(0)
            door.may_answer = not without_right
            await ask(door.engine, CancelEvent(ALONE) if without_right else reboot("alone", 2))
            assert (await polling)[0] == (503 if without_right else 200)
            door.may_answer = True
        assert door.engine.state.incarnation("vm/alone") > incarnation


@in_loop
async def test_the_first_poll_of_a_scope_is_checked_again_when_it_listens() -> None:
    """To turn a scope on takes a commit; meanwhile the right may go."""
    async with running() as engine:
        door = GuardedPort(engine, "alone")
        door.address = await door.server.start("127.0.0.1", 0)
        engine.on_commit.append(lambda records: setattr(door, "may_answer", False))
        assert (await door.get())[0] == 503
        door.may_answer = True
        assert (await door.get())[0] == 200
        await door.server.drain(1.0)


@in_loop
async def test_an_approval_of_a_vm_that_is_renamed_meanwhile_looks_like_any_other() -> None:
    """S16: also if its scope has to be turned on first, under the name that it had."""
    async with running() as engine:
        door = GuardedPort(engine, "alone")
        renamed = ApplyFleet(Declaration("two", vms=(Vm("renamed", "127.0.0.1"),)))

        def submit(command: Command, actor: str) -> "asyncio.Future[Records]":
            _ = ask(engine, renamed)
            return engine.submit(command, actor)

        door.server = MetadataServer(submit, engine.publisher, engine.clock, MetadataOptions(default_vm="alone"))
        door.address = await door.server.start("127.0.0.1", 0)
        status, body = await door.get(method="POST", body='{"StartRequests": [{"EventId": "x"}]}')
        assert status == 400
        assert "there is no event x." in body.lower()
        await door.server.drain(1.0)


@in_loop
async def test_a_fault_that_is_lifted_leaves_the_guard_in_its_place() -> None:
    async with guarded() as door:
        door.server.faults.put("alone", "500", 60)
        assert (await door.get())[0] == 500
        door.server.faults.lift("alone")
        assert (await door.get())[0] == 200
        door.may_answer = False
        assert [(await door.get())[0] for _ in range(2)] == [503, 503]


@in_loop
async def test_who_waits_for_too_long_is_told_to_ask_again() -> None:
    async with guarded() as door:
        hide(door, "vm/alone")
        assert not await door.curtain.wait("vm/alone", timeout=0.01)
        door.curtain.lift()
        assert await door.curtain.wait("vm/alone", timeout=0.01)


class Bell:
    """An alarm that a test rings."""

    until = 0

    def call(self, method: Callable[[], None]) -> None:
        self.ring = method

    def set(self, nanos: int) -> None:
        self.until = nanos


@in_loop
async def test_polls_meet_no_guard_while_there_is_the_right_and_nothing_is_hidden() -> None:
    """It is back at once when the alarm rings, when the right is taken away, and while the curtain is down (N05)."""
    async with running() as engine:
        bell, curtain, right = Bell(), Curtain(), [True]
        guard = Guard(lambda: right[0], curtain, lease_timer=bell)
        door = ServerContext(engine.submit, engine.publisher, engine.clock, MetadataOptions(), asyncio.sleep)
        guard.stand_before(door)
        ways: dict[int, str] = {id(guard): "by the guard", id(door.sessions.by_address): "short"}

        def way() -> str:
            return ways.get(id(door.warm_sessions), "with faults")

        assert way() == "by the guard", "nobody has said that there is the right"
        curtain.hide(Touched({"vm/alone"}, set(), set()))
        curtain.lift()
        assert way() == "by the guard", "no alarm would say that it is over"
        guard.right_changed(7)
        assert (bell.until, way()) == (7, "short")
        curtain.hide(Touched({"vm/alone"}, set(), set()))
        assert way() == "by the guard"
        curtain.lift()
        assert way() == "short"
        right[0] = False
        bell.ring()
        assert way() == "by the guard"
        curtain.lift()
        assert way() == "by the guard"
        right[0], door.warm_sessions = True, {}
        guard.right_changed(8)
        assert way() == "with faults"
        door.warm_sessions = guard  # as faults leave it when they are lifted
        guard.right_changed(9)
        assert way() == "short"
