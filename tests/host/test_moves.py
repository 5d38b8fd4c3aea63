"""A guest moves between two real hosts, and somebody is killed or refuses in the middle of it."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.host.hypervisor import BRIDGE, Guest, Hypervisor, until
from tests.host.running import HostService, host_service

pytestmark = pytest.mark.host

SLOW, FAST = "1", "1000"
"""MiB/s of a live migration: 128 MiB at the slow one take long enough to kill somebody meanwhile."""


@pytest.fixture(scope="module")
def web(h1: Hypervisor) -> Guest:
    return h1.guest("web-0", "10.77.0.61")


@pytest.fixture(scope="module")
def service(
    h1: Hypervisor, h2: Hypervisor, web: Guest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[HostService]:
    """Its clock is moved by the tests, so nobody has to approve."""
    flags = ("--also", f"h2={h2.uri}", "--clock", "manual")
    with host_service(h1, tmp_path_factory.mktemp("service"), *flags) as made:
        made.wait_for_vms("web-0")
        web.wait("tick")
        yield made


def begun(service: HostService, kind: str, cause: str = "maintenance", name: str = "web-0") -> str:
    """The id of an event on the guest whose notice is over."""
    (event,) = service.operate("/v1/events", {"type": kind, "resources": [name], "cause": cause})
    service.operate("/v1/clock/advance", {"by": "16m"})
    return str(event["id"])


def logged(service: HostService, action: str, event: str) -> None:
    """Until the service has begun this step of the event."""
    until(
        lambda: any(action in line and event in line for line in service.log.read_text().splitlines()),
        lambda: f"no {action}: {service.log.read_text()[-3000:]}",
    )


def places(*hosts: Hypervisor) -> list[str]:
    """Where the guest runs."""
    return [host.name for host in hosts if "web-0" in host.virsh("list", "--name", "--state-running").split()]


def sides(h1: Hypervisor, h2: Hypervisor) -> tuple[Hypervisor, Hypervisor]:
    """Where the guest is, and where it will go."""
    return (h1, h2) if places(h1, h2) == ["h1"] else (h2, h1)


def failure(service: HostService, event: str) -> str:
    service.wait_for(event, "event-failed")
    return str(service.operate(f"/v1/events/{event}/history", method="GET")[-1])


def test_a_host_that_refuses_a_guest_fails_the_event_with_its_reason_and_the_guest_runs_where_it_was(
    h1: Hypervisor, h2: Hypervisor, web: Guest, service: HostService
) -> None:
    """By live migration the guest notices nothing; after a redeploy it was started again on its old host."""
    h2.ip(f"link set {BRIDGE} down")
    h2.ip(f"link set {BRIDGE} name elsewhere")
    try:
        assert BRIDGE in failure(service, begun(service, "Freeze", "live-migration"))
        assert (places(h1, h2), len(web.boots())) == (["h1"], 1)
        assert BRIDGE in failure(service, begun(service, "Redeploy"))
        web.wait("boot ", 2)
        assert places(h1, h2) == ["h1"] and "web-0" not in h2.virsh("list", "--all", "--name").split()
    finally:
        h2.ip(f"link set elsewhere name {BRIDGE}")
        h2.ip(f"link set {BRIDGE} up")


def kill_duenotice(service: HostService, target: Hypervisor) -> None:
    """libvirt gives the migration up; then the service comes back."""
    service.kill()
    until(lambda: "web-0" not in target.virsh("list", "--all", "--name"), lambda: "it is still on its way")
    service.start()


def kill_libvirtd_of_the_target(service: HostService, target: Hypervisor) -> None:
    """And start it again."""
    target.stop_libvirtd(signal.SIGKILL)
    target.start_libvirtd()


@pytest.mark.parametrize("accident", [kill_libvirtd_of_the_target, kill_duenotice])
def test_a_live_migration_that_breaks_off_is_made_again_and_the_guest_runs_on_all_the_time(
    h1: Hypervisor,
    h2: Hypervisor,
    web: Guest,
    service: HostService,
    accident: Callable[[HostService, Hypervisor], None],
) -> None:
    """The same boot, before, meanwhile and after."""
    boots = web.boots()
    old, new = sides(h1, h2)
    old.virsh("migrate-setspeed", "web-0", SLOW)
    event = begun(service, "Freeze", "live-migration")
    until(lambda: "web-0" in new.virsh("list", "--all", "--name"), lambda: service.log.read_text()[-3000:])
    accident(service, new)
    web.wait("tick", len(web.ticks()) + 2)
    old.virsh("migrate-setspeed", "web-0", FAST)
    service.wait_for(event, "event-completed")
    until(lambda: service.vms()["web-0"]["host"] == new.name, lambda: service.log.read_text()[-3000:])
    web.wait("tick", len(web.ticks()) + 2)
    assert (places(h1, h2), web.boots()) == ([new.name], boots)


@pytest.mark.parametrize("step", ["libvirt-press", "libvirt-define-there", "libvirt-start-there", "libvirt-undefine"])
def test_a_redeploy_is_done_once_when_duenotice_is_killed_at_any_step(
    h1: Hypervisor, h2: Hypervisor, web: Guest, service: HostService, step: str
) -> None:
    """It ends on the other host, with one more boot, and is defined nowhere else."""
    boots = len(web.boots())
    old, new = sides(h1, h2)
    event = begun(service, "Redeploy")
    logged(service, step, event)
    service.kill()
    service.start()
    service.wait_for(event, "event-completed")
    web.wait("boot ", boots + 1)
    web.wait("tick", len(web.ticks()) + 2)
    assert (places(h1, h2), len(web.boots())) == ([new.name], boots + 1)
    assert "web-0" not in old.virsh("list", "--all", "--name").split()
    until(lambda: service.vms()["web-0"]["host"] == new.name, lambda: service.log.read_text()[-3000:])


def test_what_a_guest_has_written_to_a_shared_disk_is_there_after_a_redeploy(
    h1: Hypervisor, h2: Hypervisor, service: HostService, tmp_path: Path
) -> None:
    """Written by the guest on one host, and read on the other: both see this folder. libvirt does not know that it is
    shared, so it refuses to move the guest by live migration, and the guest runs on."""
    disk = tmp_path / "disk.raw"
    disk.write_bytes(bytes(1 << 20))
    data = h1.guest("data-0", "10.77.0.62", disk=disk)
    until(lambda: "data-0" in service.vms(), lambda: service.log.read_text()[-3000:])
    data.wait("disk has ''")
    data.wait("disk written")
    data.wait("tick")
    assert "unsafe" in failure(service, begun(service, "Freeze", "live-migration", "data-0"))
    assert data.state() == "running" and len(data.boots()) == 1
    service.wait_for(begun(service, "Redeploy", name="data-0"), "event-completed")
    data.wait("boot ", 2)
    assert data.wait("disk has '(.*)'", 2)[1] == data.boots()[0]
    assert "data-0" in h2.virsh("list", "--name", "--state-running").split()
    assert "data-0" not in h1.virsh("list", "--all", "--name").split()
    h2.remove(data)
