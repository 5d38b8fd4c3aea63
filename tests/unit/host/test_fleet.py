"""Domains become a fleet, and what cannot become a VM is said with what to do."""

import pytest
from msgspec import structs

from duenotice.domain.fleet import Vm
from duenotice.host.fleet import compose, guest_ports
from duenotice.host.hypervisor import DomainState, GuestDomain, Note
from duenotice.host.network import GuestPort
from duenotice.wire.fleet_file import read_fleet

WEB = GuestDomain("web-0", "u1", "h1", DomainState.RUNNING, "52:54:00:00:00:0b", "vnet0", "10.0.0.11")
DB = GuestDomain("db-0", "u2", "h1", DomainState.OFF, "52:54:00:00:00:0c", "", "10.0.0.12")
FILE = read_fleet("""
[[vms]]
name = "web-0"
address = "10.0.0.99"
zone = "2"
[[vms]]
name = "absent"
address = "10.0.0.98"
""")


def fleet(*guests: GuestDomain, file=None, present=None, busy=(), own=()):
    """Its VMs by name, and the troubles."""
    made = compose(guests, ["h1", "h2"], file, present or {}, set(busy), set(own))
    return {vm.name: vm for vm in made.declaration.vms}, made.troubles


def test_each_domain_is_a_vm_on_its_host_whether_it_runs_or_not() -> None:
    vms, troubles = fleet(WEB, DB._replace(host="h2"))
    assert [(vm.name, vm.address, vm.host) for vm in vms.values()] == [
        ("db-0", "10.0.0.12", "h2"),
        ("web-0", "10.0.0.11", "h1"),
    ]
    assert troubles == {}


def test_a_set_has_as_many_update_domains_as_its_domains_need() -> None:
    made = compose(
        [WEB._replace(set="web", update_domain=7), DB._replace(set="web", update_domain=0)], ["h1"], None, {}, set()
    )
    (group,) = made.declaration.groups
    assert (group.key, group.update_domains) == ("set/web", 8)


def test_the_file_says_more_about_domains_that_are_there() -> None:
    vms, _ = fleet(WEB, DB, file=FILE)
    assert (vms["web-0"].address, vms["web-0"].zone, vms["web-0"].host) == ("10.0.0.99", "2", "h1")
    assert set(vms) == {"web-0", "db-0"}


def test_of_two_domains_with_one_address_the_one_that_had_it_is_told() -> None:
    twin = DB._replace(name="a-twin", address="10.0.0.11")
    vms, troubles = fleet(twin, WEB, present={"web-0": Vm("web-0", "10.0.0.11")})
    assert set(vms) == {"web-0"}
    assert troubles == {"a-twin": "its address 10.0.0.11 is that of web-0. Give each its own."}


def test_of_two_domains_with_one_mac_the_one_that_was_there_is_told() -> None:
    twin = DB._replace(name="a-clone", mac=WEB.mac)
    vms, troubles = fleet(twin, WEB, present={"web-0": Vm("web-0", "10.0.0.11")})
    assert set(vms) == {"web-0"}
    assert troubles == {"a-clone": "its MAC 52:54:00:00:00:0b is that of web-0. Give each its own (virsh edit)."}


def test_one_with_the_mac_of_a_vm_that_is_being_hit_is_not_told() -> None:
    now = Vm("web-0", "10.0.0.11", host="h1")
    vms, troubles = fleet(DB._replace(name="a-clone", mac=WEB.mac), WEB, present={"web-0": now}, busy=["web-0"])
    assert (set(vms), set(troubles)) == ({"web-0"}, {"a-clone"})


def test_a_domain_without_a_mac_is_not_the_twin_of_another_one_nor_is_one_on_another_host() -> None:
    away = WEB._replace(name="away", host="h2", address="10.0.0.13")
    bare = [DB._replace(name=name, mac="", address=address) for name, address in (("x", "10.0.0.1"), ("y", "10.0.0.2"))]
    assert fleet(WEB, away, *bare)[1] == {}


@pytest.mark.parametrize("address", ["0.0.0.0", "127.0.0.1", "224.0.0.1", "255.255.255.255"])
def test_an_address_that_no_guest_can_have_is_refused(address: str) -> None:
    vms, troubles = fleet(DB, WEB._replace(address=address))
    assert set(vms) == {"db-0"}
    assert troubles == {"web-0": f"its address {address} cannot be that of a guest. Give it its own."}


def test_the_address_of_the_host_is_not_that_of_a_guest() -> None:
    vms, troubles = fleet(DB, WEB, own=["10.0.0.11"])
    assert set(vms) == {"db-0"}
    assert troubles == {"web-0": "its address 10.0.0.11 is that of this host. Give it its own."}


def test_what_cannot_be_told_is_left_out_with_the_reason() -> None:
    _, troubles = fleet(
        WEB._replace(name="two words"),
        WEB._replace(name="no-address", address=""),
        WEB._replace(name="service", address="169.254.169.254"),
        WEB._replace(name="odd", trouble="its metadata is odd."),
        WEB._replace(name="set", set="a b", update_domain=0),
    )
    assert set(troubles) == {"two words", "no-address", "service", "odd", "set"}
    assert troubles["no-address"].startswith("nothing says its address.")


def test_a_zone_never_becomes_a_line_of_what_dry_run_shows() -> None:
    """An attribute may have a line break in it, and people hand what is shown to nftables."""
    vms, troubles = fleet(WEB, DB._replace(zone="1\nflush ruleset"))
    assert (set(vms), troubles) == ({"web-0"}, {"db-0": "its zone '1\\nflush ruleset' is not a valid name."})


def test_one_that_was_deleted_is_gone_until_somebody_starts_it() -> None:
    """Its domain may still be defined."""
    gone = DB._replace(impact_notes=(Note("e1", "terminate", "done"),))
    assert fleet(gone)[0] == {}
    assert set(fleet(gone._replace(state=DomainState.RUNNING))[0]) == {"db-0"}
    assert set(fleet(DB._replace(impact_notes=(Note("e1", "reboot", "done"),)))[0]) == {"db-0"}


def test_a_vm_that_is_being_hit_stays_as_it_is() -> None:
    """It may be shut off, on two hosts, or not there for a moment."""
    now = Vm("web-0", "10.0.0.11", host="h1")
    assert fleet(WEB._replace(host="h2"), present={"web-0": now}, busy=["web-0"])[0] == {"web-0": now}
    assert fleet(present={"web-0": now}, busy=["web-0"])[0] == {"web-0": now}


def test_a_domain_on_two_hosts_counts_where_it_runs() -> None:
    vms, _ = fleet(WEB._replace(state=DomainState.OFF), WEB._replace(host="h2"))
    assert vms["web-0"].host == "h2"


def test_the_digest_changes_with_what_is_declared() -> None:
    first, again = (compose([WEB], ["h1"], None, {}, set()).declaration for _ in range(2))
    other = compose([WEB._replace(zone="1")], ["h1"], None, {}, set()).declaration
    assert first == again
    assert first.digest != other.digest
    assert structs.replace(first, digest="") != structs.replace(other, digest="")


def test_a_plug_has_the_address_that_the_fleet_says() -> None:
    vms, _ = fleet(WEB, DB, file=FILE)
    assert guest_ports([WEB, DB], vms, "h1") == [GuestPort("web-0", "vnet0", "52:54:00:00:00:0b", "10.0.0.99")]
    assert guest_ports([WEB], vms, "h2") == []
