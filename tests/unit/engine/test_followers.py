"""A node and its followers: who is waited for, who may answer and for how long, and who is put out (N05, N06)."""

import asyncio
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any

import pytest

from duenotice.clock import MICROS, Mark
from duenotice.domain.state import State
from duenotice.domain.touched import Touched
from duenotice.domain.transitions import ClockMarked, Record
from duenotice.engine import followers
from duenotice.engine.followers import Followers
from duenotice.engine.membership import Terms
from duenotice.engine.writer import News
from duenotice.errors import Conflict, Unavailable

LEASE = 6 * MICROS
AT = datetime(2026, 1, 1, tzinfo=UTC)


class ToldEar:
    """Notes what it hears."""

    def __init__(self, error: Exception | None = None) -> None:
        self.heard: list[int] = []
        self.shown: list[int] = []
        self.closed = self.dismissed = False
        self._error = error

    async def hear(self, news: News) -> None:
        if self._error is not None:
            raise self._error
        self.heard.append(news.records[-1].position)

    def hear_shown(self, position: int) -> None:
        self.shown.append(position)

    def dismiss(self) -> None:
        self.dismissed = True

    def close(self) -> None:
        self.closed = True


class World:
    """Followers on a clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100 * MICROS
        self.followers = Followers(10, Terms(LEASE), now=lambda: self.now)
        self.ears: dict[str, ToldEar] = {}

    def join(self, life: str, position: int = 10, error: Exception | None = None) -> ToldEar:
        ear = self.ears[life] = ToldEar(error)
        self.followers.join(life, ear, position)
        return ear

    async def is_hidden(self, hiding: "asyncio.Task[None]", *beats: tuple[str, int]) -> bool:
        """Whether the wait is over after these beats."""
        for life, hidden in beats:
            self.followers.beat(life, hidden)
        for _ in range(5):
            await asyncio.sleep(0)
        return hiding.done()


def news(position: int, touched: Touched = Touched({"vm/a"}, set(), set())) -> News:  # noqa: B008
    record = Record(position, AT, "test", ClockMarked(Mark(AT, 0)))
    return News(State(), (record,), touched, None)


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, 30))


def test_nothing_is_shown_before_every_follower_has_hidden_it() -> None:
    async def story() -> None:
        world = World()
        await world.followers.open(had_followers=False)
        one, two = world.join("one"), world.join("two")
        hiding = asyncio.create_task(world.followers.hide(news(11)))
        assert not await world.is_hidden(hiding)
        assert not await world.is_hidden(hiding, ("one", 11))
        assert not await world.is_hidden(hiding, ("two", 10))
        assert await world.is_hidden(hiding, ("two", 11))
        world.followers.show(11)
        assert (one.heard, one.shown, two.shown) == ([11], [11], [11])

    run(story())


def test_who_is_silent_for_a_lease_is_put_out_and_loses_the_right() -> None:
    """Not a moment earlier; then it has to begin again."""

    async def story() -> None:
        world = World()
        await world.followers.open(had_followers=False)
        dead = world.join("dead")
        world.join("fine")
        hiding = asyncio.create_task(world.followers.hide(news(11)))
        world.now += LEASE - 1
        assert not await world.is_hidden(hiding, ("fine", 11))
        world.now += 1
        assert await world.is_hidden(hiding, ("fine", 11))
        assert dead.closed
        with pytest.raises(Conflict, match="put out"):
            world.followers.beat("dead", 11)
        world.join("dead", 11)
        assert world.followers.beat("dead", 11) == Terms(LEASE).right

    run(story())


def test_a_right_is_over_before_its_follower_is_put_out() -> None:
    """By a tenth of the lease, for clocks that do not run alike."""
    assert Terms(LEASE).right <= LEASE * 9 // 10


def test_who_beats_but_does_not_hide_loses_the_right_after_half_a_lease() -> None:
    """So it delays the others for a lease and a half at the most."""

    async def story() -> None:
        world = World()
        await world.followers.open(had_followers=False)
        world.join("stuck")
        hiding = asyncio.create_task(world.followers.hide(news(11)))
        assert not await world.is_hidden(hiding)
        world.now += LEASE // 2
        assert world.followers.beat("stuck", 10) > 0
        world.now += 1
        with pytest.raises(Conflict, match="keep up"):
            world.followers.beat("stuck", 10)
        world.now += LEASE
        world.followers.leave("nobody")
        assert await world.is_hidden(hiding)

    run(story())


def test_who_leaves_is_not_waited_for() -> None:
    async def story() -> None:
        world = World()
        await world.followers.open(had_followers=False)
        gone = world.join("gone")
        hiding = asyncio.create_task(world.followers.hide(news(11)))
        assert not await world.is_hidden(hiding)
        world.followers.leave("gone")
        assert await world.is_hidden(hiding)
        assert gone.closed

    run(story())


def test_nobody_is_waited_for_when_no_vm_can_see_a_difference() -> None:
    """A mark of the clock is told, and that is all."""

    async def story() -> None:
        world = World()
        await world.followers.open(had_followers=False)
        ear = world.join("one")
        await world.followers.hide(news(11, Touched(set(), set(), set())))
        assert ear.heard == [11]

    run(story())


def test_who_cannot_be_told_is_still_waited_for() -> None:
    """It may still show what is older. Its stream ends, and it comes back or is put out."""

    async def story() -> None:
        world = World()
        await world.followers.open(had_followers=False)
        deaf = world.join("deaf", error=ValueError("no"))
        hiding = asyncio.create_task(world.followers.hide(news(11)))
        assert not await world.is_hidden(hiding)
        assert deaf.closed
        world.join("deaf", 11)
        assert await world.is_hidden(hiding)

    run(story())


def test_who_listens_again_is_believed_only_what_it_has_hidden() -> None:
    async def story() -> None:
        world = World()
        await world.followers.open(had_followers=False)
        first = world.join("one")
        hiding = asyncio.create_task(world.followers.hide(news(11)))
        assert not await world.is_hidden(hiding)
        world.join("one", 10)
        assert first.closed
        assert not await world.is_hidden(hiding)
        assert await world.is_hidden(hiding, ("one", 99))
        assert world.followers.by_life["one"].hidden == 11

    run(story())


def test_after_a_restart_no_change_is_shown_while_old_followers_may_answer() -> None:
    """They have heard nothing from this process, and may answer until a lease is over."""

    async def story() -> None:
        world = World()
        await world.followers.hide(news(11, Touched(set(), set(), set())))
        await world.followers.open(had_followers=True)
        hiding = asyncio.create_task(world.followers.hide(news(12)))
        world.now += LEASE - 1
        assert not await world.is_hidden(hiding)
        world.now += 1
        world.followers.leave("nobody")
        assert await world.is_hidden(hiding)

    run(story())


def test_if_a_start_itself_changes_something_the_doors_wait() -> None:
    async def story() -> None:
        world = World()
        await world.followers.hide(news(11))
        opening = asyncio.create_task(world.followers.open(had_followers=True))
        assert not await world.is_hidden(opening)
        world.now += LEASE
        world.followers.leave("nobody")
        assert await world.is_hidden(opening)

    run(story())


def test_there_is_an_end_to_lives_and_silent_ones_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """S24, N20."""
    monkeypatch.setattr(followers, "MOST_LIVES", 20)

    async def story() -> None:
        world = World()
        for number in range(20):
            world.join(str(number))
        with pytest.raises(Unavailable, match="Too many followers have come and gone"):
            world.join("one more")
        world.join("7")
        world.now += LEASE
        world.join("one more")
        assert list(world.followers.by_life) == ["one more"]
        world.followers.close()
        assert all(ear.closed for ear in world.ears.values())

    run(story())


def test_a_stream_that_ends_before_it_was_let_to_answer_costs_nobody_anything() -> None:
    """N20. One that was let to answer is waited for, also when its stream has ended (N05)."""

    async def story() -> None:
        world = World()
        await world.followers.open(had_followers=False)
        for life in ("dead", "listens again", "answers"):
            world.join(life)
        world.followers.beat("answers", 10)
        old, _ = world.ears["listens again"], world.join("listens again")
        for life, ear in (("dead", world.ears["dead"]), ("listens again", old), ("answers", world.ears["answers"])):
            world.followers.ended(life, ear)
        assert list(world.followers.by_life) == ["listens again", "answers"]
        hiding = asyncio.create_task(world.followers.hide(news(11)))
        assert not await world.is_hidden(hiding)
        assert not await world.is_hidden(hiding, ("listens again", 11))
        assert await world.is_hidden(hiding, ("answers", 11))

    run(story())


def test_a_node_that_leaves_the_others_waits_until_no_follower_has_a_right_from_it() -> None:
    """Each is told to go; one that does not say that it has gone is waited for as long as it may answer (N05, N07)."""

    async def story() -> None:
        world = World()
        await world.followers.open(had_followers=False)
        ears = [world.join("goes"), world.join("frozen")]
        leaving = asyncio.create_task(world.followers.dismiss())
        assert not await world.is_hidden(leaving)
        assert all(ear.dismissed for ear in ears)
        with pytest.raises(Unavailable, match="about to stop"):
            world.join("late")
        with pytest.raises(Conflict):
            world.followers.beat("frozen", 10)
        world.followers.leave("goes")
        world.now += LEASE - 1
        assert not await world.is_hidden(leaving)
        world.now += 1
        world.followers.leave("nobody")
        assert await world.is_hidden(leaving)

    run(story())


def test_a_follower_may_answer_no_longer_than_its_node() -> None:
    """The others wait for the node, and only so for its followers."""

    async def story() -> None:
        followers = Followers(10, Terms(LEASE), right=lambda: 7)
        followers.join("one", ToldEar(), 10)
        assert followers.beat("one", 10) == 7

    run(story())
