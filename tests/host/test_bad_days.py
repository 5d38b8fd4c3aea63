"""What the service on a hypervisor says when something around it is wrong: a clear line, and nothing is lost."""

import subprocess
from pathlib import Path

import pytest

from tests.host.hypervisor import BRIDGE, Hypervisor, until
from tests.host.running import HostService, host_service
from tests.programs import require_program
from tests.support.namespaces import ENVIRONMENT, METADATA_ADDRESS, Machine

pytestmark = pytest.mark.host


def started(h1: Hypervisor, folder: Path, *more: str, under: tuple[str, ...] = ()) -> list[str]:
    """What a start that fails says; the last option of a kind counts."""
    whole = h1.command(*under, *HostService(h1, folder).command(*more))
    done = subprocess.run(whole, env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    return [line for line in done.stderr.splitlines() if line.startswith(("error:", " hint:"))]


def rules_of(h1: Hypervisor) -> str:
    return h1.run("nft", "list", "tables")


def test_a_bridge_that_is_not_there(h1: Hypervisor, tmp_path: Path) -> None:
    assert started(h1, tmp_path, "--bridge", "br9") == [
        "error: There is no bridge 'br9' on this machine.",
        f" hint: Name the one of your guests with --bridge. This machine has: {BRIDGE}.",
    ]


def test_a_libvirt_that_is_not_there(h1: Hypervisor, tmp_path: Path) -> None:
    said = started(h1, tmp_path, "--connect", f"qemu+unix:///system?socket={tmp_path}/nobody")
    assert said[0].startswith("error: libvirt on h1 cannot be asked: Failed to connect socket")
    assert said[1] == " hint: Is libvirtd (or virtqemud) up, and may this user use it?"


def test_no_rights_on_nftables(h1: Hypervisor, tmp_path: Path) -> None:
    """Nothing is left half-done."""
    powerless = (require_program("setpriv", "util-linux"), "--bounding-set", "-net_admin")
    said = started(h1, tmp_path, under=powerless)
    assert "nftables does not take our rules" in said[0] and "Operation not permitted" in said[0]
    assert said[1].startswith(" hint: Be root, or have the capability CAP_NET_ADMIN.")
    assert METADATA_ADDRESS not in h1.run("ip", "address")


def test_another_metadata_service_on_the_bridge(h1: Hypervisor, tmp_path: Path) -> None:
    """It would answer our guests; what we had put on the bridge is gone again."""
    with Machine("other") as other:
        other.connect("eth0", h1, "to-other")
        h1.ip(f"link set to-other master {BRIDGE}")
        other.ip(f"address add {METADATA_ADDRESS}/32 dev eth0")
        said = started(h1, tmp_path)
    assert said[0].startswith(f"error: Another metadata service on {BRIDGE} answers for us: ")
    assert said[1] == " hint: Stop that one, or give these guests a bridge of their own."
    assert "duenotice" not in rules_of(h1)


def test_domains_that_cannot_be_told_are_named_and_all_others_are_served(h1: Hypervisor, tmp_path: Path) -> None:
    """Two with one address, one that is renamed, one that goes; and libvirt goes, and comes back."""
    first = h1.guest("a-first", "10.77.0.31", start=False)
    second = h1.guest("b-second", "10.77.0.31", start=False)
    with host_service(h1, tmp_path) as service:
        service.wait_for_vms("a-first")
        say = "domain b-second cannot be told: its address 10.77.0.31 is that of a-first. Give each its own."
        until(lambda: say in service.log.read_text(), lambda: service.log.read_text())
        h1.virsh("domrename", "a-first", "c-third")
        until(lambda: "domain a-first is named c-third now" in service.log.read_text(), lambda: service.log.read_text())
        h1.stop_libvirtd()
        gone = "The last fleet is served; nothing is hit meanwhile."
        until(lambda: gone in service.log.read_text(), lambda: service.log.read_text())
        assert service.vms()
        h1.start_libvirtd()
        until(lambda: "libvirt is there again" in service.log.read_text(), lambda: service.log.read_text())
        h1.virsh("undefine", "c-third")
        service.wait_for_vms("b-second")
        assert "duenotice" in rules_of(h1)
    assert "duenotice" not in rules_of(h1)
    assert METADATA_ADDRESS not in h1.run("ip", "address")
    h1.remove(first)
    h1.remove(second)


def test_rules_and_address_that_somebody_takes_away_are_put_back(h1: Hypervisor, tmp_path: Path) -> None:
    """As a firewall does that is loaded again; without the rules each guest could speak for each other."""
    with host_service(h1, tmp_path) as service:
        until(lambda: "duenotice" in rules_of(h1), lambda: service.log.read_text())
        h1.run("nft", "flush", "ruleset")
        h1.ip(f"address del {METADATA_ADDRESS}/32 dev {BRIDGE}")
        until(
            lambda: "bridge duenotice" in rules_of(h1) and METADATA_ADDRESS in h1.run("ip", "address"),
            lambda: service.log.read_text(),
        )
        assert "inet duenotice" in rules_of(h1)


def test_another_host_that_is_down_costs_the_guests_here_nothing(h1: Hypervisor, tmp_path: Path) -> None:
    """It is named once, and new domains of this host still come into the fleet."""
    with host_service(h1, tmp_path, "--also", f"h2=qemu+unix:///system?socket={tmp_path}/nobody") as service:
        guest = h1.guest("new", "10.77.0.33", start=False)
        service.wait_for_vms("new")
        assert service.log.read_text().count("libvirt on h2 cannot be asked") == 1
    h1.remove(guest)


def test_dry_run_shows_fleet_and_rules_and_changes_nothing(h1: Hypervisor, tmp_path: Path) -> None:
    """What it shows, nftables takes."""
    guest = h1.guest("web-0", "10.77.0.11", facts="address='10.77.0.11' set='web' update-domain='1'")
    shown = h1.run(*HostService(h1, tmp_path).command("--dry-run"))
    assert shown.startswith("# web-0  10.77.0.11  on h1  set/web UD 1\n")
    assert f"ether saddr != {guest.mac} ip daddr {METADATA_ADDRESS} drop" in shown
    assert "duenotice" not in rules_of(h1)
    script = tmp_path / "rules.nft"
    script.write_text(shown)
    h1.run("nft", "-f", str(script))
    assert "duenotice" in rules_of(h1)
    h1.run("nft", "flush", "ruleset")
    h1.remove(guest)
