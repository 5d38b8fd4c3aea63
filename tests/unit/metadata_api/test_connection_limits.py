"""How much anybody may ask for."""

import resource
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duenotice.bootstrap import acceptor
from duenotice.metadata_api.sessions import (
    MAX_UNKNOWN_CALLERS,
    UNKNOWN_CALLERS,
    Bucket,
    ConnectionLimits,
    Rate,
    UnknownCallers,
    files_left,
)


def taken(bucket: Bucket, times: int, now: float) -> int:
    return sum(bucket.take(now) for _ in range(times))


def test_a_bucket_holds_a_burst_of_one_seconds_worth() -> None:
    assert taken(Bucket(Rate(5)), 20, 1000.0) == 5


def test_a_bucket_fills_with_time_but_never_over_its_brim() -> None:
    bucket = Bucket(Rate(5))
    assert taken(bucket, 20, 1000.0) == 5
    assert taken(bucket, 20, 1000.2) == 1
    assert taken(bucket, 20, 1000.6) == 2
    assert taken(bucket, 20, 2000.0) == 5


def test_one_request_a_second_is_always_allowed_even_at_the_lowest_rate() -> None:
    for rate in (1, 5, 1e9):
        bucket = Bucket(Rate(rate))
        assert all(bucket.take(1000.0 + second) for second in range(100))


def test_a_rate_below_one_makes_callers_wait_longer() -> None:
    bucket = Bucket(Rate(0.5))
    assert [bucket.take(now) for now in (1000.0, 1001.0, 1002.0, 1003.0)] == [True, False, True, False]


def test_a_rate_of_zero_is_no_limit() -> None:
    assert taken(Bucket(Rate(0)), 10_000, 1000.0) == 10_000


@given(st.lists(st.floats(0, 0.5), max_size=200), st.integers(1, 20))
def test_in_no_stretch_of_time_is_more_allowed_than_the_burst_and_the_rate(gaps: list[float], rate: int) -> None:
    bucket, now, allowed = Bucket(Rate(rate)), 1000.0, []
    for gap in gaps:
        now += gap
        if bucket.take(now):
            allowed.append(now)
    for first, begin in enumerate(allowed):
        for last in range(first, len(allowed)):
            assert last - first + 1 <= rate + rate * (allowed[last] - begin) + 0.001


def test_each_stranger_may_ask_as_often_as_a_vm() -> None:
    strangers = UnknownCallers(5)
    for address in ("10.0.0.1", "fd00::1"):
        assert sum(strangers.take(address, 1000.0) for _ in range(20)) == 5


def test_all_addresses_of_an_ipv6_network_are_one_stranger() -> None:
    strangers = UnknownCallers(5)
    same, other = (f"fd00:0:0:7::{n:x}" for n in range(100)), (f"fd00:0:0:8::{n:x}%eth0" for n in range(100))
    assert [sum(strangers.take(address, 1000.0) for address in net) for net in (same, other)] == [5, 5]
    assert len(strangers) == 2


def test_ever_new_addresses_fill_no_memory_and_get_no_more_than_all_strangers_together() -> None:
    strangers = UnknownCallers(5)
    taken = 0
    for number in range(3 * MAX_UNKNOWN_CALLERS):
        taken += strangers.take(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", 1000.0)
        assert len(strangers) <= MAX_UNKNOWN_CALLERS
    assert taken == 5 * UNKNOWN_CALLERS


@dataclass(eq=False)
class Guest:
    address: str
    deadline: float = 10.0


def come(crowd: ConnectionLimits[Guest], guest: Guest) -> bool:
    """Whether there was room."""
    has_room = crowd.has_room_for(guest.address)
    crowd.enter(guest)
    return has_room


def test_a_crowd_counts_by_address_and_in_all() -> None:
    crowd: ConnectionLimits[Guest] = ConnectionLimits(most=3, most_per_address=2)
    guests = [Guest("a"), Guest("a"), Guest("a"), Guest("b")]
    assert [come(crowd, guest) for guest in guests] == [True, True, False, False]
    for guest in guests[1:]:
        crowd.leave(guest)
    assert come(crowd, Guest("b"))


def test_strangers_get_only_half_of_the_places() -> None:
    """However many addresses they have, VMs that are known find a place (S29)."""
    crowd: ConnectionLimits[Guest] = ConnectionLimits(
        most=6, most_per_address=2, is_known=lambda address: address == "vm"
    )
    assert [come(crowd, Guest(f"stranger {n}")) for n in range(4)] == [True, True, True, False]
    assert [come(crowd, Guest("vm")) for _ in range(3)] == [True, True, False]


def test_nothing_is_kept_of_those_who_left() -> None:
    crowd: ConnectionLimits[Guest] = ConnectionLimits(most=3, most_per_address=2)
    guest = Guest("a")
    crowd.enter(guest)
    crowd.leave(guest)
    assert (crowd.by_address, crowd.connections) == ({}, {})


def test_the_overdue_are_those_whose_deadline_has_passed() -> None:
    crowd: ConnectionLimits[Guest] = ConnectionLimits(most=3, most_per_address=3)
    early, late = Guest("a", 5.0), Guest("a", 6.0)
    crowd.enter(early)
    crowd.enter(late)
    assert crowd.overdue(5.5) == [early]


@dataclass(eq=False)
class Numbered(Guest):
    number: int = 0

    def __hash__(self) -> int:
        return self.number


def test_the_overdue_are_told_in_the_order_in_which_they_came() -> None:
    """Wherever they are in memory: the simulator's worlds must be the same in each process."""
    crowd: ConnectionLimits[Numbered] = ConnectionLimits(most=9, most_per_address=9)
    guests = [Numbered("a", number=number) for number in (3, 1, 2)]
    for guest in guests:
        crowd.enter(guest)
    assert crowd.overdue(20.0) == guests


def test_all_ports_together_fit_into_the_open_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 1,024, VMs that filled their places and two other ports full of silence left none to accept with."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 1024))
    at_the_door = files_left() + 100  # and so many refusals
    of_operators_and_azure = 2 * acceptor.MOST_CONNECTIONS
    of_a_quiet_process = 30
    assert at_the_door + of_operators_and_azure + of_a_quiet_process < 1024
