"""What is announced is what happens to a real guest, once, whoever dies meanwhile."""

import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.host.hypervisor import Guest, Hypervisor, until
from tests.host.running import HostService, host_service

pytestmark = pytest.mark.host

PAUSE = 4
"""Seconds that a freeze promises."""
BOUND = 1.5
"""Seconds that the guest may be wrong about its pause: its clock has whole seconds, and it reads two, one by one."""
LATEST = 4.0
"""Seconds by which a pause may be longer than promised, on a machine that is busy."""
CALLS = {
    "delete": ("/v1/events", {"type": "Terminate", "resources": ["tidy"]}),
    "evict": ("/v1/vms/tidy/evict", None),
}
FACTS = {"delete": "", "evict": "spot='yes'"}
Accident = Callable[[HostService, Hypervisor], None]


def kill_duenotice(service: HostService, host: Hypervisor) -> None:
    """It is killed with SIGKILL, and started again."""
    service.kill()
    service.start()


def restart_libvirtd(service: HostService, host: Hypervisor) -> None:
    """As an upgrade of libvirt does."""
    host.restart_libvirtd()


ACCIDENTS = pytest.mark.parametrize("accident", [kill_duenotice, restart_libvirtd])


@pytest.fixture(scope="module")
def web(h1: Hypervisor) -> Guest:
    """It approves what it sees, and obeys its power button."""
    return h1.guest("web-0", "10.77.0.11", does="dn.approve=yes")


@pytest.fixture(scope="module")
def stubborn(h1: Hypervisor) -> Guest:
    """It approves what it sees, and ignores its power button."""
    return h1.guest("stubborn", "10.77.0.12", does="dn.approve=yes dn.acpi=ignore")


@pytest.fixture
def service(h1: Hypervisor, web: Guest, stubborn: Guest, tmp_path: Path) -> Iterator[HostService]:
    """A new service, which both guests have asked."""
    with host_service(h1, tmp_path, "--libvirt-grace", "6") as made:
        made.wait_for_vms("web-0", "stubborn")
        for guest in (web, stubborn):
            wait_for_poll(made, guest)
        yield made


def wait_for_poll(service: HostService, guest: Guest) -> None:
    """Until it listens: only who listens is told."""
    until(lambda: service.vms()[guest.name]["listens"], lambda: f"{guest.name} does not listen: {guest.lines()[-9:]}")


def scheduled(service: HostService, guest: Guest, kind: str, **more: object) -> str:
    """The id of an event on one guest."""
    (event,) = service.operate("/v1/events", {"type": kind, "resources": [guest.name], **more})
    return str(event["id"])


def gap(guest: Guest, since: int) -> float:
    """The longest time that it did not run, of its polls from this one on, by its own two clocks."""
    ticks = guest.ticks()[since:]
    return max(((b.of_day - a.of_day) - (b.uptime - a.uptime) for a, b in pairwise(ticks)), default=0.0)


def measured(service: HostService, event: str) -> float:
    """Seconds that the service says the impact took; on a busy machine these are more than were promised.

    The line is written by another thread than the answers, so it may come a little later than they do.
    """

    def said() -> list[float]:
        lines = map(json.loads, service.log.read_text().splitlines())
        done = (one for one in lines if (one["action"], one.get("event_id")) == ("impact-done", event))
        return [float(one["seconds"]) for one in done]

    return until(said, lambda: f"the log does not say that {event} is done: {service.log.read_text()}")[0]


@pytest.mark.smoke
def test_a_freeze_pauses_the_guest_for_as_long_as_it_promised(service: HostService, web: Guest) -> None:
    """Seen by its own clocks."""
    boots, ticks = web.boots(), max(0, len(web.ticks()) - 1)  # it has polled, but its first tick may be to come
    event = scheduled(service, web, "Freeze", duration=PAUSE)
    service.wait_for(event, "event-completed")
    took = measured(service, event)
    until(lambda: gap(web, ticks) > 1, lambda: f"no gap in {took} s, and it is {web.state()}: {web.ticks()[ticks:]}")
    assert PAUSE - BOUND < gap(web, ticks) < took + BOUND
    assert took < PAUSE + LATEST
    assert web.boots() == boots
    assert web.state() == "running"


@ACCIDENTS
def test_a_freeze_ends_whatever_happens_meanwhile(
    service: HostService, web: Guest, h1: Hypervisor, accident: Accident
) -> None:
    """A guest that stays paused for ever would be worse than any event."""
    boots = web.boots()
    event = scheduled(service, web, "Freeze", duration=PAUSE)
    web.wait_for_state("paused")
    accident(service, h1)
    service.wait_for(event, "event-completed")
    web.wait_for_state("running")
    assert web.boots() == boots


@ACCIDENTS
def test_a_reboot_is_done_once_whatever_happens_meanwhile(
    service: HostService, stubborn: Guest, h1: Hypervisor, accident: Accident
) -> None:
    """The guest ignores its button, so there is time for an accident before its plug is pulled."""
    boots, presses = len(stubborn.boots()), stubborn.lines().count("power button")
    event = scheduled(service, stubborn, "Reboot")
    stubborn.wait("power button", presses + 1)
    accident(service, h1)
    service.wait_for(event, "event-completed")
    stubborn.wait("boot ", boots + 1)
    stubborn.wait("tick", len(stubborn.ticks()) + 3)
    assert len(stubborn.boots()) == boots + 1
    assert service.history(event) == ["event-raised", "event-approved", "event-started", "event-completed"]


def test_a_guest_that_says_nothing_is_hit_only_after_its_notice(h1: Hypervisor, tmp_path: Path) -> None:
    """A quarter of an hour, on a clock that the test moves; then its domain is shut down cleanly and gone."""
    quiet = h1.guest("quiet", "10.77.0.13")
    with host_service(h1, tmp_path, "--clock", "manual") as service:
        until(lambda: "quiet" in service.vms(), lambda: service.log.read_text())
        wait_for_poll(service, quiet)
        event = scheduled(service, quiet, "Reboot")
        quiet.wait("document .*Scheduled")
        service.operate("/v1/clock/advance", {"by": "14m"})
        quiet.wait("tick", len(quiet.ticks()) + 3)
        assert (len(quiet.boots()), quiet.state()) == (1, "running")
        service.operate("/v1/clock/advance", {"by": "2m"})
        service.wait_for(event, "event-completed")
        quiet.wait("boot ", 2)
        assert not quiet.lines().count(f"approved {event}")
    h1.remove(quiet)


@ACCIDENTS
def test_a_terminated_guest_ends_and_leaves_the_fleet_whatever_happens_meanwhile(
    h1: Hypervisor, tmp_path: Path, accident: Accident
) -> None:
    """It is not started again, although its domain is still defined."""
    old = h1.guest("old", "10.77.0.14", does="dn.approve=yes dn.acpi=ignore")
    with host_service(h1, tmp_path, "--libvirt-grace", "6") as service:
        until(lambda: "old" in service.vms(), lambda: service.log.read_text())
        wait_for_poll(service, old)
        event = scheduled(service, old, "Terminate")
        old.wait("power button")
        accident(service, h1)
        service.wait_for(event, "event-completed")
        assert old.state() == "shut off"
        until(lambda: "old" not in service.vms(), lambda: "it is still in the fleet")
        assert len(old.boots()) == 1
    h1.remove(old)


@pytest.mark.smoke
@pytest.mark.parametrize("end", ["delete", "evict"])
def test_a_guest_that_is_deleted_or_evicted_and_obeys_ends_cleanly(h1: Hypervisor, tmp_path: Path, end: str) -> None:
    """Its last word says so; and it is undefined if that was asked for."""
    old = h1.guest("tidy", "10.77.0.15", facts=f"address='10.77.0.15' {FACTS[end]}", does="dn.approve=yes")
    with host_service(h1, tmp_path, "--libvirt-undefine") as service:
        until(lambda: "tidy" in service.vms(), lambda: service.log.read_text())
        wait_for_poll(service, old)
        (event,) = service.operate(*CALLS[end])
        kind = old.wait(r'"EventType":"(\w+)"')[1]
        service.wait_for(event["id"], "event-completed")
    assert kind == {"delete": "Terminate", "evict": "Preempt"}[end]
    assert "clean end" in old.lines()[-3:]
    assert "tidy" not in h1.virsh("list", "--all", "--name").split()
