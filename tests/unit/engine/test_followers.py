"""A node and its followers: who is waited for, who may answer and for how long, and who is put out (N05, N06)."""

import asyncio
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any

import pytest

from duenotice.clock import MICROS, Mark
from duenotice.domain.apply import Touched
from duenotice.domain.fleet import Vm
from duenotice.domain.records import ClockMarked, Record
from duenotice.domain.state import State
from duenotice.engine import followers
from duenotice.engine.followers import CHILD_PATIENCE, Followers
from duenotice.engine.interest import Interest
from duenotice.engine.membership import Terms
from duenotice.engine.writer import News
from duenotice.errors import Conflict, Unavailable

LEASE = 6 * MICROS
AT = datetime(2026, 1, 1, tzinfo=UTC)


class ToldEar:
    """Notes what it hears."""

    def __init__(self, error: Exception | None = None, host: str = "") -> None:
        self.heard: list[int] = []
        self.held: list[int] = []
        self.shown: list[int] = []
        self.closed = self.dismissed = False
        self._error = error
        self.interest = Interest((lambda vm: vm.host == host) if host else None, FLEET)

    async def hear(self, news: News) -> bool:
        if self._error is not None:
            raise self._error
        self.heard.append(news.records[-1].position)
        return self.interest.take(news.touched, news.state.fleet.vms)

    def hear_hold(self, position: int) -> None:
        self.held.append(position)

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

    def join(self, life: str, position: int = 10, error: Exception | None = None, host: str = "") -> ToldEar:
        """It is a member, and has the right to answer."""
        ear = self.listen(life, position, error, host)
        if position == self.followers.told:
            self.followers.beat(life, position, position)
        return ear

    def listen(self, life: str, position: int = 10, error: Exception | None = None, host: str = "") -> ToldEar:
        """It has joined, and was not heard of yet."""
        ear = self.ears[life] = ToldEar(error, host)
        self.followers.join(life, ear, position, self.followers.told)
        return ear

    async def hide(self, told: News) -> None:
        """Both rounds, one after the other."""
        await self.followers.apply(told)
        await self.followers.hold(told.records[-1].position)

    async def is_hidden(self, hiding: "asyncio.Task[None]", *beats: tuple[str, int]) -> bool:
        """Whether the wait is over after these beats."""
        for life, hidden in beats:
            self.followers.beat(life, hidden, hidden)
        for _ in range(5):
            await asyncio.sleep(0)
        return hiding.done()


FLEET = tuple(Vm(f"vm-{number}", f"10.0.0.{number}", host=f"host-{number}") for number in (1, 2, 3))


def news(position: int, touched: Touched = Touched({"vm/a"}, set(), set()), *vms: Vm) -> News:  # noqa: B008
    record = Record(position, AT, "test", ClockMarked(Mark(AT, 0)))
    state = State()
    for vm in vms or FLEET:
        state.fleet.vms[vm.name] = vm
    return News(state, (record,), touched, None)


def of(*scopes: str) -> Touched:
    return Touched(set(scopes), set(), set())


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, 30))


def test_nothing_is_shown_before_every_follower_has_hidden_it() -> None:
    async def story() -> None:
        world = World()
        await world.followers.open(had_followers=False)
        one, two = world.join("one"), world.join("two")
        hiding = asyncio.create_task(world.hide(news(11)))
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
        hiding = asyncio.create_task(world.hide(news(11)))
        world.now += LEASE - 1
        assert not await world.is_hidden(hiding, ("fine", 11))
        world.now += 1
        assert await world.is_hidden(hiding, ("fine", 11))
        assert dead.closed
        with pytest.raises(Conflict, match="put out"):
            world.followers.beat("dead", 11, 11)
        world.join("dead", 11)
        assert world.followers.beat("dead", 11, 11) == Terms(LEASE).right

    run(story())


def test_a_right_is_over_before_its_follower_is_put_out() -> None:
    """By a tenth of the lease, for clocks that do not run alike."""
    assert Terms(LEASE).right <= LEASE * 9 // 10


def test_the_right_of_who_beats_but_does_not_hide_gets_no_longer() -> None:
    """So it delays the others for a lease at the most; after half of one it has to listen again."""

    async def story() -> None:
        world = World()
        await world.followers.open(had_followers=False)
        stuck = world.join("stuck")
        hiding = asyncio.create_task(world.hide(news(11)))
        assert not await world.is_hidden(hiding)
        right = Terms(LEASE).right
        world.now += LEASE // 2
        assert world.followers.beat("stuck", 10, 10) == right - LEASE // 2
        closed = [stuck.closed]
        world.now += 1
        assert world.followers.beat("stuck", 10, 10) == right - LEASE // 2 - 1
        assert [*closed, stuck.closed] == [False, True]
        world.now += LEASE // 2 - 2
        assert world.followers.beat("stuck", 10, 10) == 0
        assert not await world.is_hidden(hiding)
        world.now += 1
        world.followers.leave("nobody")
        assert await world.is_hidden(hiding)

    run(story())


MOVED = FLEET[0].moved_to("host-2")


@pytest.mark.parametrize(
    ("what", "waits"),
    [
        (news(11, of("vm/vm-1")), ["one", "all"]),
        (news(11, of("vm/vm-3")), ["all"]),
        (news(11, of("vm/vm-2", "vm/vm-3")), ["two", "all"]),
        (news(11, Touched({"vm/vm-1"}, {"vm-1"}, set()), MOVED), ["one", "two", "all"]),
        (news(11, Touched(set(), {"vm-1"}, set()), *FLEET[1:]), ["one", "all"]),
        (news(11, Touched(set(), set(), set(), everything=True)), ["one", "two", "all"]),
    ],
    ids=["of one host", "of a host without a follower", "of two", "a VM moves", "a VM is removed", "of all"],
)
def test_a_change_waits_only_for_those_that_answer_a_vm_of_it_before_or_after(what: News, waits: list[str]) -> None:
    """N17, S30. Whoever else is dead: it is not looked at."""

    async def story() -> None:
        world = World()
        await world.followers.open(had_followers=False)
        world.join("one", host="host-1")
        world.join("two", host="host-2")
        world.join("all")
        hiding = asyncio.create_task(world.hide(what))
        for life in waits:
            assert not await world.is_hidden(hiding), f"{life} was not waited for"
            world.followers.beat(life, 11, 11)
        assert await world.is_hidden(hiding)

    run(story())


def test_what_a_follower_owes_is_waited_for_with_later_changes_too() -> None:
    """A change of another host shows all that was before it."""

    async def story() -> None:
        world = World()
        await world.followers.open(had_followers=False)
        world.join("one", host="host-1")
        first = asyncio.create_task(world.hide(news(11, of("vm/vm-1"))))
        assert not await world.is_hidden(first)
        second = asyncio.create_task(world.hide(news(12, of("vm/vm-3"))))
        assert not await world.is_hidden(second)
        assert await world.is_hidden(second, ("one", 11))

    run(story())


def test_who_has_no_lease_yet_is_not_waited_for_and_gets_none_before_it_has_hidden_what_it_was_told() -> None:
    """So one that joins and dies, or joins again and again, delays nobody (N17)."""

    async def story() -> None:
        world = World()
        await world.followers.open(had_followers=False)
        world.join("fine")
        world.listen("mute")
        hiding = asyncio.create_task(world.hide(news(11)))
        assert not await world.is_hidden(hiding)
        world.listen("late")
        assert world.followers.beat("late", 10, 10) == 0
        assert world.followers.owes("late")
        assert await world.is_hidden(hiding, ("fine", 11))
        assert world.followers.beat("late", 11, 11) == Terms(LEASE).right
        again = asyncio.create_task(world.hide(news(12)))
        assert not await world.is_hidden(again)
        assert not await world.is_hidden(again, ("fine", 12))
        assert await world.is_hidden(again, ("late", 12))

    run(story())


def test_nobody_waits_for_a_child_that_was_reaped_and_one_that_is_late_is_killed() -> None:
    """After a quarter of a second, or more if very much has changed (N18)."""

    async def story() -> None:
        world = World()
        await world.followers.open(had_followers=False)
        killed: list[int] = []
        world.followers.adopt("token/7", lambda: killed.append(world.now))
        for life in ("token/7.a", "token/7.b", "token/77.c"):
            world.join(life)
        began = world.now
        hiding = asyncio.create_task(world.hide(news(11)))
        assert not await world.is_hidden(hiding, ("token/77.c", 11))
        world.now += CHILD_PATIENCE - 1
        assert not await world.is_hidden(hiding, ("token/77.c", 11))
        assert killed == []
        world.now += 1
        assert not await world.is_hidden(hiding, ("token/77.c", 11))
        assert set(killed) == {began + CHILD_PATIENCE}
        world.followers.reaped("token/7")
        assert await world.is_hidden(hiding)
        assert list(world.followers.by_life) == ["token/77.c"]
        assert world.ears["token/7.a"].closed

    run(story())


def test_a_child_that_has_acknowledged_is_not_killed_while_another_one_is_waited_for() -> None:
    """Also if its last beat was a while ago: it owes nothing, and the next beat is on its way (N18, N19)."""

    async def story() -> None:
        world = World()
        await world.followers.open(had_followers=False)
        killed: list[str] = []
        world.followers.adopt("token/7", lambda: killed.append("token/7"))
        for life in ("token/7.a", "other", "dead"):
            world.join(life)
        hiding = asyncio.create_task(world.hide(news(11)))
        assert not await world.is_hidden(hiding)
        assert not await world.is_hidden(hiding, ("token/7.a", 11))
        world.now += max(LEASE // 8, CHILD_PATIENCE) + 1
        assert not await world.is_hidden(hiding, ("other", 11))
        assert killed == []
        hiding.cancel()

    run(story())


def test_who_leaves_is_not_waited_for() -> None:
    async def story() -> None:
        world = World()
        await world.followers.open(had_followers=False)
        gone = world.join("gone")
        hiding = asyncio.create_task(world.hide(news(11)))
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
        await world.hide(news(11, Touched(set(), set(), set())))
        assert ear.heard == [11]

    run(story())


def test_who_cannot_be_told_is_still_waited_for() -> None:
    """It may still show what is older. Its stream ends, and it comes back or is put out."""

    async def story() -> None:
        world = World()
        await world.followers.open(had_followers=False)
        deaf = world.join("deaf", error=ValueError("no"))
        hiding = asyncio.create_task(world.hide(news(11)))
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
        hiding = asyncio.create_task(world.hide(news(11)))
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
        await world.hide(news(11, Touched(set(), set(), set())))
        await world.followers.open(had_followers=True)
        hiding = asyncio.create_task(world.hide(news(12)))
        world.now += LEASE - 1
        assert not await world.is_hidden(hiding)
        world.now += 1
        world.followers.leave("nobody")
        assert await world.is_hidden(hiding)

    run(story())


def test_if_a_start_itself_changes_something_the_doors_wait() -> None:
    async def story() -> None:
        world = World()
        await world.hide(news(11))
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
            world.listen(life)
        world.followers.beat("answers", 10, 10)
        old, _ = world.ears["listens again"], world.listen("listens again")
        for life, ear in (("dead", world.ears["dead"]), ("listens again", old), ("answers", world.ears["answers"])):
            world.followers.ended(life, ear)
        assert list(world.followers.by_life) == ["listens again", "answers"]
        hiding = asyncio.create_task(world.hide(news(11)))
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
            world.followers.beat("frozen", 10, 10)
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
        followers.join("one", ToldEar(), 10, 10)
        assert followers.beat("one", 10, 10) == 7

    run(story())


def test_what_is_told_and_not_shown_yet_is_known_to_who_joins() -> None:
    """So it can be told of that too, if it concerns one of its VMs, and of no other change (N17)."""

    async def story() -> None:
        world = World()
        await world.followers.open(had_followers=False)
        told = news(11, Touched({"vm/vm-1"}, {"vm-1"}, set()), MOVED, *FLEET[1:])
        with world.followers.noted() as changed:
            await world.followers.apply(told)
            found = [world.followers.pending]
            assert changed == {"vm-1"}
            with world.followers.noted() as later:
                assert later == {"vm-1"}
            world.followers.show(11)
            found.append(world.followers.pending)
            assert found == [told, None]
        for host, is_met in {"host-1": True, "host-2": True, "host-3": False}.items():
            interest = Interest(lambda vm, host=host: vm.host == host, FLEET)  # type: ignore[misc]
            assert interest.take(told.touched, told.state.fleet.vms) is is_met

    run(story())


def test_nothing_is_held_before_all_have_applied_it_and_nothing_shown_before_all_hold_it() -> None:
    """While one is waited for, VMs are answered with what was before: nobody is asked to hide anything (N19)."""

    async def story() -> None:
        world = World()
        await world.followers.open(had_followers=False)
        fine, dead = world.join("fine"), world.join("dead")
        hiding = asyncio.create_task(world.hide(news(11)))
        assert not await world.is_hidden(hiding)
        for _ in range(LEASE // MICROS - 1):
            world.now += MICROS
            assert world.followers.beat("fine", 11, 10) == Terms(LEASE).right
            assert not await world.is_hidden(hiding)
        assert (fine.held, dead.held) == ([], [])
        world.now += MICROS
        world.followers.beat("fine", 11, 10)
        assert not await world.is_hidden(hiding)
        assert (fine.held, dead.closed) == ([11], True)
        assert await world.is_hidden(hiding, ("fine", 11))

    run(story())


def test_nothing_is_held_while_one_may_have_died_since_it_applied_it() -> None:
    """It gave no sign of life for a while: what is held would be dark until it is put out (N19)."""

    async def story() -> None:
        world = World()
        await world.followers.open(had_followers=False)
        first, second = world.join("first"), world.join("second")
        hiding = asyncio.create_task(world.hide(news(11)))
        assert not await world.is_hidden(hiding)
        world.followers.beat("first", 11, 10)
        world.now += Terms(LEASE).fresh
        world.followers.beat("second", 11, 10)
        assert not await world.is_hidden(hiding)
        assert first.held == second.held == []
        world.followers.beat("first", 11, 10)
        assert not await world.is_hidden(hiding)
        assert first.held == second.held == [11]
        assert await world.is_hidden(hiding, ("first", 11), ("second", 11))

    run(story())


def test_an_acknowledgement_that_comes_late_is_of_no_use_to_who_joined_again() -> None:
    """It was put out, and what it acknowledges then is not what it owes now (S27)."""

    async def story() -> None:
        world = World()
        await world.followers.open(had_followers=False)
        world.join("one")
        world.now += LEASE
        world.followers.leave("one")
        await world.hide(news(11))
        world.followers.show(11)
        world.listen("one", 10)
        assert world.followers.beat("one", 10, 10) == 0
        assert world.followers.beat("one", 11, 10) == 0
        assert world.followers.beat("one", 11, 11) == Terms(LEASE).right

    run(story())


def test_a_follower_of_a_node_that_was_out_has_no_right_before_it_has_hidden_what_is_shown() -> None:
    """Others have shown it meanwhile, and nobody here was asked to hide it. Its beat may be answered before it hears
    that it may show it (S27)."""

    async def story() -> None:
        world, whole = World(), Terms(LEASE).right
        right = [whole]
        world.followers = Followers(10, Terms(LEASE), lambda: right[0], lambda: world.now)
        await world.followers.open(had_followers=False)
        one = world.join("one")
        right[0] = 0
        for _ in range(LEASE // MICROS):
            world.now += MICROS
            world.followers.beat("one", 10, 10)
        applying = asyncio.create_task(world.followers.apply(news(11)))
        assert not await world.is_hidden(applying)
        world.followers.beat("one", 11, 10)
        await applying
        world.followers.show(11)
        right[0] = whole
        assert (one.held, one.shown) == ([11], [11])
        assert world.followers.beat("one", 11, 10) == 0
        assert world.followers.beat("one", 11, 11) == whole

    run(story())


def test_who_was_put_out_and_listens_again_is_asked_to_hide_what_it_had_applied() -> None:
    """VMs there still see what was before; it is believed only what it says that it has hidden (S27)."""

    async def story() -> None:
        world = World()
        await world.followers.open(had_followers=False)
        world.join("one")
        world.join("slow")
        hiding = asyncio.create_task(world.hide(news(11)))
        assert not await world.is_hidden(hiding)
        world.followers.beat("one", 11, 10)
        world.followers.leave("one")
        again = world.listen("one", 11)
        assert world.followers.beat("one", 11, 10) == Terms(LEASE).right
        assert not await world.is_hidden(hiding, ("slow", 11))
        assert again.held == [11]
        assert await world.is_hidden(hiding, ("one", 11))

    run(story())
