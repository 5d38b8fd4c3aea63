"""Who is asking is known by the source address, on every request (A09, S16)."""

import socket
from dataclasses import replace

import pytest

from duenotice.domain.commands import ApplyFleet
from duenotice.domain.fleet import Declaration, Vm
from tests.programs import skip_unless_ci
from tests.protocol.raw import NOTHING, Client, ask, request
from tests.protocol.world import FLEET, GENEROUS, SOLO, STRANGER, WEB_0, World, running

NAME = request("GET", "/metadata/instance/compute/name?api-version=2021-02-01&format=text")


def test_an_address_that_nobody_registered_is_told_so_by_its_name(world: World) -> None:
    for raw in (NAME, request(), request("GET", "/metadata/versions")):
        reply = ask(world, raw, STRANGER)
        assert (reply.status, STRANGER.encode() in reply.body) == (404, True)


def test_with_a_default_vm_a_stranger_is_that_vm_and_nobody_else_is() -> None:
    with running(replace(GENEROUS, default_vm="solo")) as world:
        assert [ask(world, NAME, source).body for source in (STRANGER, SOLO, WEB_0)] == [b"solo", b"solo", b"web-0"]
        assert ask(world, source=STRANGER).body == NOTHING


def test_an_address_that_passes_to_another_vm_speaks_for_that_one_from_then_on() -> None:
    with running() as world, Client(world) as client:
        assert client.ask(NAME).body == b"solo"
        successor = Declaration("two", groups=FLEET.groups, vms=(Vm("other", SOLO), *FLEET.vms[1:]))
        world.submit(ApplyFleet(successor))
        assert client.ask(NAME).body == b"other"


def test_a_vm_that_left_the_fleet_is_a_stranger_at_its_next_request() -> None:
    with running() as world, Client(world) as client:
        assert client.ask().body == NOTHING
        world.submit(ApplyFleet(Declaration("two", groups=FLEET.groups, vms=FLEET.vms[1:])))
        assert client.ask().status == 404


def test_events_are_shown_to_their_scope_only() -> None:
    with running() as world:
        ask(world), ask(world, source=WEB_0)
        event_id = world.schedule("solo").encode()
        assert event_id in ask(world).body
        assert event_id not in ask(world, source=WEB_0).body


def test_an_ipv4_caller_on_an_ipv6_socket_is_known_by_its_ipv4_address() -> None:
    if not socket.has_dualstack_ipv6():
        skip_unless_ci("needs IPv6")
    with running(host="::") as world:
        world.address = ("127.0.0.1", world.address[1])
        assert ask(world, NAME).body == b"solo"


@pytest.mark.parametrize("path", ["compute/x", "network/interface/7"])
def test_a_part_of_the_instance_that_is_not_there_is_not_found(world: World, path: str) -> None:
    assert ask(world, request("GET", f"/metadata/instance/{path}?api-version=2021-02-01")).status == 404


def test_versions_are_listed(world: World) -> None:
    reply = ask(world, request("GET", "/metadata/versions"))
    assert b'{"apiVersions":["2017-03-01","2017-04-02",' in reply.body
