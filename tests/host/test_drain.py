"""Maintenance of a whole host: its guests are told, stopped, and come back with it."""

import sys
from pathlib import Path

import pytest

from tests.host.hypervisor import Guest, Hypervisor, until
from tests.host.running import DUENOTICE, HostService, host_service

pytestmark = pytest.mark.host


def operator(h1: Hypervisor, folder: Path, *command: str) -> str:
    """The command of an operator on that machine."""
    token = (folder / "data" / "admin.token").read_text().strip()
    return h1.run(DUENOTICE, "host", *command, PATH=str(Path(sys.executable).parent), DUENOTICE_TOKEN=token)


def told(service: HostService, guests: list[Guest]) -> None:
    for guest in guests:
        until(lambda: service.vms()[guest.name]["listens"], lambda: str(guest.lines()[-5:]))  # noqa: B023


def test_a_drained_host_stops_its_guests_and_brings_them_back_when_it_returns(h1: Hypervisor, tmp_path: Path) -> None:
    """Also when the service is killed while the host is out of service: nobody is started before it returns."""
    guests = [h1.guest(f"web-{n}", f"10.77.0.5{n}", does="dn.approve=yes") for n in range(2)]
    with host_service(h1, tmp_path) as service:
        service.wait_for_vms("web-0", "web-1")
        told(service, guests)
        shown = operator(h1, tmp_path, "drain", "h1", "--stop")
        assert "web-0" in shown and "web-1" in shown
        for guest in guests:
            guest.wait("approved ")
            guest.wait_for_state("shut off")
            assert "clean end" in guest.lines()[-3:]
        service.kill()
        service.start()
        assert service.operate("/v1/hosts", method="GET")[0]["condition"] == "drained"
        assert [guest.state() for guest in guests] == ["shut off", "shut off"]
        assert set(service.vms()) == {"web-0", "web-1"}
        operator(h1, tmp_path, "return", "h1")
        for guest in guests:
            guest.wait("boot ", 2)
        until(lambda: not service.operate("/v1/events", method="GET"), lambda: service.log.read_text()[-2000:])
        (plan,) = service.operate("/v1/maintenances", method="GET")
        assert (plan["status"], plan["title"]) == ("done", "Drain h1")
        assert service.operate("/v1/hosts", method="GET")[0]["condition"] == "healthy"
    assert [len(guest.boots()) for guest in guests] == [2, 2]
