"""Two hosts: a node on one, a follower on the other, and guests that move between them."""

from pathlib import Path

import pytest

from tests.host.hypervisor import Guest, Hypervisor, until
from tests.host.running import HostService, host_service
from tests.host.test_drain import operator

pytestmark = pytest.mark.host


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
    with host_service(h1, tmp_path / "h1", *_with(h2)) as node, _follower(node, h2, tmp_path) as follower:
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
    """It approves both moves itself, and runs on: the same boot. The service is killed while it waits."""
    web = h1.guest("web-0", "10.77.0.42", does="dn.approve=yes")
    with host_service(h1, tmp_path / "h1", *_with(h2)) as node:
        node.wait_for_vms("web-0")
        until(lambda: node.vms()["web-0"]["listens"], lambda: str(web.lines()[-5:]))
        operator(h1, tmp_path / "h1", "drain", "h1")
        until(lambda: node.vms()["web-0"]["host"] == "h2", lambda: node.log.read_text()[-3000:], 120)
        assert is_on(h2, web) and not is_on(h1, web)
        operator(h1, tmp_path / "h1", "return", "h1")
        (plan,) = [plan for plan in node.operate("/v1/maintenances", method="GET") if plan["title"] == "Return h1"]
        event = node.operate(f"/v1/maintenances/{plan['id']}/steps", method="GET")[0]["event_id"]
        (told,) = [each for each in node.operate("/v1/events", method="GET") if each["id"] == event]
        assert (told["type"], told["phase"], told["resources"]) == ("Freeze", "scheduled", ["web-0"])
        assert is_on(h2, web), "it is not hit before it was told"
        node.kill()
        node.start()
        assert is_on(h2, web) and f"approved {event}" not in web.lines()
        with _follower(node, h2, tmp_path):  # before, nobody answers on h2
            web.wait(f"approved {event}")
            until(lambda: node.vms()["web-0"]["host"] == "h1", lambda: node.log.read_text()[-3000:], 120)
        assert is_on(h1, web) and "web-0" not in h2.virsh("list", "--all", "--name").split()
        listens_again(web)
        assert len(web.boots()) == 1
        assert node.operate("/v1/hosts/h1", method="GET")["away"] == 0
        *_, approval, _, end = node.operate(f"/v1/events/{event}/history", method="GET")
        assert (approval["action"], approval["actor"]) == ("event-approved", "vm/web-0")
        assert end["details"]["what"] == "web-0: moved to another host" and end["details"]["took"] > 0
    h1.remove(web)


def _with(other: Hypervisor) -> tuple[str, ...]:
    """Flags of a node that moves guests to the other host, and that a follower there can ask."""
    return ("--also", f"{other.name}={other.uri}", "--operator-listen", "0.0.0.0:16926")


def _follower(node: HostService, host: Hypervisor, folder: Path):
    """The service on the other host, for its own guests."""
    token = node.operate("/v1/tokens", {"name": "h2", "role": "follower", "only": "host=h2"})["token"]
    (folder / "token").write_text(token)
    flags = ("--follow", "http://10.77.0.1:16926", "--follow-token-file", f"{folder}/token")
    return host_service(host, folder / "h2", *flags, "--operator-listen", "none")
