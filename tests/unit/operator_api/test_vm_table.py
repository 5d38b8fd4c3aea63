"""The table of VMs: addresses in the order of their bytes."""

from duenotice.operator_api.vm_table import packed


def test_addresses_stand_in_the_order_of_their_numbers_and_those_of_ipv6_last() -> None:
    addresses = ["10.0.0.10", "fd00::1", "10.0.0.9", "9.255.0.1"]
    assert sorted(addresses, key=packed) == ["9.255.0.1", "10.0.0.9", "10.0.0.10", "fd00::1"]
