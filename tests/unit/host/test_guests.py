"""libvirt's XML of a domain becomes a guest."""

import pytest

from duenotice.host.hypervisor import DomainState, guest_of

XML = """\
<domain type='kvm' id='3'>
  <name>web-0</name>
  <uuid>9fcad306-ce65-466e-bf10-4323c504e584</uuid>
  <metadata>
    <other:thing xmlns:other='urn:other' address='9.9.9.9'/>
    <duenotice:vm xmlns:duenotice='urn:duenotice:libvirt:1' {facts}/>
  </metadata>
  <devices>
    <interface type='bridge'><mac address='52:54:00:00:00:01'/><source bridge='br9'/><target dev='vnet7'/></interface>
    <interface type='network'>
      <mac address='52:54:00:00:00:0B'/><source network='default' bridge='virbr0'/><target dev='vnet8'/>
    </interface>
  </devices>
</domain>
"""


def guest(facts: str, state: DomainState = DomainState.RUNNING, leases: dict[str, str] | None = None):
    """The domain with these facts."""
    return guest_of(XML.format(facts=facts), "h1", state, "virbr0", leases or {})


def test_it_is_known_by_its_interface_on_the_bridge() -> None:
    """Others of its interfaces do not count."""
    seen = guest("address='10.0.0.11'")
    assert (seen.name, seen.host, seen.mac, seen.tap) == ("web-0", "h1", "52:54:00:00:00:0b", "vnet8")
    assert seen.uuid == "9fcad306-ce65-466e-bf10-4323c504e584"


def test_one_that_is_shut_off_has_no_interface() -> None:
    """The name of its tap may be another's by now."""
    assert guest("address='10.0.0.11'", DomainState.OFF).tap == ""


def test_its_element_says_where_it_stands() -> None:
    seen = guest("address='10.0.0.11' set='web' update-domain='2' zone='1' spot='yes'")
    assert (seen.address, seen.set, seen.update_domain, seen.zone, seen.spot) == ("10.0.0.11", "web", 2, "1", True)


def test_without_an_address_the_lease_of_its_mac_counts() -> None:
    assert guest("", leases={"52:54:00:00:00:0b": "192.168.122.9"}).address == "192.168.122.9"


@pytest.mark.parametrize(
    ("facts", "trouble"),
    [
        ("adress='10.0.0.1'", "its metadata has an unknown attribute 'adress'. Did you mean 'address'?"),
        ("address='ten'", "its address 'ten' is not an IPv4 address."),
        ("address='10.0.0.1' spot='true'", "its spot 'true' is neither yes nor no."),
        ("set='web' update-domain='x'", "its update-domain 'x' is not a number from 0 to 19."),
        ("set='web' update-domain='20'", "its update-domain '20' is not a number from 0 to 19."),
    ],
)
def test_a_fact_that_is_not_valid_is_said_and_never_guessed(facts: str, trouble: str) -> None:
    assert guest(facts).trouble == trouble
