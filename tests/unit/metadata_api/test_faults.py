"""Faults at the VM's door: wrong on purpose for one VM, for a while, and without a trace afterwards."""

import http.client
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest

from duenotice.clock import micros
from duenotice.errors import Malformed
from duenotice.metadata_api.answers import Answers
from duenotice.metadata_api.options import MetadataOptions
from duenotice.settings import ServeSettings
from duenotice.wire.spans import parse_time
from tests.protocol.world import GENEROUS, SOLO, WEB_0, WEB_1, World, running

BRIEFLY = 0.4
"""Real seconds that faults take here which are about time."""


@pytest.fixture
def world() -> Iterator[World]:
    """A server whose clock is manual."""
    with running(replace(GENEROUS, fault_seconds=BRIEFLY)) as made:
        yield made


def ask(
    world: World, source: str, method: str = "GET", version: str = "2020-07-01", known: int = -1
) -> tuple[int, bytes]:
    """What a VM gets for a poll; nothing at all is status 0."""
    connection = http.client.HTTPConnection(*world.address, timeout=10, source_address=(source, 0))
    try:
        target = f"/metadata/scheduledevents?api-version={version}"
        connection.request(method, target, headers={"Metadata": "true", "If-None-Match": str(known)})
        answer = connection.getresponse()
        return answer.status, answer.read()
    except ConnectionError:
        return 0, b""
    finally:
        connection.close()


STATUS = {"400": 400, "404": 404, "410": 410, "429": 429, "500": 500, "503": 503, "empty": 200, "drop": 0}


@pytest.mark.parametrize("answer", list(STATUS))
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_vm_with_a_fault_gets_that_answer_and_others_get_theirs(world: World, answer: str, method: str) -> None:
    """Polls and approvals alike; a drop is no answer at all."""
    ask(world, SOLO)
    right = ask(world, WEB_0)
    world.call(lambda: world.server.faults.put("solo", answer, 20))
    status, body = ask(world, SOLO, method)
    assert (status, bool(body)) == (STATUS[answer], answer not in ("empty", "drop"))
    assert right[0] == 200
    assert ask(world, WEB_0) == right


def test_half_an_answer_promises_more_than_comes(world: World) -> None:
    """The client is told a length, gets less, and the connection ends."""
    ask(world, SOLO)
    world.call(lambda: world.server.faults.put("solo", "half", 20))
    with pytest.raises(http.client.IncompleteRead) as error:
        ask(world, SOLO)
    assert error.value.partial
    assert error.value.expected


def timed(world: World, source: str, method: str = "GET") -> tuple[tuple[int, bytes], float]:
    """What a VM gets, and how long that takes as a share of the time that a fault is to take."""
    begun = time.monotonic()
    answer = ask(world, source, method)
    return answer, (time.monotonic() - begun) / BRIEFLY


def test_a_slow_answer_comes_bit_by_bit_and_whole_in_its_time(world: World) -> None:
    """Every byte of the right answer; the last one when the time of the fault is over, and not long after."""
    right = ask(world, SOLO)
    world.call(lambda: world.server.faults.put("solo", "slow", 20))
    answer, share = timed(world, SOLO)
    assert answer == right
    assert 0.95 <= share < 2.5


def test_a_slow_answer_takes_ten_seconds_unless_a_setting_says_otherwise() -> None:
    """As the documents say."""
    assert MetadataOptions().fault_seconds == ServeSettings().fault_seconds == 10.0


def test_the_first_poll_of_a_scope_is_slow_too(world: World) -> None:
    """F01: it turns the scope on, and is answered bit by bit all the same."""
    world.call(lambda: world.server.faults.put("solo", "slow", 20))
    answer, share = timed(world, SOLO)
    assert answer == (200, b'{"DocumentIncarnation":0,"Events":[]}')
    assert 0.95 <= share < 2.5


def test_a_late_answer_is_right_when_it_comes(world: World) -> None:
    """Polls and approvals alike."""
    right = ask(world, SOLO)
    world.call(lambda: world.server.faults.put("solo", "late", 20))
    answer, share = timed(world, SOLO)
    assert answer == right
    assert share >= 0.95
    assert ask(world, SOLO, "POST")[0] == 400


@pytest.mark.parametrize("answer", ["500", "drop", "vanish", "newer-404"])
def test_every_vm_is_seen_asking_while_one_has_a_fault(world: World, answer: str) -> None:
    """Also the one that is answered wrongly; who asks nothing is not seen."""
    world.call(lambda: world.server.faults.put("solo", answer, 20))
    ask(world, SOLO)
    ask(world, WEB_0)
    silent = [world.call(partial(world.server.silent_for, at)) for at in (SOLO, WEB_0, WEB_1)]
    assert [seconds is None for seconds in silent] == [False, False, True]


@pytest.mark.parametrize("status", [400, 404])
def test_newer_versions_can_be_unknown(world: World, status: int) -> None:
    """As in a region that was not updated yet; older ones are answered."""
    world.call(lambda: world.server.faults.put("solo", f"newer-{status}", 20))
    assert ask(world, SOLO)[0] == status
    assert ask(world, SOLO, version="2019-01-01")[0] == 200


def test_an_event_can_vanish_and_return(world: World) -> None:
    """It is not shown for a while, not even to who has read of it; nothing else has happened to it."""
    ask(world, SOLO)
    world.schedule("solo")
    shown = ask(world, SOLO)
    world.call(lambda: world.server.faults.put("solo", "vanish", 20))
    hidden = json.loads(ask(world, SOLO, known=json.loads(shown[1])["DocumentIncarnation"])[1])
    assert hidden == {**json.loads(shown[1]), "Events": []}
    world.call(lambda: world.server.faults.lift("solo"))
    assert ask(world, SOLO) == shown


def test_more_notice_can_be_promised_than_there_is(world: World) -> None:
    """The lie is on the wire alone: the event starts when it should, earlier than its VM was told (S1)."""
    ask(world, SOLO)
    world.schedule("solo")
    right = json.loads(ask(world, SOLO)[1])["Events"][0]
    world.call(lambda: world.server.faults.put("solo", "short-notice", 3600))
    wrong = json.loads(ask(world, SOLO)[1])["Events"][0]
    assert parse_time(wrong["NotBefore"]) - parse_time(right["NotBefore"]) == timedelta(minutes=10)
    assert {**wrong, "NotBefore": ""} == {**right, "NotBefore": ""}


def test_a_fault_of_all_is_everybodys_until_they_have_their_own(world: World) -> None:
    """The setting `fault`; one of a VM's own takes its place."""
    world.call(lambda: world.server.faults.put_on_all("500"))
    world.call(lambda: world.server.faults.put("solo", "410", 20))
    assert (ask(world, SOLO)[0], ask(world, WEB_0)[0]) == (410, 500)
    world.call(lambda: world.server.faults.lift("solo"))
    assert (ask(world, SOLO)[0], ask(world, WEB_0)[0]) == (500, 500)


def test_a_fault_ends_by_itself_on_the_service_s_clock(world: World) -> None:
    """Not a moment before, and then nothing of it is left at the door."""
    world.call(lambda: world.server.faults.put("solo", "500", 20))
    world.call(lambda: world.clock.advance(micros(19.5)))
    assert ask(world, SOLO)[0] == 500
    world.call(lambda: world.clock.advance(micros(0.5)))
    assert ask(world, SOLO)[0] == 200
    assert is_untouched(world)


def test_a_fault_ends_although_its_vm_never_asks_again(world: World) -> None:
    """Its VM may be gone; the others notice that it is over."""
    world.call(lambda: world.server.faults.put("solo", "500", 20))
    world.call(lambda: world.clock.advance(micros(20)))
    assert ask(world, WEB_0)[0] == 200
    assert is_untouched(world)


def test_a_fault_can_be_lifted_and_one_can_take_the_place_of_another(world: World) -> None:
    """The other VM's stays until it is lifted too."""
    world.call(lambda: world.server.faults.put("solo", "500", 20))
    world.call(lambda: world.server.faults.put("solo", "410", 20))
    world.call(lambda: world.server.faults.put("web-0", "429", 20))
    assert ask(world, SOLO)[0] == 410
    world.call(lambda: world.server.faults.lift("solo"))
    assert (ask(world, SOLO)[0], ask(world, WEB_0)[0]) == (200, 429)
    world.call(lambda: world.server.faults.lift("web-0"))
    assert is_untouched(world)


def test_what_is_no_fault_is_refused_and_changes_nothing(world: World) -> None:
    """The door stays as it was."""
    with pytest.raises(Malformed, match="'418' is not a fault"):
        world.call(lambda: world.server.faults.put("solo", "418", 20))
    assert is_untouched(world)


def is_untouched(world: World) -> bool:
    """Whether polls take the short way again: no fault costs anything while there is none."""
    door = world.server._context
    return isinstance(door.answers, Answers) and door.warm_sessions is door.sessions.by_address
