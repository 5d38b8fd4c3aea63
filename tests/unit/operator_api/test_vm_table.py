"""The table of VMs: which rows come first."""

import random

import pytest

from duenotice.domain.fleet import Vm
from duenotice.domain.state import State
from duenotice.operator_api.vm_table import SeenFleet, packed

CHANCE = random.Random(3)
VMS = [Vm(f"vm-{n}", f"10.0.0.{n}", update_domain=CHANCE.choice([None, 0, 1, 2])) for n in range(100)]
SEEN = SeenFleet(State(), lambda _: None)


@pytest.mark.parametrize("sort", ["update_domain", "-update_domain", "last_seen", "-address", "", "-name"])
def test_a_few_rows_are_the_first_of_all(sort: str) -> None:
    """Whether all are sorted or only those that are shown; what is alike stays in the order of the names."""
    everything = list(SEEN.first(VMS, sort, 100))
    assert list(SEEN.first(VMS, sort, 5))[:5] == everything[:5]
    assert sorted(everything, key=lambda vm: packed(vm.address)) == VMS
    if sort == "-update_domain":
        assert everything[: len([vm for vm in VMS if vm.update_domain is None])] == [
            vm for vm in VMS if vm.update_domain is None
        ]


def test_addresses_stand_in_the_order_of_their_numbers_and_those_of_ipv6_last() -> None:
    addresses = ["10.0.0.10", "fd00::1", "10.0.0.9", "9.255.0.1"]
    assert sorted(addresses, key=packed) == ["9.255.0.1", "10.0.0.9", "10.0.0.10", "fd00::1"]
