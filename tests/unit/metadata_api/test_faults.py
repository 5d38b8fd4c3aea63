"""Faults at the VM's door: wrong on purpose for one VM, for a while, and without a trace afterwards."""

import http.client
from collections.abc import Iterator

import pytest

from duenotice.errors import Malformed
from duenotice.metadata_api.answers import Answers
from duenotice.metadata_api.faults import FAULTS
from tests.protocol.world import SOLO, WEB_0, World, running

TARGET = "/metadata/scheduledevents?api-version=2020-07-01"


@pytest.fixture
def world() -> Iterator[World]:
    """A server whose clock is manual."""
    with running() as made:
        yield made


def ask(world: World, source: str, method: str = "GET") -> tuple[int, bytes]:
    """What a VM gets for a poll; nothing at all is status 0."""
    connection = http.client.HTTPConnection(*world.address, timeout=10, source_address=(source, 0))
    try:
        connection.request(method, TARGET, headers={"Metadata": "true"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    except ConnectionError:
        return 0, b""
    finally:
        connection.close()


STATUS = {"404": 404, "410": 410, "429": 429, "500": 500, "empty": 200, "drop": 0}


@pytest.mark.parametrize("answer", list(FAULTS))
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


def test_a_fault_ends_by_itself_on_the_service_s_clock(world: World) -> None:
    """Not a moment before, and then nothing of it is left at the door."""
    world.call(lambda: world.server.faults.put("solo", "500", 20))
    world.call(lambda: world.clock.advance(19.5))
    assert ask(world, SOLO)[0] == 500
    world.call(lambda: world.clock.advance(0.5))
    assert ask(world, SOLO)[0] == 200
    assert is_untouched(world)


def test_a_fault_ends_although_its_vm_never_asks_again(world: World) -> None:
    """Its VM may be gone; the others notice that it is over."""
    world.call(lambda: world.server.faults.put("solo", "500", 20))
    world.call(lambda: world.clock.advance(20))
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
    with pytest.raises(Malformed, match="'418' is no fault"):
        world.call(lambda: world.server.faults.put("solo", "418", 20))
    assert is_untouched(world)


def is_untouched(world: World) -> bool:
    """Whether polls take the short way again: no fault costs anything while there is none."""
    door = world.server._door
    return isinstance(door.answers, Answers) and door.lanes is door.callers.lanes
