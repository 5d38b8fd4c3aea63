"""Push and the machine that it runs on, in a network of its own: real addresses, real connections (M13)."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.namespaces import Machine, Server, serving
from tests.support.served import wait_until

pytestmark = pytest.mark.machine

OURS = ["10.9.9.1", "[fd77::1]", "[::ffff:10.9.9.1]", "[2002:a09:901::]", "[64:ff9b::a09:901]", "[64:ff9b:1::a09:901]"]
"""Ways to call this machine that are neither loopback nor link-local."""
FLEET = """
[[vms]]
name = "me"
address = "127.0.0.1"
"""


@contextmanager
def listening(machine: Machine, address: str, port: int = 8080) -> Iterator[socket.socket]:
    """Somebody who notices a call."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    made = machine.call(lambda: socket.create_server((address, port), family=family))
    with made:
        made.setblocking(False)
        yield made


def was_called(listener: socket.socket) -> bool:
    """Whether anybody has connected."""
    try:
        listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def reason_of(server: Server, which: str) -> str:
    return str(server.operate(f"/v1/subscriptions/{which}", method="GET").get("reason", ""))


def subscribed(server: Server, host: str, port: int) -> str:
    asked = {"url": f"http://{host}:{port}/", "format": "cloudevents"}
    return str(server.operate("/v1/subscriptions", asked)["id"])


def has(reason: Callable[[], str], text: str) -> Callable[[], bool]:
    return lambda: text in reason()


def test_nothing_goes_to_this_machine_by_any_of_its_addresses(tmp_path: Path) -> None:
    """Also where programs may bind to all addresses, as beside a load balancer; its neighbours may be asked."""
    with Machine("ours") as ours, Machine("other") as other:
        ours.connect("eth0", other, "eth0")
        ours.ip("address add 10.9.9.1/24 dev eth0")
        ours.ip("address add fd77::1/64 dev eth0 nodad")
        ours.ip("address add 10.9.9.3/24 dev eth0")
        ours.ip("route add local 10.9.8.0/24 dev lo")
        ours.ip("-6 route add local fd78::/64 dev lo")
        for setting in ("ipv4/ip_nonlocal_bind", "ipv6/conf/all/forwarding"):  # a router has one more: fd77::
            ours.run("sh", "-c", f"echo 1 >/proc/sys/net/{setting}")
        other.ip("address add 10.9.9.2/24 dev eth0")
        with (
            listening(ours, "0.0.0.0") as here,
            listening(ours, "fd77::1") as here_too,
            listening(other, "10.9.9.2") as there,
            serving(ours, FLEET, tmp_path) as server,
        ):
            for host in [*OURS, "10.9.9.3", "10.9.8.7", "[fd78::7]", "[fd77::]"]:
                made = subscribed(server, host, 8080)
                wait_until(has(lambda made=made: reason_of(server, made), "may not go there."))  # type: ignore[misc]
            subscribed(server, "10.9.9.2", 8080)
            wait_until(lambda: was_called(there))
            assert (was_called(here), was_called(here_too)) == (False, False)


def test_an_address_that_this_machine_gets_later_is_ours_from_then_on(tmp_path: Path) -> None:
    """Addresses move between machines: what was a neighbour's is looked at again for each connection."""
    with Machine("ours") as ours, Machine("other") as other:
        ours.connect("eth0", other, "eth0")
        ours.ip("address add 10.9.9.1/24 dev eth0")
        other.ip("address add 10.9.9.2/24 dev eth0")
        more = ("--push-retry-after", "0.1", "--push-timeout", "0.5")
        with (
            listening(ours, "0.0.0.0") as here,
            listening(other, "10.9.9.2") as there,
            serving(ours, FLEET, tmp_path, *more) as server,
        ):
            made = subscribed(server, "10.9.9.2", 8080)
            wait_until(lambda: was_called(there))
            other.ip("address del 10.9.9.2/24 dev eth0")
            ours.ip("address add 10.9.9.2/24 dev eth0")
            wait_until(has(lambda: reason_of(server, made), "address of this machine"))
            assert not was_called(here)
