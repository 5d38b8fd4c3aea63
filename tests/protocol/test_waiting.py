"""`wait` holds the answer until the document changes; clients that do not ask for it never notice."""

import asyncio
import socket
import struct
import time
from dataclasses import replace
from uuid import uuid4

import pytest

from duenotice.domain.apply import fold, touched
from duenotice.domain.commands import ApplyFleet, ScheduleEvent
from duenotice.domain.event import EventType
from duenotice.domain.fleet import Declaration, Vm
from duenotice.domain.policy import Policy
from duenotice.domain.records import Record
from duenotice.domain.rules.decide import decide
from duenotice.engine.writer import Ask
from tests.protocol.raw import NOTHING, PATH, POLL, Client, Reply, ask, request
from tests.protocol.world import FLEET, GENEROUS, SOLO, STRANGER, WEB_0, World, running


def wait_for_news(known: str, wait: str) -> bytes:
    return request("GET", f"{PATH}&wait={wait}", f"If-None-Match: {known}")


def timed(client: Client, raw: bytes) -> tuple[Reply, float]:
    begin = time.monotonic()
    return client.ask(raw), time.monotonic() - begin


@pytest.fixture
def world():
    with running() as world:
        assert [ask(world).status, ask(world, source=WEB_0).status] == [200, 200]
        yield world


def test_a_new_event_ends_the_wait_of_a_vm(world: World) -> None:
    with Client(world) as client:
        client.send(wait_for_news('"0"', "30s"))
        assert client.is_silent(0.1)
        begin = time.monotonic()
        event_id = world.schedule("solo")
        reply = client.reply()
        assert time.monotonic() - begin < 10
        assert (reply.status, reply.headers["etag"]) == (200, '"1"')
        assert event_id.encode() in reply.body


def test_without_news_the_answer_is_304_when_the_time_is_up(world: World) -> None:
    with Client(world) as client:
        reply, seconds = timed(client, wait_for_news('"0"', "300ms"))
        assert (reply.status, reply.headers["etag"], reply.body) == (304, '"0"', b"")
        assert 0.29 < seconds < 10
        assert client.ask().body == NOTHING


@pytest.mark.parametrize("raw", [POLL, request("GET", f"{PATH}&wait=30s"), wait_for_news('"7"', "30s")])
def test_who_does_not_have_the_document_gets_it_at_once(world: World, raw: bytes) -> None:
    with Client(world) as client:
        reply, seconds = timed(client, raw)
        assert (reply.body, seconds < 10) == (NOTHING, True)


@pytest.mark.parametrize("tag", ["0", '"0"', 'W/"0"', '"5", "0"', "*"])
def test_a_document_that_the_client_has_is_not_sent_again(world: World, tag: str) -> None:
    assert ask(world, request("GET", PATH, f"If-None-Match: {tag}")).status == 304


def test_another_document_than_the_client_has_is_sent(world: World) -> None:
    world.schedule("solo")
    reply = ask(world, request("GET", PATH, 'If-None-Match: "0"'))
    assert (reply.status, reply.headers["etag"]) == (200, '"1"')


@pytest.mark.parametrize("wait", ["soon", "-1", "1y", "", "1..5s", "30 s", "9999999999"])
def test_a_malformed_wait_is_refused(world: World, wait: str) -> None:
    raw = f"{PATH}&wait={wait.replace(' ', '%20')}"
    assert ask(world, request("GET", raw)).status == 400


def test_all_vms_of_a_scope_are_told_and_others_are_not(world: World) -> None:
    with Client(world, WEB_0) as first, Client(world, "127.0.2.2") as second, Client(world) as solo:
        for client in (first, second, solo):
            client.send(wait_for_news('"0"', "30s"))
            assert client.is_silent(0.05)
        world.schedule("web-0")
        assert first.reply().body == second.reply().body
        assert solo.is_silent(0.1)


def test_requests_behind_a_waiting_one_are_answered_after_it(world: World) -> None:
    with Client(world) as client:
        client.send(wait_for_news('"0"', "30s") + POLL + request("GET", "/nowhere"))
        assert client.is_silent(0.1)
        world.schedule("solo")
        assert [client.reply().status for _ in range(3)] == [200, 200, 404]


def test_much_that_is_sent_behind_a_waiting_request_stays_outside(world: World) -> None:
    with Client(world) as client:
        client.send(wait_for_news('"0"', "30s"))
        client.socket.settimeout(0.3)
        with pytest.raises(TimeoutError):
            while True:
                client.send(POLL * 1000)
        (waiting,) = world.server._context.limits.connections
        assert len(waiting.reader or b"") < 1_000_000


@pytest.mark.parametrize("seconds_to_linger", [None, 0], ids=["closes", "resets"])
def test_a_waiting_client_that_goes_away_is_forgotten(world: World, seconds_to_linger: int | None) -> None:
    with Client(world) as client:
        client.send(wait_for_news('"0"', "30s"))
        assert client.is_silent(0.1)
        if seconds_to_linger is not None:
            linger = struct.pack("ii", 1, seconds_to_linger)
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    deadline = time.monotonic() + 5
    while world.server.connections:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert not world.server._context.long_polls.held
    assert not world.call(lambda: world.server._context.sessions.by_address[SOLO].page.watchers)


def test_a_waiting_client_that_sends_no_more_is_answered_at_once(world: World) -> None:
    with Client(world) as client:
        client.send(wait_for_news('"0"', "30s"))
        client.end()
        assert client.reply().status == 304
        assert client.is_closed()


def test_a_vm_that_leaves_the_fleet_while_it_waits_is_told_so(world: World) -> None:
    with Client(world) as client:
        client.send(wait_for_news('"0"', "30s"))
        assert client.is_silent(0.1)
        world.submit(ApplyFleet(Declaration("two", groups=FLEET.groups, vms=FLEET.vms[1:])))
        assert client.reply().status == 404


def test_who_waits_with_an_address_that_the_vm_no_longer_has_is_a_stranger(world: World) -> None:
    with Client(world) as client:
        client.send(wait_for_news('"0"', "30s"))
        assert client.is_silent(0.1)
        world.submit(ApplyFleet(Declaration("two", groups=FLEET.groups, vms=(Vm("solo", STRANGER), *FLEET.vms[1:]))))
        assert client.reply().status == 404


def test_a_vm_that_moves_to_another_scope_while_it_waits_is_shown_that_ones_events(world: World) -> None:
    event_id = world.schedule("web-0")
    with Client(world) as client:
        client.send(wait_for_news('"0"', "30s"))
        assert client.is_silent(0.1)
        moved = Vm("solo", SOLO, group="set/web", update_domain=2)
        world.submit(ApplyFleet(Declaration("three", groups=FLEET.groups, vms=(moved, *FLEET.vms[1:]))))
        reply = client.reply()
        assert reply.status == 200
        assert event_id.encode() in reply.body


def test_a_thousand_waiting_requests_before_the_clients_end_are_all_answered(world: World) -> None:
    with Client(world) as client:
        client.send(wait_for_news('"0"', "30s") * 1000)
        client.end()
        assert {client.reply().status for _ in range(1000)} == {304}
        assert client.is_closed()


def test_a_fault_ends_the_wait_of_its_vm_and_of_no_other(world: World) -> None:
    """It is told that nothing is new, asks again, and meets the fault then."""
    with Client(world) as client, Client(world, source=WEB_0) as other:
        client.send(wait_for_news('"0"', "300s"))
        other.send(wait_for_news('"0"', "300s"))
        assert client.is_silent(0.1)
        world.call(lambda: world.server.faults.put("solo", "500", 60))
        assert client.reply().status == 304
        assert client.ask(wait_for_news('"0"', "300s")).status == 500
        assert other.is_silent(0.1)


def test_news_between_the_decision_to_hold_a_first_poll_and_the_hold_is_not_lost() -> None:
    """The answer to a first poll takes some turns of the loop; an event may be shown in the last of them."""
    with running(replace(GENEROUS, first_answer_delay=1.0)) as world, Client(world) as client:
        gate = world.call(asyncio.Event)

        async def until_told(_: float) -> object:
            return await gate.wait()

        world.call(lambda: setattr(world.server._context.answers, "_delay", until_told))
        client.send(wait_for_news('"0"', "30s"))
        while not world.call(lambda: world.engine.state.enabled("vm/solo")):
            pass

        def news_in_between() -> None:
            gate.set()
            world.loop.call_soon(lambda: show_an_event(world))

        world.call(news_in_between)
        assert client.reply().headers["etag"] == '"1"'


def show_an_event(world: World) -> None:
    """At once, as the engine does it when a commit is there."""
    publisher = world.engine.publisher
    state = publisher.state.copy()
    command = ScheduleEvent(str(uuid4()).upper(), EventType.REBOOT, ("solo",))
    changes = decide(state, command, world.clock.now(), Policy())
    records = [Record(state.position + 1, world.clock.now().at, "test", change) for change in changes]
    for record in records:
        fold(state, record)
    publisher.publish(state, touched(publisher.state, state, records), world.clock.now().steady)


def test_who_was_taken_for_the_default_vm_is_told_when_it_becomes_a_vm() -> None:
    with running(replace(GENEROUS, default_vm="solo")) as world, Client(world, STRANGER) as client:
        assert client.ask().status == 200
        client.send(wait_for_news('"0"', "30s"))
        assert client.is_silent(0.1)
        world.submit(ApplyFleet(Declaration("two", groups=FLEET.groups, vms=(*FLEET.vms, Vm("new", STRANGER)))))
        assert client.reply().status == 304


def test_a_first_poll_of_a_vm_that_is_removed_meanwhile_is_a_strangers() -> None:
    """404, as for everybody whom nobody has registered (A09)."""
    with running() as world, Client(world) as client:
        held = world.call(lambda: world.engine._writer.serve)

        def remove_first(asks: object) -> object:
            world.engine._writer.serve = held  # type: ignore[method-assign]
            gone = Ask(ApplyFleet(Declaration("gone", groups=FLEET.groups, vms=FLEET.vms[1:])), "test")
            outcome = held([gone, *asks])  # type: ignore[misc]
            return outcome._replace(answers=outcome.answers[1:])

        world.call(lambda: setattr(world.engine._writer, "serve", remove_first))
        assert client.ask().status == 404
