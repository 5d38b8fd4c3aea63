"""Polls whose answer is held back."""

from collections.abc import Callable

import pytest

from duenotice.domain.fleet import Vm
from duenotice.engine.publisher import Publisher, ScopePage
from duenotice.metadata_api.long_polls import LongPolls
from duenotice.metadata_api.requests import ParsedRequest, Poll
from duenotice.metadata_api.sessions import Bucket, Rate, VmSession
from duenotice.wire.api_versions import API_VERSIONS

LANE = VmSession(Vm("a", "10.0.0.1"), ScopePage("vm/a", 0), *(Bucket(Rate(0)) for _ in range(3)))


@pytest.fixture
def later() -> list[Callable[[], None]]:
    return []


@pytest.fixture
def publisher(later: list[Callable[[], None]]) -> Publisher:
    return Publisher(later.append)


@pytest.fixture
def waiting(publisher: Publisher, later: list[Callable[[], None]]) -> LongPolls:
    return LongPolls(publisher, later.append)


def hold(waiting: LongPolls, who: str, seconds: float, woken: list[str]) -> None:
    poll = Poll(API_VERSIONS[0], frozenset({"1"}), seconds)

    def wake() -> None:
        waiting.let_go(who)
        woken.append(who)

    waiting.hold(who, ParsedRequest(poll), poll, LANE, wake)


def test_a_wait_ends_not_before_its_time_and_at_most_a_beat_after(waiting: LongPolls) -> None:
    woken: list[str] = []
    hold(waiting, "short", 0.3, woken)
    hold(waiting, "long", 0.5, woken)
    seen = []
    for _ in range(7):
        waiting.beat()
        seen.append(list(woken))
    assert seen == [[], [], [], ["short"], ["short"], ["short", "long"], ["short", "long"]]


def test_nothing_is_kept_of_a_wait_that_is_over(waiting: LongPolls, publisher: Publisher) -> None:
    hold(waiting, "a", 60, [])
    hold(waiting, "b", 60, [])
    assert len(publisher.open_page("vm/a").watchers) == 2
    waiting.let_go("a")
    waiting.let_go("b")
    assert (waiting.held, waiting._by_beat, publisher.open_page("vm/a").watchers) == ({}, {}, {})


def test_who_does_not_wait_cannot_be_let_go(waiting: LongPolls) -> None:
    assert waiting.let_go("nobody") is None


def test_a_changed_vm_is_woken_after_the_publisher_is_done(waiting: LongPolls, later: list[Callable[[], None]]) -> None:
    woken: list[str] = []
    hold(waiting, "a", 60, woken)
    waiting.fleet_changed(["10.9.9.9"])
    waiting.fleet_changed(["10.0.0.1"])
    assert woken == []
    for callback in later:
        callback()
    assert woken == ["a"]


def test_many_are_woken_in_several_turns(waiting: LongPolls, later: list[Callable[[], None]]) -> None:
    woken: list[str] = []
    for number in range(1000):
        hold(waiting, str(number), 0.0, woken)
    waiting.beat()
    turns = [len(woken)]
    while later:
        later.pop(0)()
        turns.append(len(woken))
    assert turns == [256, 512, 768, 1000]
