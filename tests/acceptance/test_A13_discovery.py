"""A13 over real packets: machines made of network namespaces, a cable between them, UDP ports 67 and 68."""

import contextlib
import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

import pytest

from duenotice import MetadataClient
from duenotice.client import Unreachable
from duenotice.client.dhcp import BROADCAST, broadcast_socket, discover_endpoint
from duenotice.errors import Misconfigured, Unavailable
from duenotice.wire import dhcp
from tests.support.namespaces import METADATA_ADDRESS, Machine, plug_in, serving

pytestmark = pytest.mark.machine

SOURCE = str(Path(__file__).parents[2] / "src")
FLEET = '[[vms]]\nname = "web-0"\naddress = "192.0.2.10"\n'
ENDPOINT = IPv4Address(METADATA_ADDRESS)
CABLE = "web-0"
"""The platform's end of the cable."""


@pytest.fixture
def platform() -> Iterator[Machine]:
    """Where the server and the responder are."""
    with Machine("platform") as made:
        yield made


@pytest.fixture
def vm(platform: Machine) -> Iterator[Machine]:
    """A VM with an address, on a cable to the platform."""
    with Machine("web-0") as made:
        plug_in(made, "192.0.2.10", platform)
        yield made


@contextlib.contextmanager
def responder(platform: Machine, folder: Path) -> Iterator[None]:
    """Our responder, as a person starts it."""
    module = [sys.executable, "-m", "duenotice.testkit.dhcp_responder"]
    flags = ["--interface", CABLE, "--endpoint", METADATA_ADDRESS]
    with platform.running(*module, *flags, log=folder / "responder.log") as process:
        assert process.stdout
        assert process.stdout.readline().startswith("Answering"), (folder / "responder.log").read_text()
        yield


@contextlib.contextmanager
def answering(platform: Machine, replies: Callable[[dhcp.Discover], list[bytes]]) -> Iterator[None]:
    """Somebody who answers the next DISCOVER with whatever bytes the test likes."""

    def answer() -> None:
        asked = dhcp.decode_discover(opened.recv(4096))
        for reply in replies(asked):
            opened.sendto(reply, (BROADCAST, dhcp.CLIENT_PORT))

    with platform.call(lambda: broadcast_socket(CABLE, dhcp.SERVER_PORT)) as opened:
        opened.settimeout(30)
        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield
        finally:
            thread.join()


def offer(asked: dhcp.Discover) -> bytes:
    """The right reply."""
    return dhcp.encode_offer(dhcp.Offer(asked.xid, asked.mac, ENDPOINT, ENDPOINT))


def wrong_offers(asked: dhcp.Discover) -> list[bytes]:
    """Replies that name another address, each wrong in its own way."""
    elsewhere = dhcp.Offer(asked.xid, asked.mac, IPv4Address("192.0.2.66"), IPv4Address("192.0.2.66"))
    whole = dhcp.encode_offer(elsewhere)
    option = bytes([245, 4, 192, 0, 2, 66])
    return [
        b"",
        b"\xff" * 1400,
        whole[:200],  # cut in the header
        whole[: whole.index(option) + 4],  # cut in option 245
        dhcp.encode_offer(elsewhere._replace(xid=asked.xid ^ 1)),
        dhcp.encode_offer(elsewhere._replace(mac=bytes(6))),
        dhcp.encode_offer(elsewhere._replace(endpoint=IPv4Address(0))),
        whole.replace(option, bytes([245, 3, 192, 0, 2, 0])),
        whole.replace(option, bytes([244, 4, 192, 0, 2, 66])),  # no option 245
    ]


def get_document(endpoint: str) -> Any:
    """What a VM does with the address it was told."""
    url = f"{endpoint}/metadata/scheduledevents?api-version=2020-07-01"
    with build_opener(ProxyHandler({})).open(Request(url, headers={"Metadata": "true"}), timeout=30) as answer:
        return json.load(answer)


def test_A13_client_finds_the_server_by_dhcp_and_reads_the_document(
    platform: Machine, vm: Machine, tmp_path: Path
) -> None:
    """The reply to a DHCPDISCOVER carries the address in option 245, and there the document is."""
    with serving(platform, FLEET, tmp_path), responder(platform, tmp_path):
        endpoint = vm.call(lambda: discover_endpoint("eth0", 30))
        assert endpoint == "http://169.254.169.254"
        assert vm.call(lambda: get_document(endpoint)) == {"DocumentIncarnation": 0, "Events": []}


DISCOVERING = """
import asyncio
from duenotice import AsyncMetadataClient, MetadataClient

async def awaited():
    async with AsyncMetadataClient("discover") as client:
        return await client.document(), await client.instance_name()

with MetadataClient("discover") as client:
    assert (client.document(), client.instance_name()) == asyncio.run(awaited())
    print(client.document(), client.instance_name())
"""


def test_A13_client_that_is_told_to_discover_asks_by_dhcp_and_then_the_server(
    platform: Machine, vm: Machine, tmp_path: Path
) -> None:
    """`MetadataClient("discover")`, blocking and asyncio, needs nothing but the default route."""
    vm.ip("route add default dev eth0")
    with serving(platform, FLEET, tmp_path), responder(platform, tmp_path):
        printed = vm.run(sys.executable, "-c", DISCOVERING, PYTHONPATH=SOURCE)
    assert printed == "SeenDocument(incarnation=0, events=()) web-0\n"


def test_A13_client_that_discovers_nobody_is_told_so(vm: Machine) -> None:
    """Nobody answers: an error of the client's own, within its budget."""
    vm.ip("route add default dev eth0")
    with pytest.raises(Unreachable, match="Nobody answered the DHCPDISCOVER"):
        vm.call(MetadataClient("discover", budget=0.5).document)


def test_A13_machine_without_an_address_finds_the_server_too(platform: Machine, tmp_path: Path) -> None:
    """Discovery needs no address and no route of its own: question and reply are broadcasts."""
    with ExitStack() as stack:
        bare = stack.enter_context(Machine("bare"))
        bare.connect("eth0", platform, CABLE)
        stack.enter_context(responder(platform, tmp_path))
        assert bare.call(lambda: discover_endpoint("eth0", 30)) == "http://169.254.169.254"


def test_A13_by_default_the_interface_of_the_default_route_is_asked(
    platform: Machine, vm: Machine, tmp_path: Path
) -> None:
    """Without a name the client asks where its default route leads; without such a route it asks for a name."""
    with pytest.raises(Misconfigured, match="no default route"):
        vm.call(discover_endpoint)
    vm.ip("route add default dev eth0")
    with responder(platform, tmp_path):
        assert vm.call(lambda: discover_endpoint(timeout=30)) == "http://169.254.169.254"


def test_A13_machine_that_runs_a_dhcp_client_can_still_ask(platform: Machine, vm: Machine, tmp_path: Path) -> None:
    """Another program on port 68, such as the machine's own DHCP client, is not in the way."""
    with vm.call(lambda: broadcast_socket("eth0", dhcp.CLIENT_PORT)), responder(platform, tmp_path):
        assert vm.call(lambda: discover_endpoint("eth0", 30)) == "http://169.254.169.254"


def test_A13_wrong_replies_are_passed_over(platform: Machine, vm: Machine) -> None:
    """Wrong xid, other machine, cut short, option of 3 bytes, no option 245: none is believed, the right one is."""
    with answering(platform, lambda asked: [*wrong_offers(asked), offer(asked)]):
        assert vm.call(lambda: discover_endpoint("eth0", 30)) == "http://169.254.169.254"


def test_A13_only_wrong_replies_are_an_error_that_says_what_was_wrong(platform: Machine, vm: Machine) -> None:
    """If no reply is valid, the error comes within the timeout and tells about the last one."""
    with (
        answering(platform, wrong_offers),
        pytest.raises(Unavailable, match=r"No DHCP reply on eth0 within 0\.5 s") as caught,
    ):
        vm.call(lambda: discover_endpoint("eth0", 0.5))
    assert "no option 245" in caught.value.hint


def test_A13_nobody_answers(vm: Machine) -> None:
    """If nobody answers there is a clear error within the timeout, never a guessed address."""
    begun = time.monotonic()
    with pytest.raises(Unavailable, match=r"Nobody answered the DHCPDISCOVER on eth0 within 0\.5 s") as caught:
        vm.call(lambda: discover_endpoint("eth0", 0.5))
    assert 0.5 <= time.monotonic() - begun < 2
    assert "169.254.169.254" in caught.value.hint


def test_A13_question_is_asked_again_when_it_is_lost(platform: Machine, vm: Machine) -> None:
    """A lost DISCOVER is sent again, with the same xid."""

    def answer_the_second(opened: socket.socket) -> None:
        first, second = (dhcp.decode_discover(opened.recv(4096)) for _ in range(2))
        heard.append(first == second)
        opened.sendto(offer(second), (BROADCAST, dhcp.CLIENT_PORT))

    heard: list[bool] = []
    with platform.call(lambda: broadcast_socket(CABLE, dhcp.SERVER_PORT)) as opened:
        opened.settimeout(30)
        thread = threading.Thread(target=answer_the_second, args=(opened,))
        thread.start()
        assert vm.call(lambda: discover_endpoint("eth0", 30)) == "http://169.254.169.254"
        thread.join()
    assert heard == [True]


@pytest.mark.parametrize(
    ("interface", "problem"), [("lo", "'lo' is not Ethernet"), ("eth9", "no network interface 'eth9'")]
)
def test_A13_interface_that_cannot_be_asked_on_is_refused(vm: Machine, interface: str, problem: str) -> None:
    """A wrong interface is refused at once, with what to do."""
    with pytest.raises(Misconfigured, match=problem) as caught:
        vm.call(lambda: discover_endpoint(interface, 30))
    assert caught.value.hint


def test_A13_interface_that_is_down_is_an_error_at_once(vm: Machine) -> None:
    """Nothing can be sent through an interface that is down, and the error says so."""
    vm.ip("link set eth0 down")
    with pytest.raises(Unavailable, match="Cannot ask on eth0") as caught:
        vm.call(lambda: discover_endpoint("eth0", 30))
    assert caught.value.hint == "Is the interface up?"


def test_A13_port_held_by_a_program_that_does_not_share_is_an_error_at_once(vm: Machine) -> None:
    """If port 68 cannot be used, the error names it and says why."""
    with vm.call(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as greedy:
        greedy.bind(("", dhcp.CLIENT_PORT))
        with pytest.raises(Unavailable, match="Cannot use UDP port 68 on eth0") as caught:
            vm.call(lambda: discover_endpoint("eth0", 30))
    assert caught.value.hint == "Is another program holding the port?"
