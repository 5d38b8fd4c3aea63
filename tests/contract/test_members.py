"""What the store that nodes share promises to them, the same for all of them; see `duenotice.engine.members.Members`.

A store is tried through two handles, as two nodes have them. To try another store, add it to `shared`.
"""

import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from duenotice.engine.members import (
    Appended,
    Applied,
    Changed,
    Deposed,
    Head,
    Hid,
    Hold,
    Member,
    MemberBeat,
    Members,
    News,
    NotMember,
    Replaced,
    Shown,
)
from duenotice.engine.ports import Journal
from duenotice.errors import Conflict, InvariantBroken, Rewound
from duenotice.store.data_dir import CheckpointFile
from duenotice.store.memory import MemoryMembers
from duenotice.store.postgres import PostgresJournal
from duenotice.store.postgres_members import PostgresMembers
from duenotice.store.postgres_schema import prepared
from duenotice.testkit.journal_contract import records


class Shared(NamedTuple):
    """Two handles of one store, and the journal of the same records."""

    a: Members
    b: Members
    journal: Journal


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.machine)])
def shared(request: pytest.FixtureRequest) -> Iterator[Shared]:
    """A new store."""
    if request.param == "memory":
        store = MemoryMembers()
        yield Shared(store, store, store.journal)
        return
    url = request.getfixturevalue("database").url
    prepared(url)
    a, b = PostgresMembers(url), PostgresMembers(url)
    journal = PostgresJournal(url, a, CheckpointFile(None), "reader")
    yield Shared(a, b, journal)
    journal.close()
    b.close()


LIVES = ("life-a", "life-b", "life-c")


def begin(store: Members, life: str, position: int = 0) -> Head:
    """A node registers under the last letter of its life, and joins."""
    store.register(life, f"node-{life[-1]}", f"http://{life}", "1.0")
    return store.join(life, position)


def lead(store: Members, life: str) -> int:
    """Take over from whoever is silent; the new epoch."""
    sight = store.look()
    leader = sight.member(sight.head.leader)
    head = store.take_over(life, sight.head.epoch, 0 if leader is None else leader.beat)
    assert head is not None
    return head.epoch


@pytest.fixture
def led(shared: Shared) -> Shared:
    """Two members, of which a leads under epoch 1."""
    begin(shared.a, "life-a")
    begin(shared.b, "life-b")
    assert lead(shared.a, "life-a") == 1
    return shared


# --- registering and joining (N03, N07) ---


def test_a_new_store_has_nobody_and_nothing(shared: Shared) -> None:
    assert shared.a.look() == (Head(0, 0, 0, "", 0), ())
    assert shared.a.polls(-1) == {}


def test_who_has_only_registered_is_not_a_member(shared: Shared) -> None:
    """It still has to read the journal, and nobody waits for it."""
    assert shared.a.register("life-a", "node-a", "http://a", "1.0") == shared.b.look() == (Head(), ())


def test_who_has_registered_and_is_not_a_member_is_absent(led: Shared) -> None:
    """A node that starts, and one that was put out; who has left is forgotten."""
    led.a.register("life-c", "node-c", "http://c", "1.0")
    assert led.b.absent() == (Member("life-c", "node-c", "http://c", "1.0"),)
    led.b.beat("life-b", 0, {})
    assert led.a.put_out("life-a", 1, "life-b", 1)
    assert [(member.node, member.beat) for member in led.a.absent()] == [("node-b", 1), ("node-c", 0)]
    led.b.leave("life-b")
    led.b.leave("life-c")
    assert led.a.absent() == ()


def test_who_joins_is_a_member_of_all_nodes(shared: Shared) -> None:
    """With its name, the address that commands are passed on to (N09), and the position that it knows."""
    shared.a.register("life-a", "node-a", "http://a", "1.0")
    assert shared.a.join("life-a", 7) == Head()
    assert shared.b.look().members == (Member("life-a", "node-a", "http://a", "1.0", beat=0, hidden=7),)


def test_members_are_in_the_order_in_which_they_registered(shared: Shared) -> None:
    for life in reversed(LIVES):
        shared.a.register(life, life, "", "1.0")
    for life in LIVES:
        shared.b.join(life, 0)
    assert [member.life for member in shared.a.look().members] == ["life-c", "life-b", "life-a"]


def test_joining_tells_the_head_of_that_moment(led: Shared) -> None:
    led.a.append("life-a", 1, records(1, 3))
    led.b.hidden("life-b", 2)
    assert led.a.show("life-a", 1, 2) == ()
    led.a.beat("life-a", 50, {})
    assert begin(led.b, "life-c", 1) == Head(3, 2, 1, "life-a", 50)


def test_joining_again_only_raises_what_is_hidden(led: Shared) -> None:
    led.b.beat("life-b", 0, {})
    led.b.join("life-b", 5)
    led.b.join("life-b", 3)
    assert led.a.look().member("life-b") == Member("life-b", "node-b", "http://life-b", "1.0", beat=1, hidden=5)


def test_registering_the_same_life_again_changes_nothing(led: Shared) -> None:
    before = led.a.look()
    assert led.b.register("life-b", "node-b", "http://life-b", "1.0") == before


def test_a_life_that_never_registered_is_refused(shared: Shared) -> None:
    for act in (
        lambda: shared.a.join("life-x", 0),
        lambda: shared.a.beat("life-x", 0, {}),
        lambda: shared.a.take_over("life-x", 0, 0),
        lambda: shared.a.hidden("life-x", 0),
    ):
        with pytest.raises(Replaced):
            act()


def test_a_new_life_of_a_node_replaces_the_old_one(led: Shared) -> None:
    """The old one cannot beat, join, take over or register again (N03)."""
    led.a.register("life-2", "node-b", "http://new", "1.1")
    for act in (
        lambda: led.b.join("life-b", 0),
        lambda: led.b.beat("life-b", 0, {}),
        lambda: led.b.take_over("life-b", 1, 0),
        lambda: led.b.register("life-b", "node-b", "http://life-b", "1.0"),
    ):
        with pytest.raises(Replaced):
            act()


def test_a_replaced_member_is_still_waited_for(led: Shared) -> None:
    """It may be answering: it has to hide, or to be put out."""
    led.b.register("life-2", "node-b", "http://new", "1.1")
    assert led.a.look().member("life-b") == Member("life-b", "node-b", "http://life-b", "1.0", replaced=True)
    led.a.append("life-a", 1, records(1, 1))
    assert led.a.show("life-a", 1, 1) == ("life-b",)
    led.b.hidden("life-b", 1)
    assert led.a.show("life-a", 1, 1) == ()


def test_a_replaced_life_that_was_not_a_member_is_forgotten(shared: Shared) -> None:
    shared.a.register("life-a", "node-a", "", "1.0")
    shared.b.register("life-2", "node-a", "", "1.0")
    with pytest.raises(Replaced):
        shared.a.join("life-a", 0)
    assert shared.b.look().members == ()


def test_a_replaced_leader_leads_no_more(led: Shared) -> None:
    """What it still has under way does not come into the journal."""
    led.b.register("life-2", "node-a", "", "1.0")
    assert led.b.look().head == Head(0, 0, 1, "", 0)
    with pytest.raises(Deposed):
        led.a.append("life-a", 1, records(1, 1))


# --- beats (N04, N05, N10, N11) ---


def test_each_beat_counts_one_more_and_tells_what_is_there(led: Shared) -> None:
    led.b.beat("life-b", 0, {})
    sight = led.b.beat("life-b", 0, {})
    assert sight == led.a.look()
    assert [(member.life, member.beat) for member in sight.members] == [("life-a", 0), ("life-b", 2)]


def test_only_the_leaders_time_is_kept_and_never_goes_back(led: Shared) -> None:
    steady = [
        store.beat(life, told, {}).head.steady
        for store, life, told in [(led.a, "life-a", 100), (led.b, "life-b", 900), (led.a, "life-a", 40)]
    ]
    assert steady == [100, 100, 100]


def test_the_later_of_two_polls_is_kept(led: Shared) -> None:
    """Whichever node tells of it, and in whatever order (N11)."""
    led.a.beat("life-a", 0, {"vm/x": 50, "vm/y": 10})
    led.b.beat("life-b", 0, {"vm/x": 40, "vm/y": 20, "vm/z": 30})
    assert led.b.polls(0) == {"vm/x": 50, "vm/y": 20, "vm/z": 30}


def test_old_polls_are_forgotten(led: Shared) -> None:
    led.a.beat("life-a", 0, {"vm/x": 50, "vm/y": 10})
    assert led.b.polls(10) == {"vm/x": 50}
    assert led.a.polls(0) == {"vm/x": 50}


def test_who_is_not_a_member_cannot_beat(shared: Shared) -> None:
    """And nothing of that beat is kept."""
    shared.a.register("life-a", "node-a", "", "1.0")
    with pytest.raises(NotMember):
        shared.a.beat("life-a", 5, {"vm/x": 5})
    assert shared.a.polls(-1) == {}


# --- who leads (N04) ---


def test_who_takes_over_leads_under_the_next_epoch(shared: Shared) -> None:
    begin(shared.a, "life-a")
    assert shared.a.take_over("life-a", 0, 0) == Head(0, 0, 1, "life-a", 0)
    assert shared.b.look().head == Head(0, 0, 1, "life-a", 0)


def test_of_two_that_take_over_one_leads(shared: Shared) -> None:
    begin(shared.a, "life-a")
    begin(shared.b, "life-b")
    assert shared.a.take_over("life-a", 0, 0) is not None
    assert shared.b.take_over("life-b", 0, 0) is None
    assert shared.b.look().head.leader == "life-a"


def test_nobody_takes_over_from_a_leader_that_has_beaten_since(led: Shared) -> None:
    led.a.beat("life-a", 0, {})
    assert led.b.take_over("life-b", 1, 0) is None
    assert led.b.take_over("life-b", 1, 1) == Head(0, 0, 2, "life-b", 0)


def test_the_old_leader_stays_a_member(led: Shared) -> None:
    """It may be answering, so what the new one writes is shown when the old one has hidden."""
    assert lead(led.b, "life-b") == 2
    led.b.append("life-b", 2, records(1, 1))
    assert led.b.show("life-b", 2, 1) == ("life-a",)


def test_who_is_not_a_member_cannot_take_over(shared: Shared) -> None:
    shared.a.register("life-a", "node-a", "", "1.0")
    with pytest.raises(NotMember):
        shared.a.take_over("life-a", 0, 0)


def test_after_a_leader_has_resigned_anybody_takes_over(led: Shared) -> None:
    """At once, whatever beat it has seen; the old leader goes on as a member."""
    led.a.beat("life-a", 0, {})
    led.a.resign("life-a")
    assert led.b.look().head == Head(0, 0, 1, "", 0)
    assert led.b.take_over("life-b", 1, 99) == Head(0, 0, 2, "life-b", 0)
    assert led.a.beat("life-a", 0, {}).member("life-a") is not None


def test_who_does_not_lead_resigns_without_effect(led: Shared) -> None:
    led.b.resign("life-b")
    assert led.b.look().head.leader == "life-a"


@pytest.mark.parametrize("leaves", ["life-a", "life-b"])
def test_who_leaves_is_forgotten_and_waited_for_no_more(led: Shared, leaves: str) -> None:
    led.a.leave(leaves)
    led.a.leave(leaves)
    sight = led.b.look()
    assert [member.life for member in sight.members] == [life for life in ("life-a", "life-b") if life != leaves]
    assert sight.head.leader == ("" if leaves == "life-a" else "life-a")
    with pytest.raises(Replaced):
        led.a.beat(leaves, 0, {})


# --- writing (N01) ---


def test_what_the_leader_appends_is_in_the_journal_and_not_shown(led: Shared) -> None:
    led.a.append("life-a", 1, records(1, 2))
    led.a.append("life-a", 1, records(3, 3))
    assert list(led.journal.read(0)) == records(1, 3)
    assert led.b.look().head == Head(3, 0, 1, "life-a", 0)


def test_the_time_of_an_append_is_kept_too(led: Shared) -> None:
    """So that whoever leads next does not decide at an earlier time (N10)."""
    led.a.append("life-a", 1, records(1, 1), steady=70)
    led.a.append("life-a", 1, records(2, 2), steady=60)
    assert led.b.look().head.steady == 70


@pytest.mark.parametrize(("life", "epoch"), [("life-b", 1), ("life-a", 0), ("life-a", 2), ("life-b", 2)])
def test_only_who_leads_under_this_epoch_appends(led: Shared, life: str, epoch: int) -> None:
    with pytest.raises(Deposed):
        led.a.append(life, epoch, records(1, 1))
    assert led.journal.last_position() == 0


def test_a_leader_that_wakes_up_late_writes_nothing(led: Shared) -> None:
    """Also under its own old epoch, and after it leads again (S21)."""
    lead(led.b, "life-b")
    with pytest.raises(Deposed):
        led.a.append("life-a", 1, records(1, 1))
    assert lead(led.a, "life-a") == 3
    with pytest.raises(Deposed):
        led.a.append("life-a", 1, records(1, 1))
    assert led.journal.last_position() == 0


def test_a_position_is_given_once(led: Shared) -> None:
    """What comes twice or leaves a gap is refused, and nothing of it is kept."""
    led.a.append("life-a", 1, records(1, 2))
    with pytest.raises(Conflict):
        led.a.append("life-a", 1, records(2, 3))
    with pytest.raises(InvariantBroken):
        led.a.append("life-a", 1, records(4, 4))
    assert list(led.journal.read(0)) == records(1, 2)


# --- the curtain (N06) ---


def test_nothing_is_shown_before_every_member_has_hidden_it(led: Shared) -> None:
    led.a.append("life-a", 1, records(1, 2))
    begin(led.b, "life-c")
    assert led.a.show("life-a", 1, 2) == ("life-b", "life-c")
    led.b.hidden("life-b", 2)
    led.b.hidden("life-c", 1)
    assert led.a.show("life-a", 1, 2) == ("life-c",)
    assert led.b.look().head.shown == 0
    led.b.hidden("life-c", 2)
    assert led.a.show("life-a", 1, 2) == ()
    assert led.b.look().head.shown == 2


def test_what_the_store_has_lost_can_neither_be_hidden_nor_shown(led: Shared) -> None:
    """Else it shows more than it has, and no node can be a member; or one counts as having hidden what comes (N14)."""
    led.a.append("life-a", 1, records(1, 2))
    led.b.hidden("life-b", 2)
    with pytest.raises(Rewound):
        led.b.hidden("life-b", 3)
    with pytest.raises(Rewound):
        led.a.show("life-a", 1, 3)
    sight = led.a.look()
    assert sight.head.shown == 0
    assert [member.hidden for member in sight.members] == [0, 2]


def test_to_show_means_to_have_hidden_oneself(led: Shared) -> None:
    led.a.append("life-a", 1, records(1, 2))
    led.b.hidden("life-b", 2)
    led.a.show("life-a", 1, 2)
    assert [member.hidden for member in led.b.look().members] == [2, 2]


def test_a_new_leader_waits_for_the_old_one_too(led: Shared) -> None:
    """To have appended does not mean to have hidden: the leader may have stopped in between."""
    led.a.append("life-a", 1, records(1, 1))
    lead(led.b, "life-b")
    assert led.b.show("life-b", 2, 1) == ("life-a",)


def test_what_is_shown_or_hidden_never_goes_back(led: Shared) -> None:
    led.a.append("life-a", 1, records(1, 3))
    for position in (3, 1):
        led.b.hidden("life-b", position)
    for position in (3, 2):
        assert led.a.show("life-a", 1, position) == ()
    assert led.b.look().head.shown == 3
    assert led.b.look().member("life-b") == Member("life-b", "node-b", "http://life-b", "1.0", hidden=3)


def test_who_was_put_out_cannot_say_that_it_has_applied_or_hidden(led: Shared) -> None:
    led.a.append("life-a", 1, records(1, 1))
    led.a.put_out("life-a", 1, "life-b", 0)
    with pytest.raises(NotMember):
        led.b.applied("life-b", 1)
    with pytest.raises(NotMember):
        led.b.hidden("life-b", 1)


def test_nothing_is_held_before_every_other_member_has_applied_it(led: Shared) -> None:
    """A member that joins counts from then on; what it has hidden it has applied too (N19)."""
    led.a.append("life-a", 1, records(1, 2))
    assert led.a.hold("life-a", 1, 2) == ("life-b",)
    assert led.b.look().head.hold == 0
    led.b.applied("life-b", 1)
    assert led.a.hold("life-a", 1, 1) == ()
    begin(led.b, "life-c", 1)
    led.b.applied("life-b", 2)
    assert led.a.hold("life-a", 1, 2) == ("life-c",)
    led.b.hidden("life-c", 2)
    assert led.a.hold("life-a", 1, 2) == ()
    assert led.b.look().head[:2] == (2, 0)
    assert led.b.look().head.hold == 2


def test_what_was_applied_or_is_held_never_goes_back(led: Shared) -> None:
    led.a.append("life-a", 1, records(1, 3))
    for position in (3, 1):
        led.b.applied("life-b", position)
    for position in (3, 2):
        assert led.a.hold("life-a", 1, position) == ()
    sight = led.b.look()
    assert (sight.head.hold, sight.member("life-b").applied) == (3, 3)  # type: ignore[union-attr]


def test_what_the_store_has_lost_can_neither_be_applied_nor_held(led: Shared) -> None:
    """What is stored there next is something else (N14)."""
    led.a.append("life-a", 1, records(1, 1))
    with pytest.raises(Rewound):
        led.b.applied("life-b", 2)
    with pytest.raises(Rewound):
        led.a.hold("life-a", 1, 2)


@pytest.mark.parametrize(("life", "epoch"), [("life-b", 1), ("life-a", 0), ("life-b", 2)])
def test_only_the_leader_shows_and_puts_out(led: Shared, life: str, epoch: int) -> None:
    led.a.append("life-a", 1, records(1, 1))
    led.b.hidden("life-b", 1)
    with pytest.raises(Deposed):
        led.a.show(life, epoch, 1)
    with pytest.raises(Deposed):
        led.a.hold(life, epoch, 1)
    with pytest.raises(Deposed):
        led.a.put_out(life, epoch, "life-b", 0)
    assert led.b.look().head.shown == 0
    assert len(led.b.look().members) == 2


# --- putting out ---


def test_a_silent_member_is_put_out_and_waited_for_no_more(led: Shared) -> None:
    led.a.append("life-a", 1, records(1, 1))
    assert led.a.put_out("life-a", 1, "life-b", 0) is True
    assert led.a.show("life-a", 1, 1) == ()
    with pytest.raises(NotMember):
        led.b.beat("life-b", 0, {})


def test_a_member_that_has_beaten_since_is_not_put_out(led: Shared) -> None:
    led.b.beat("life-b", 0, {})
    assert led.a.put_out("life-a", 1, "life-b", 0) is False
    assert led.b.beat("life-b", 0, {}).member("life-b") is not None


def test_who_is_not_there_any_more_needs_no_putting_out(led: Shared) -> None:
    led.b.leave("life-b")
    assert led.a.put_out("life-a", 1, "life-b", 7) is True


def test_who_was_put_out_may_join_again(led: Shared) -> None:
    led.a.put_out("life-a", 1, "life-b", 0)
    led.a.append("life-a", 1, records(1, 1))
    assert led.b.join("life-b", 0) == Head(1, 0, 1, "life-a", 0)
    assert led.a.show("life-a", 1, 1) == ("life-b",)


def test_who_is_replaced_and_put_out_is_forgotten(led: Shared) -> None:
    led.b.register("life-2", "node-b", "", "1.1")
    assert led.a.put_out("life-a", 1, "life-b", 0) is True
    with pytest.raises(Replaced):
        led.b.hidden("life-b", 1)


# --- news (N08) ---


def test_everybody_hears_the_news(shared: Shared) -> None:
    """Who joins, leads or goes, a beat, what becomes of records; also who did it hears it."""
    heard: list[News] = []
    more: list[News] = []
    stop, stop_more = shared.a.listen(heard.append), shared.b.listen(more.append)
    begin(shared.a, "life-a")
    begin(shared.b, "life-b")
    lead(shared.a, "life-a")
    shared.a.beat("life-a", 0, {})
    shared.b.beat("life-b", 0, {})
    shared.a.append("life-a", 1, records(1, 2))
    shared.b.applied("life-b", 2)
    shared.a.hold("life-a", 1, 2)
    shared.b.hidden("life-b", 2)
    shared.a.show("life-a", 1, 2)
    shared.a.put_out("life-a", 1, "life-b", 1)
    shared.a.resign("life-a")
    expected: list[News] = [*[Changed()] * 5, MemberBeat("life-a", 1), MemberBeat("life-b", 1), Appended(2)]
    expected += [Applied("life-b", 2), Hold(2), Hid("life-b", 2), Shown(2), Changed(), Changed()]
    wait_until(lambda: heard == more == expected)
    for stop_hearing in (stop, stop, stop_more):
        stop_hearing()
    shared.a.leave("life-a")
    assert heard == more == expected


def test_what_is_refused_is_not_news(led: Shared) -> None:
    heard: list[News] = []
    led.b.listen(heard.append)
    with pytest.raises(Deposed):
        led.a.append("life-b", 1, records(1, 1))
    led.b.take_over("life-b", 1, 7)
    led.a.append("life-a", 1, records(1, 1))
    led.a.show("life-a", 1, 1)
    led.a.put_out("life-a", 1, "life-b", 7)
    led.a.resign("life-a")
    wait_until(lambda: heard == [Appended(1), Changed()])


def wait_until(holds: Callable[[], bool]) -> None:
    """News may come from a thread of the store's own."""
    for _ in range(1000):
        if holds():
            return
        threading.Event().wait(0.01)
    assert holds()
