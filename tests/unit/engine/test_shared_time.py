"""One steady time for many nodes (N10): see `engine/shared_time.py`."""

from datetime import timedelta

import pytest

from duenotice.clock import MICROS, Instant, ManualClock
from duenotice.engine.shared_time import SharedClock

EPOCH = 3


@pytest.fixture
def own() -> ManualClock:
    """What the node counts itself: the time in which it could answer."""
    clock = ManualClock()
    clock.advance(7 * MICROS)
    return clock


@pytest.fixture
def clock(own: ManualClock) -> SharedClock:
    return SharedClock(own)


def test_alone_it_is_the_nodes_own_clock(own: ManualClock, clock: SharedClock) -> None:
    assert (clock.now(), clock.mark(), clock.name, clock.speed) == (own.now(), own.mark(), "manual", 0.0)
    assert clock.beat() == 0
    clock.hold()
    clock.run()
    assert clock.now() == own.now()


def test_who_follows_goes_on_from_what_the_leader_said_last(own: ManualClock, clock: SharedClock) -> None:
    """However its own clock stands; and by its own clock until the leader says more."""
    clock.follow(1000 * MICROS, EPOCH)
    own.advance(3 * MICROS)
    assert clock.now().steady == 1003 * MICROS
    clock.follow(1002 * MICROS, EPOCH)
    assert clock.now().steady == 1002 * MICROS


def test_what_the_leader_said_before_changes_nothing(own: ManualClock, clock: SharedClock) -> None:
    """A leader that is gone says the same for ever, and the time of those who answer goes on (S25)."""
    clock.follow(1000 * MICROS, EPOCH)
    for told in (1000, 1000, 999):
        own.advance(2 * MICROS)
        clock.follow(told * MICROS, EPOCH)
    assert clock.now().steady == 1006 * MICROS


def test_a_new_leader_is_followed_also_back(own: ManualClock, clock: SharedClock) -> None:
    """It could not answer meanwhile, and has told VMs how much notice is left: that holds for whoever leads next."""
    clock.follow(1000 * MICROS, EPOCH)
    own.advance(100 * MICROS)
    clock.follow(1000 * MICROS, EPOCH + 1)
    own.advance(5 * MICROS)
    clock.lead(Instant(own.now().at, 1000 * MICROS))
    assert clock.now().steady == 1005 * MICROS


def test_a_leader_whose_time_stands_still_is_followed_back_when_it_has_stored_more(
    own: ManualClock, clock: SharedClock
) -> None:
    """S25: it could not answer, and told VMs by its own time how much notice is left; others answered meanwhile."""
    clock.follow(1000 * MICROS, EPOCH, position=93)
    own.advance(3 * MICROS)
    clock.follow(1000 * MICROS, EPOCH, position=93)
    assert clock.now().steady == 1003 * MICROS
    clock.follow(1000 * MICROS, EPOCH, position=97)
    assert clock.now().steady == 1000 * MICROS


def test_who_leads_never_goes_back_behind_the_journal(own: ManualClock, clock: SharedClock) -> None:
    """In both faces of time: its own clock may be an hour slow, and it may not have heard the last beat."""
    clock.follow(1000 * MICROS, EPOCH)
    last = Instant(own.now().at + timedelta(hours=1), 1005 * MICROS)
    assert clock.lead(last) == timedelta(hours=1), "it tells how far it is behind"
    assert clock.now() == last
    own.advance(2 * MICROS)
    assert clock.now() == Instant(last.at, 1007 * MICROS)
    own.advance(3600 * MICROS)
    assert clock.now() == Instant(own.now().at, 4607 * MICROS)


def test_who_leads_goes_on_from_its_own_time_if_that_is_later(own: ManualClock, clock: SharedClock) -> None:
    clock.follow(1000 * MICROS, EPOCH)
    own.advance(10 * MICROS)
    clock.lead(Instant(own.now().at - timedelta(hours=1), 1005 * MICROS))
    assert clock.now() == Instant(own.now().at, 1010 * MICROS)


def test_a_mark_says_the_shared_time(own: ManualClock, clock: SharedClock) -> None:
    clock.follow(1000 * MICROS, EPOCH)
    assert clock.mark()[:2] == clock.now()
