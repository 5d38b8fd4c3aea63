"""The service on a hypervisor: domains are the fleet, and each guest is told before it is rebooted."""

from pathlib import Path

import pytest

from tests.host.hypervisor import Hypervisor
from tests.host.running import host_service

pytestmark = pytest.mark.host


@pytest.mark.smoke
def test_a_guest_sees_its_reboot_approves_it_and_is_rebooted_only_then(h1: Hypervisor, tmp_path: Path) -> None:
    """Seen inside the guest: the event, its approval, and another boot id."""
    web = h1.guest("web-0", "10.77.0.11", does="dn.approve=yes")
    with host_service(h1, tmp_path) as service:
        service.wait_for_vms("web-0")
        web.wait("document ")
        event = service.operate("/v1/vms/web-0/restart")[0]["id"]
        web.wait(f"approved {event}")
        web.wait("boot ", 2)
        service.wait_for(event, "event-completed")
        assert service.history(event) == ["event-raised", "event-approved", "event-started", "event-completed"]
    lines = web.lines()
    assert len(set(web.boots())) == 2
    assert lines.index(f"approved {event}") < lines.index("clean end") < lines.index(f"boot {web.boots()[1]}")
