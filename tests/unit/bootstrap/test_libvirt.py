"""Hosts of libvirt as the settings name them, and where the VMs on them are."""

import pytest

from duenotice.bootstrap.drivers import check_impact, place_of
from duenotice.domain.fleet import Condition, Fleet, Host, Vm
from duenotice.errors import Misconfigured
from duenotice.impact.libvirt import Whereabouts
from duenotice.settings import ServeSettings


@pytest.mark.parametrize("text", ["h1", "h1=/system", "=qemu:///system", "h1=qemu:///system,h1=qemu+ssh://b/system"])
def test_a_host_that_is_not_a_name_and_an_address_is_refused(text: str) -> None:
    with pytest.raises(Misconfigured, match="is not NAME=URI"):
        check_impact(ServeSettings(impact="libvirt", libvirt_hosts=text), None)


@pytest.mark.parametrize(
    ("vm", "place"),
    [
        ("a", Whereabouts("h1", "h2")),
        ("b", Whereabouts("h2", "h1")),
        ("c", Whereabouts("h3", "h1", is_held=True)),
        ("nowhere", Whereabouts("h1", "h2")),
        ("unknown", Whereabouts("h1", "h2")),
    ],
)
def test_a_vm_is_where_the_fleet_says_and_may_go_to_a_healthy_host(vm: str, place: Whereabouts) -> None:
    """One of which the fleet says nothing is on the host that is named first."""
    fleet = Fleet()
    fleet.hosts = {name: Host(name) for name in ("h1", "h2")} | {"h3": Host("h3", condition=Condition.DRAINED)}
    fleet.healthy_hosts = ("h1", "h2")
    for number, (name, host) in enumerate({"a": "h1", "b": "h2", "c": "h3", "nowhere": None}.items(), start=1):
        fleet.put(Vm(name, f"10.0.0.{number}", host=host))
    assert place_of(fleet, "h1", vm) == place
