"""Two hosts: a node on one, a follower on the other, and guests that move between them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.host.guest_image import GuestImage
from tests.host.hypervisor import BRIDGE, Guest, Hypervisor, hypervisor, until
from tests.host.running import HostService, host_service
from tests.host.test_drain import operator

pytestmark = pytest.mark.host


@pytest.fixture(scope="module")
def h2(h1: Hypervisor, tmp_path_factory: pytest.TempPathFactory, image: GuestImage) -> Iterator[Hypervisor]:
    """Its bridge and that of h1 are one network."""
    with hypervisor("h2", tmp_path_factory.mktemp("h2"), image, "10.77.0.2") as made:
        h1.connect("to-h2", made, "to-h1")
        h1.ip(f"link set to-h2 master {BRIDGE}")
        made.ip(f"link set to-h1 master {BRIDGE}")
        yield made


def is_on(host: Hypervisor, guest: Guest) -> bool:
    return guest.name in host.virsh("list", "--name", "--state-running").split()


def listens_again(guest: Guest) -> None:
    """Two more polls are answered: the document is repeated only when it changes, and a failure is said."""
    ticks = len(guest.ticks())
    guest.wait("tick", ticks + 3)
    until(
        lambda: not [line for line in guest.lines()[-3:] if line.startswith("no answer")],
        lambda: str(guest.lines()[-9:]),
    )


def test_a_host_is_drained_by_moving_its_guest_and_the_guest_is_answered_there(
    h1: Hypervisor, h2: Hypervisor, tmp_path: Path
) -> None:
    """It runs on: the same boot. Then a redeploy takes it back, and that is another boot."""
    web = h1.guest("web-0", "10.77.0.41", does="dn.approve=yes")
    also = ("--also", f"h2={h2.uri}", "--operator-listen", "0.0.0.0:16926")
    with host_service(h1, tmp_path / "h1", *also) as node, _follower(node, h2, tmp_path) as follower:
        node.wait_for_vms("web-0")
        until(lambda: node.vms()["web-0"]["listens"], lambda: str(web.lines()[-5:]))
        plan = node.operate("/v1/hosts/h1/drain", {})
        until(lambda: node.vms()["web-0"]["host"] == "h2", lambda: node.log.read_text()[-3000:], 120)
        assert is_on(h2, web) and not is_on(h1, web)
        listens_again(web)
        assert len(web.boots()) == 1
        event = node.operate("/v1/vms/web-0/redeploy")[0]["id"]
        node.wait_for(event, "event-completed")
        web.wait("boot ", 2)
        until(lambda: node.vms()["web-0"]["host"] == "h1", lambda: node.log.read_text()[-3000:])
        assert is_on(h1, web) and "web-0" not in h2.virsh("list", "--all", "--name").split()
        listens_again(web)
        assert plan and follower
    h1.remove(web)


def test_a_guest_that_a_drain_has_moved_comes_back_when_the_host_returns(
    h1: Hypervisor, h2: Hypervisor, tmp_path: Path
) -> None:
    """It is told before it moves, both times, and runs on: the same boot. The service is killed while it waits."""
    web = h1.guest("web-0", "10.77.0.42", does="dn.approve=yes")
    with host_service(h1, tmp_path / "h1", "--also", f"h2={h2.uri}") as node:
        node.wait_for_vms("web-0")
        until(lambda: node.vms()["web-0"]["listens"], lambda: str(web.lines()[-5:]))
        operator(h1, tmp_path / "h1", "drain", "h1")
        until(lambda: node.vms()["web-0"]["host"] == "h2", lambda: node.log.read_text()[-3000:], 120)
        assert is_on(h2, web) and not is_on(h1, web)
        operator(h1, tmp_path / "h1", "return", "h1")
        (plan,) = [plan for plan in node.operate("/v1/maintenances", method="GET") if plan["title"] == "Return h1"]
        event = plan["steps"][0]["event_id"]
        (told,) = [each for each in node.operate("/v1/events", method="GET") if each["id"] == event]
        assert (told["type"], told["phase"], told["resources"]) == ("Freeze", "scheduled", ["web-0"])
        assert is_on(h2, web), "it is not hit before it was told"
        node.kill()
        node.start()
        node.operate(f"/v1/events/{event}/approve")  # its guest cannot ask: no service answers on h2
        until(lambda: node.vms()["web-0"]["host"] == "h1", lambda: node.log.read_text()[-3000:], 120)
        assert is_on(h1, web) and "web-0" not in h2.virsh("list", "--all", "--name").split()
        listens_again(web)
        assert len(web.boots()) == 1
        assert node.operate("/v1/hosts/h1", method="GET")["away"] == 0
        end = node.operate(f"/v1/events/{event}/history", method="GET")[-1]
        assert end["details"]["what"] == "web-0: moved to another host" and end["details"]["took"] > 0
    h1.remove(web)


def _follower(node: HostService, host: Hypervisor, folder: Path):
    """The service on the other host, for its own guests."""
    token = node.operate("/v1/tokens", {"name": "h2", "role": "follower", "only": "host=h2"})["token"]
    (folder / "token").write_text(token)
    flags = ("--follow", "http://10.77.0.1:16926", "--follow-token-file", f"{folder}/token")
    return host_service(host, folder / "h2", *flags, "--operator-listen", "none")
