"""The nftables script of a bridge: who may ask, and who may use whose address."""

from duenotice.host.network import GuestPort, no_rules, rules

WEB = GuestPort("web-0", "vnet0", "52:54:00:00:00:0b", "10.0.0.11")
DB = GuestPort("db-0", "vnet1", "52:54:00:00:00:0c", "10.0.0.12")


def chain(script: str, name: str) -> list[str]:
    """The lines of a chain."""
    inside = script.partition(f"chain {name} {{")[2].partition("    }\n")[0]
    return [line.strip() for line in inside.splitlines() if line.strip()]


def test_a_guest_reaches_the_service_only_with_its_own_mac_and_address() -> None:
    """Whatever it claims: its tap says who it is."""
    lines = chain(rules("br0", [WEB, DB]), "guest_1")
    assert lines[0] == 'comment "web-0"'
    assert "ether saddr != 52:54:00:00:00:0b ip daddr 169.254.169.254 drop" in lines
    assert "ip saddr != 10.0.0.11 ip daddr 169.254.169.254 drop" in lines


def test_nobody_takes_over_the_address_of_another_or_of_the_service() -> None:
    """In ARP and as a source; addresses that nobody has are free."""
    script = rules("br0", [WEB, DB])
    assert "elements = { 169.254.169.254, 10.0.0.12, 10.0.0.11 }" in script
    assert "meta protocol arp arp saddr ip != 10.0.0.11 arp saddr ip @addresses drop" in chain(script, "guest_1")
    assert "meta protocol arp arp saddr ip @addresses drop" in chain(script, "others")


def test_a_vlan_tag_hides_nothing() -> None:
    """ARP is known by `meta protocol`, which sees through one tag; a priority tag behind another is dropped."""
    script = rules("br0", [WEB], ["eth0"])
    assert chain(script, "frames")[1] == "meta protocol { 8021q, 8021ad } @nh,4,12 0 drop"
    for name in ("guest_0", "others"):
        lines = [line for line in chain(script, name) if "arp" in line]
        assert lines and all(line.startswith("meta protocol arp ") for line in lines)


def test_an_interface_that_no_guest_has_reaches_nothing() -> None:
    """Also one that comes later, and is not listed yet."""
    script = rules("br0", [WEB], ["eth0", "vnet0"])
    assert 'iifname vmap { "eth0" : goto others, "vnet0" : goto guest_0 }' in script
    assert chain(script, "frames")[-1] == "ip daddr 169.254.169.254 drop"
    assert "ip daddr 169.254.169.254 drop" in chain(script, "others")


def test_guests_of_other_hosts_are_left_to_their_own_hosts() -> None:
    """Each host has the address, and their bridges may be one network."""
    assert "meta protocol arp arp daddr ip 169.254.169.254 drop" in chain(rules("br0", [WEB], ["eth0"]), "others")


def test_the_service_is_reached_over_this_bridge_only() -> None:
    """The kernel would take its address on any interface."""
    assert 'ip daddr 169.254.169.254 iifname != { "lo", "br0" } drop' in chain(rules("br0", []), "packets")


def test_what_cannot_be_written_into_a_script_is_left_out() -> None:
    """So a name never becomes a rule."""
    evil = [DB._replace(tap='x" accept'), DB._replace(mac="52:54"), DB._replace(address="")]
    assert rules("br0", [WEB, *evil], ['y" accept']) == rules("br0", [WEB])


def test_one_guest_that_nftables_would_refuse_does_not_cost_the_others_their_rules() -> None:
    """An IPv6 address is of another type, and a comment has a longest length and no quotes."""
    odd = [WEB._replace(address="fd00::1"), WEB._replace(vm="w" * 129), WEB._replace(vm='w"; drop; #')]
    assert [rules("br0", [DB, each]) for each in odd] == [rules("br0", [DB])] * 3


def test_the_same_script_works_the_first_time_and_again() -> None:
    """It makes the tables before it removes them, and all of it is one transaction."""
    assert rules("br0", [WEB]).startswith(no_rules())
    assert no_rules().splitlines()[:2] == ["table bridge duenotice", "delete table bridge duenotice"]
