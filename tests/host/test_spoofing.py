"""A guest is known by its interface and MAC, not by what it claims."""

from pathlib import Path

import pytest

from tests.host.hypervisor import Hypervisor, until
from tests.host.running import host_service

pytestmark = pytest.mark.host


@pytest.mark.smoke
def test_a_guest_that_takes_a_neighbours_address_learns_nothing_and_approves_nothing(
    h1: Hypervisor, tmp_path: Path
) -> None:
    """With the address alone, and with the neighbour's MAC too, although it knows the id of the event."""
    victim = h1.guest("victim", "10.77.0.21")
    with host_service(h1, tmp_path) as service:
        until(lambda: "victim" in service.vms(), lambda: service.log.read_text())
        until(lambda: service.vms()["victim"]["listens"], lambda: str(victim.lines()[-5:]))
        event = service.operate("/v1/vms/victim/restart")[0]["id"]
        victim.wait(f"document .*{event}")
        does = f"dn.spoof=10.77.0.21 dn.event={event}"
        thieves = [
            h1.guest("thief", "10.77.0.22", does=does),
            h1.guest("twin", "10.77.0.23", does=f"{does} dn.spoof_mac={victim.mac}"),
        ]
        for thief in thieves:
            thief.wait("spoofed$")
        polls = len(victim.ticks())
        victim.wait("tick", polls + 3)
        assert service.history(event) == ["event-raised"]
    for thief in thieves:
        assert thief.wait("itself: (.*)")[1].startswith('{"DocumentIncarnation"')
        stolen = [line for line in thief.lines() if line.startswith(("as 10.77.0.21", "approved as 10.77.0.21"))]
        assert len(stolen) == 6
        assert not [line for line in stolen if "DocumentIncarnation" in line or event in line]
    assert not [line for line in victim.lines()[-6:] if line.startswith("no answer")]
    assert len(victim.boots()) == 1
