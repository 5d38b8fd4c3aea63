"""What a VM sets off: the first request turns its scope on (F01), an approval lets an event start (C01-C06)."""

import asyncio
import json
import time
from collections.abc import Awaitable
from dataclasses import replace

import pytest
import uvloop

from duenotice.clock import MICROS, ManualClock
from duenotice.domain.commands import ApplyFleet, Command, DisableScopes
from duenotice.domain.fleet import Declaration
from duenotice.metadata_api.context import ServerContext
from duenotice.store.memory import MemoryJournal
from tests.protocol.raw import NOTHING, PATH, POLL, Client, ask, request
from tests.protocol.wire import converse
from tests.protocol.world import FLEET, GENEROUS, SOLO, WEB_0, World, running, started_engine


def approval(*event_ids: str) -> bytes:
    return request("POST", body=json.dumps({"StartRequests": [{"EventId": each} for each in event_ids]}).encode())


def is_on(world: World, scope: str) -> bool:
    return world.call(lambda: world.engine.state.enabled(scope))


def test_the_first_poll_of_a_scope_turns_it_on() -> None:
    with running() as world:
        assert not is_on(world, "vm/solo")
        assert ask(world).body == NOTHING
        assert is_on(world, "vm/solo")
        assert not is_on(world, "set/web")


def test_an_approval_turns_it_on_too_even_when_it_is_refused() -> None:
    with running() as world:
        assert ask(world, approval("no-such-event")).status == 400
        assert is_on(world, "vm/solo")


def test_asking_about_oneself_does_not_turn_it_on() -> None:
    with running() as world:
        assert ask(world, request("GET", "/metadata/instance?api-version=2021-02-01")).status == 200
        assert not is_on(world, "vm/solo")


def test_a_scope_that_was_turned_off_is_turned_on_again() -> None:
    with running() as world:
        assert ask(world).status == 200
        world.submit(DisableScopes(("vm/solo",)))
        assert not is_on(world, "vm/solo")
        assert ask(world).status == 200
        assert is_on(world, "vm/solo")


def test_requests_behind_the_first_one_are_answered_after_it() -> None:
    with running() as world, Client(world) as client:
        client.send(POLL + request("GET", "/nowhere") + POLL)
        assert [client.reply().status for _ in range(3)] == [200, 404, 200]


def test_the_first_answer_may_be_late_and_only_the_first() -> None:
    with running(replace(GENEROUS, first_answer_delay=3.0)) as world, Client(world) as first, Client(world) as second:
        begin = time.monotonic()
        first.send(POLL)
        assert first.is_silent(0.1)
        assert second.ask().body == NOTHING
        assert time.monotonic() - begin < 3.0
        assert first.reply().body == NOTHING
        assert time.monotonic() - begin >= 2.99


def test_the_first_answer_may_be_empty_and_only_the_first() -> None:
    with running(replace(GENEROUS, first_answer_empty=True)) as world, Client(world) as client:
        assert [client.ask().body, client.ask().body] == [b"", NOTHING]


def test_a_client_that_does_not_wait_for_its_first_answer_breaks_nothing() -> None:
    with running(replace(GENEROUS, first_answer_delay=0.2)) as world:
        with Client(world) as client:
            client.send(POLL)
            assert client.is_silent(0.05)
        time.sleep(0.3)
        assert ask(world).body == NOTHING


def test_a_vm_that_leaves_the_fleet_before_its_first_answer_gets_none_of_its_scope() -> None:
    with running(replace(GENEROUS, first_answer_delay=0.3)) as world, Client(world) as client:
        client.send(POLL)
        assert client.is_silent(0.1)
        world.submit(ApplyFleet(Declaration("two", groups=FLEET.groups, vms=FLEET.vms[1:])))
        assert client.reply().status == 404


@pytest.mark.parametrize("raw", [POLL, request("GET", PATH, "If-None-Match: 0"), approval("none")])
def test_a_request_is_noted_at_the_time_of_a_clock_that_was_just_moved(raw: bytes) -> None:
    """F02: a beat of the server must not make a poll look older than it is."""
    with running() as world:
        assert ask(world).status == 200
        world.call(lambda: world.clock.advance(23 * 3600 * MICROS))
        ask(world, raw)
        page = world.call(lambda: world.server._context.sessions.by_address[SOLO].page)
        assert page.last_poll == world.clock.now().steady


def test_an_approval_is_answered_with_an_empty_200_and_the_event_starts() -> None:
    with running() as world, Client(world) as client:
        client.ask()
        event_id = world.schedule("solo")
        reply = client.ask(approval(event_id.lower()))
        assert (reply.status, reply.headers["content-length"], reply.body) == (200, "0", b"")
        assert b'"EventStatus":"Started"' in client.ask().body


def test_unknown_and_foreign_events_look_alike() -> None:
    with running() as world:
        ask(world)
        foreign = world.schedule("solo")
        replies = [ask(world, approval(each), WEB_0) for each in (foreign, foreign[:-1] + "0")]
        assert {reply.status for reply in replies} == {400}
        assert replies[0].body.replace(foreign.encode(), b"") == replies[1].body.replace(
            foreign[:-1].encode() + b"0", b""
        )


def test_if_none_match_means_nothing_to_an_approval() -> None:
    with running() as world:
        ask(world)
        event_id = world.schedule("solo")
        body = json.dumps({"StartRequests": [{"EventId": event_id}], "DocumentIncarnation": "1"}).encode()
        form = "Content-Type: application/x-www-form-urlencoded"
        assert ask(world, request("POST", PATH, 'If-None-Match: "1"', form, body=body)).status == 200


def test_while_nothing_can_be_stored_changes_are_503_and_polls_go_on() -> None:
    with running() as world:
        ask(world)
        event_id = world.schedule("solo")
        world.disk.is_full = True
        reply = ask(world, approval(event_id))
        assert (reply.status, reply.headers["retry-after"]) == (503, "1")
        assert b'"EventStatus":"Scheduled"' in ask(world).body
        world.disk.is_full = False
        assert ask(world, approval(event_id)).status == 200


def test_a_scope_that_cannot_be_turned_on_is_told_so_and_not_that_nothing_is_scheduled() -> None:
    with running() as world:
        world.disk.is_full = True
        assert ask(world).status == 503
        world.disk.is_full = False
        assert ask(world).body == NOTHING


def test_a_fault_of_ours_is_a_500_and_is_reported() -> None:
    reported = []

    def faulty(command: Command, actor: str) -> Awaitable[object]:
        raise ZeroDivisionError

    async def main() -> list[bytes]:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
        engine = await started_engine(MemoryJournal(), ManualClock())
        answers = await converse(ServerContext(faulty, engine.publisher, engine.clock, GENEROUS, asyncio.sleep), [POLL])
        await engine.stop()
        return answers

    (answer,) = uvloop.run(main())
    assert answer.startswith(b"HTTP/1.1 500 ")
    assert isinstance(reported[0]["exception"], ZeroDivisionError)
