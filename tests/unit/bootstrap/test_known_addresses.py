"""Which addresses go before strangers, and how nobody else takes their places (S24, S29)."""

import pytest

from duenotice.bootstrap import known_addresses
from duenotice.bootstrap.known_addresses import KEPT, LOCAL, KnownAddresses, Who


class Time:
    """A clock that goes when it is told."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    time = Time()
    monkeypatch.setattr(known_addresses, "monotonic", time)
    return time


def test_a_new_admin_takes_the_place_of_the_one_that_was_silent_for_longest(time: Time) -> None:
    known, most = KnownAddresses(), KEPT[Who.ADMIN].most
    for n in range(most):
        known.hear(f"10.0.0.{n}", Who.ADMIN)
    known.hear("10.0.0.0", Who.ADMIN)
    known.hear("10.0.1.1", Who.ADMIN)
    assert known.all == LOCAL | {f"10.0.0.{n}" for n in range(most) if n != 1} | {"10.0.1.1"}


def test_a_crowd_of_probes_takes_no_place_of_one_that_goes_on(time: Time) -> None:
    """One that has stopped loses its place."""
    known, most = KnownAddresses(), KEPT[Who.PROBE].most
    for n in range(most):
        known.hear(f"10.0.0.{n}", Who.PROBE)
    time.now += KEPT[Who.PROBE].seconds - 1
    known.hear("10.0.0.0", Who.PROBE)
    known.hear("10.0.1.1", Who.PROBE)
    assert "10.0.1.1" not in known.all
    time.now += 2
    known.hear("10.0.1.1", Who.PROBE)
    assert known.all == LOCAL | {"10.0.0.0", "10.0.1.1"}


def test_strangers_with_probes_or_other_tokens_take_no_place_of_an_admin(time: Time) -> None:
    known = KnownAddresses()
    known.hear("10.0.0.1", Who.ADMIN)
    for n in range(10_000):
        known.hear(f"10.{n // 250}.{n % 250}.1", Who.TOKEN)
        known.hear(f"10.{n // 250}.{n % 250}.2", Who.PROBE)
    assert "10.0.0.1" in known.all
    assert len(known.all) <= len(LOCAL) + sum(kept.most for kept in KEPT.values())
