"""The ground that all tests of this folder stand on: a guest boots under libvirt, asks, and obeys its power button."""

from pathlib import Path

import pytest

from tests.host.hypervisor import BRIDGE, Hypervisor
from tests.support.namespaces import METADATA_ADDRESS, serving

pytestmark = pytest.mark.host

FLEET = """
[[vms]]
name = "web-0"
address = "10.77.0.11"
"""


def test_a_guest_asks_over_the_bridge_and_ends_cleanly_when_its_power_button_is_pressed(
    h1: Hypervisor, tmp_path: Path
) -> None:
    """Nothing of ours is in it: the kernel is Debian's, and wget asks."""
    h1.ip(f"address add {METADATA_ADDRESS}/32 dev {BRIDGE}")
    with serving(h1, FLEET, tmp_path):
        guest = h1.guest("web-0", "10.77.0.11")
        guest.wait("document .*DocumentIncarnation")
        assert guest.documents()[0]["Events"] == []
        h1.virsh("shutdown", "web-0")
        guest.wait_for_state("shut off")
    assert "clean end" in guest.lines()[-3:]
    assert len(guest.boots()) == 1
