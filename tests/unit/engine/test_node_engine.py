"""Several engines share a journal: one writes, all show the same, and none shows anything older (N01-N10)."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from starlette.requests import Request
from structlog.testing import capture_logs

from duenotice.clock import MICROS
from duenotice.domain.commands import ApplyFleet, EnableScope, EvictVm, Tick
from duenotice.domain.policy import Policy
from duenotice.domain.records import ClockMarked, IncarnationsLifted, Record
from duenotice.domain.rules.decide import SILENCE
from duenotice.domain.snapshot import take
from duenotice.engine.curtain import Curtain
from duenotice.engine.engine import load
from duenotice.engine.members import Deposed
from duenotice.engine.membership import HandOver
from duenotice.engine.writer import News
from duenotice.errors import Rewound, Unavailable
from duenotice.operator_api.tokens import Tokens
from tests.unit.domain.build import declaration, id_of
from tests.unit.engine.cluster_rig import LEASE, Cluster, Node, ask, settle, three
from tests.unit.engine.rig import approval, in_loop, reboot, shown

NOTICE = 15 * 60 * MICROS
SCHEDULED, STARTED = [(id_of(1), "scheduled")], [(id_of(1), "started")]


@in_loop
async def test_a_change_is_shown_by_all_nodes_when_it_is_answered() -> None:
    """Without any time passing: news is enough."""
    async with three() as cluster:
        await ask(cluster.leader, EnableScope("alone"))
        await ask(cluster.leader, reboot("alone"))
        await settle()
        assert [shown(node.engine, "alone") for node in cluster.nodes] == [SCHEDULED] * 3
        assert {node.engine.state.position for node in cluster.nodes} == {cluster.journal.last_position()}


@in_loop
async def test_a_command_at_another_node_is_done_by_the_leader() -> None:
    """It is answered when this node shows it, with what came of it (N09)."""
    async with three() as cluster:
        node = cluster.others[0]
        await ask(node, EnableScope("alone"))
        assert node.engine.state.enabled("vm/alone")
        (raised,) = await ask(node, reboot("alone"))
        assert shown(node.engine, "alone") == SCHEDULED
        assert raised.position == cluster.leader.engine.state.position


@in_loop
async def test_nobody_shows_anything_newer_while_a_member_may_show_the_old() -> None:
    """Until all have read it they show the old; then scopes that it touches are hidden, all others not (N06, N19)."""
    async with three() as cluster:
        leader, (deaf, other) = cluster.leader, cluster.others
        for vm in ("alone", "zonal"):
            await ask(leader, EnableScope(vm))
        await settle()
        deaf.line.is_deaf = True
        done = ask(leader, reboot("alone"))
        await settle()
        assert not done.done()
        assert [shown(node.engine, "alone") for node in cluster.nodes] == [[]] * 3
        assert not any(node.engine.curtain.hides("vm/alone") for node in cluster.nodes)
        await cluster.until(lambda: leader.engine.curtain.hides("vm/alone"), MICROS)  # its next beat has told it that
        hidden = [node.engine.curtain.hides("vm/alone") for node in (leader, deaf, other)]
        assert hidden == [True, False, True]
        assert [shown(node.engine, "alone") for node in cluster.nodes] == [[]] * 3
        assert not any(node.engine.curtain.hides("vm/zonal") for node in cluster.nodes)
        await cluster.until(done.done, LEASE)  # it takes two beats, so the notice is made longer first (S2)
        await cluster.pass_time(MICROS)
        assert [shown(node.engine, "alone") for node in cluster.nodes] == [SCHEDULED] * 3
        assert not any(node.engine.curtain.hides("vm/alone") for node in cluster.nodes)


def _note(found: list[bool], curtain: Curtain) -> None:
    found.append(curtain.hides("vm/alone"))


@in_loop
async def test_whoever_waits_for_a_change_is_woken_when_it_is_not_hidden_any_more() -> None:
    """Else a held poll would be answered with 503 instead of the new document (N06)."""
    async with three() as cluster:
        await ask(cluster.leader, EnableScope("alone"))
        await settle()
        hidden: list[bool] = []
        for node in cluster.nodes:
            curtain = node.engine.curtain
            node.engine.publisher.watch("vm/alone", node, partial(_note, hidden, curtain))
        await ask(cluster.leader, reboot("alone"))
        await settle()
        assert hidden == [False] * 3


@in_loop
async def test_who_reads_at_a_node_can_wait_for_what_other_nodes_may_show_already() -> None:
    """An operator who was answered at one node reads what came of it at every other."""
    async with three() as cluster:
        deaf, other = cluster.others
        deaf.line.is_deaf = True
        done = ask(cluster.leader, EnableScope("alone"))
        await settle()
        reading = asyncio.ensure_future(other.engine.caught_up())
        await settle()
        assert not reading.done()
        await cluster.until(done.done, MICROS)
        await reading
        assert other.engine.state.enabled("vm/alone")


@in_loop
async def test_a_dead_member_delays_a_change_until_it_is_put_out() -> None:
    async with three() as cluster:
        await ask(cluster.leader, EnableScope("alone"))
        cluster.kill(cluster.others[0])
        done = ask(cluster.leader, reboot("alone"))
        for _ in range(12):
            await cluster.pass_time(LEASE // 24)
            living = [cluster.leader, *cluster.others]
            assert all(node.engine.may_answer() for node in living)
            assert not any(node.engine.curtain.hides("vm/alone") for node in living)  # polls are answered (N19, S30)
        assert not done.done()
        await cluster.until(done.done, LEASE)
        assert shown(cluster.others[0].engine, "alone") == SCHEDULED


@in_loop
async def test_a_member_that_dies_while_another_one_is_waited_for_does_not_have_the_change_held_for_it() -> None:
    """It has applied it, and gave no sign of life since: what is held then would be dark until it is put out (N19)."""
    async with three(names="abcd") as cluster:
        await ask(cluster.leader, EnableScope("alone"))
        first, second, other = cluster.others
        cluster.kill(first)
        done = ask(cluster.leader, reboot("alone"))
        await cluster.pass_time(LEASE // 2)
        cluster.kill(second)
        while not done.done():
            await cluster.pass_time(MICROS // 12)
            assert done.done() or not other.engine.curtain.hides("vm/alone")
        assert shown(other.engine, "alone") == SCHEDULED


class KilledFollower:
    """Is waited for until it is put out."""

    is_open = True

    def __init__(self) -> None:
        self.is_out = asyncio.Event()

    async def apply(self, news: News) -> None:
        await self.is_out.wait()

    async def hold(self, position: int) -> None:
        """It is out by then."""

    def show(self, position: int) -> None:
        """There is nobody to tell."""


class SlowFollower(KilledFollower):
    """The loop does something else while it applies a change."""

    async def apply(self, news: News) -> None:
        await super().apply(news)
        await asyncio.sleep(0)


@in_loop
async def test_a_leader_that_stood_still_and_wakes_deposed_does_not_go_on_adding_notice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another one leads and has made it longer, and all of that but a moment is over. It once added to it, as long as
    it had not heard who leads, until the sum was no date, and ended."""
    async with three() as cluster:
        old, append, tried = cluster.leader, cluster.store.append, list[str]()

        def appended(life: str, *asked: Any, **more: Any) -> None:
            tried.append(life)
            append(life, *asked, **more)

        def look() -> Any:
            raise Unavailable("not now", hint="")

        await ask(old, EnableScope("alone"))
        for node in cluster.nodes:
            node.engine._writer.policy = Policy(commit_allowance=MICROS)
        old.engine.below = below = SlowFollower()
        done = ask(old, reboot("alone"))
        await settle()
        old.is_dead = old.line.is_deaf = True  # it stands still
        await cluster.until(lambda: any(node.engine.leads for node in cluster.nodes if node is not old))
        cut = cluster.others[0]
        await cluster.until(lambda: shown(cut.engine, "alone") == SCHEDULED)
        (event,) = cut.engine.state.events.values()
        left = event.notice_ends - NOTICE - old.engine.time()
        old.clock.pass_by(left - MICROS // 4)
        with monkeypatch.context() as store:
            store.setattr(cluster.store, "append", appended)
            store.setattr(cluster.store, "look", look)
            below.is_out.set()
            await settle()
        assert tried == [old.life]
        old.is_dead = old.line.is_deaf = False
        await cluster.until(lambda: done.done() and old.engine.may_answer())
        with pytest.raises(Unavailable, match="Another node leads"):
            await done
        assert old.engine.broken is None
        await cluster.until(lambda: shown(old.engine, "alone") == SCHEDULED)
        assert old.engine.state.events == cut.engine.state.events


@in_loop
async def test_the_notice_that_is_added_while_nothing_can_be_stored_has_an_end() -> None:
    """The store can be read and refuses what is appended: it tries again as long as a moment of notice is left."""
    async with three(names="a") as cluster:
        leader = cluster.leader
        await ask(leader, EnableScope("alone"))
        leader.engine._writer.policy = Policy(commit_allowance=MICROS)
        leader.engine.below = below = SlowFollower()
        done = ask(leader, reboot("alone"))
        await settle()
        refused = list[None]()

        def refuse() -> None:
            refused.append(None)
            leader.clock.pass_by(MICROS // 1000)

        leader.line.refuses_appends, leader.line.meanwhile = True, refuse
        (event,) = leader.engine._writer.state.events.values()
        leader.clock.pass_by(event.notice_ends - NOTICE - leader.engine.time() - MICROS // 4)
        below.is_out.set()
        await cluster.until(done.done)
        with pytest.raises(Unavailable):
            await done
        assert len(refused) > 60
        assert leader.engine.broken is None
        leader.line.refuses_appends = False
        await cluster.until(lambda: shown(leader.engine, "alone") == SCHEDULED)
        (event,) = leader.engine.state.events.values()
        left = event.not_before - leader.engine.clock.now().at
        assert timedelta(minutes=15) <= left <= timedelta(minutes=16)


@pytest.mark.parametrize("number", [0, 1], ids=["leader", "another"])
@in_loop
async def test_a_node_that_waits_for_a_killed_follower_keeps_its_place(number: int) -> None:
    """It beats meanwhile: it goes on to lead and to answer what is not hidden (N05, N06)."""
    async with three() as cluster:
        leader, node = cluster.leader, cluster.nodes[number]
        await ask(leader, EnableScope("alone"))
        await settle()
        node.engine.below = killed = KilledFollower()
        done = ask(leader, reboot("alone"))
        await cluster.pass_time(LEASE + LEASE // 4)
        assert not done.done()
        assert cluster.leader is leader
        assert node.engine.may_answer()
        killed.is_out.set()
        await cluster.until(done.done, MICROS)
        await cluster.pass_time(MICROS)
        assert [shown(each.engine, "alone") for each in cluster.nodes] == [SCHEDULED] * 3


@in_loop
async def test_notice_is_made_longer_again_if_the_curtain_took_long() -> None:
    """S2: what VMs read after a lease of waiting still promises the whole minimum."""
    async with three() as cluster:
        await ask(cluster.leader, EnableScope("alone"))
        cluster.kill(cluster.others[0])
        done = ask(cluster.leader, reboot("alone"))
        await cluster.until(done.done)
        now = cluster.leader.engine.clock.now().at
        (event,) = cluster.leader.engine.state.events.values()
        assert (event.not_before - now).total_seconds() >= 15 * 60


@in_loop
async def test_what_the_leader_gave_up_waiting_for_is_still_not_shown_too_late() -> None:
    """S2: its seat asks to show it as soon as the store is back, which may be before the next tick."""
    async with three() as cluster:
        leader = cluster.leader
        await ask(leader, EnableScope("alone"))
        cluster.kill(cluster.others[0])
        done = ask(leader, reboot("alone"))
        await cluster.pass_time(LEASE // 3)
        assert not done.done()
        leader.line.is_cut = True
        await cluster.pass_time(3 * LEASE)
        await asyncio.wait([done])
        assert not leader.engine.is_in_time()


@in_loop
async def test_a_leader_that_hears_late_that_it_may_show_makes_the_notice_longer_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """S2: the store has let it be shown, the answer was lost, and the store was away for long."""
    async with three(names="a") as cluster:
        leader, show = cluster.leader, cluster.store.show
        await ask(leader, EnableScope("alone"))

        def lost(*asked: Any) -> Any:
            leader.line.is_cut = leader.line.is_deaf = True
            show(*asked)
            leader.line.refuse_if_cut()

        monkeypatch.setattr(cluster.store, "show", lost)
        done = ask(leader, reboot("alone"))
        await cluster.pass_time(3 * LEASE)
        await asyncio.wait([done])
        monkeypatch.undo()
        leader.line.is_cut = leader.line.is_deaf = False
        with monkeypatch.context() as no_tick_yet:
            no_tick_yet.setattr(cluster, "_let_it_tick", lambda _: None)
            await cluster.pass_time(LEASE)
            assert shown(leader.engine, "alone") == []
        await cluster.until(lambda: shown(leader.engine, "alone") == SCHEDULED)
        (event,) = leader.engine.state.events.values()
        assert event.not_before - leader.engine.clock.now().at >= timedelta(minutes=15)


@in_loop
async def test_a_leader_that_vms_cannot_ask_yet_reckons_with_the_time_until_others_hear_of_it() -> None:
    """S2: they see it first at a node that hears of it with its next beat, or with the one after that."""
    async with three() as cluster:
        leader = cluster.leader
        await ask(leader, EnableScope("alone"))
        leader.engine._writer.is_read = False
        await ask(leader, reboot("alone"))
        (event,) = leader.engine.state.events.values()
        spare = timedelta(microseconds=2 * leader.engine.seat.standing.terms.every)
        assert event.not_before - leader.engine.clock.now().at >= timedelta(minutes=15) + spare


@in_loop
async def test_after_the_leader_is_killed_another_goes_on_from_all_that_was_answered() -> None:
    """After a lease; meanwhile the others answer (N04, S5)."""
    async with three() as cluster:
        old = cluster.leader
        await ask(old, EnableScope("alone"))
        await ask(old, reboot("alone"))
        await settle()
        cluster.kill(old)
        await cluster.pass_time(LEASE // 2)
        assert all(node.engine.may_answer() for node in cluster.nodes if node is not old)
        await cluster.until(lambda: any(node.engine.leads for node in cluster.nodes if node is not old), 2 * LEASE)
        done = ask(cluster.others[0], approval("alone"))
        await cluster.until(done.done)
        await done
        assert [shown(node.engine, "alone") for node in cluster.nodes if node is not old] == [STARTED] * 2


@in_loop
async def test_without_a_leader_a_command_is_refused_and_nothing_is_done() -> None:
    """503 with a time to try again (N09)."""
    async with three() as cluster:
        node, position = cluster.others[0], cluster.journal.last_position()
        cluster.kill(cluster.leader)
        with pytest.raises(Unavailable, match="cannot be reached"):
            await ask(node, EnableScope("alone"))
        assert cluster.journal.last_position() == position


@in_loop
async def test_what_was_stored_but_not_shown_is_shown_by_the_next_leader() -> None:
    """The old one was cut off in between; it comes back as a follower, with the same bytes (S4)."""
    async with three() as cluster:
        old = cluster.leader
        await ask(old, EnableScope("alone"))
        await settle()
        old.line.loses_answers = True
        lost = ask(old, reboot("alone"))
        await settle()
        assert lost.done()
        with pytest.raises(Unavailable):
            await lost
        assert shown(old.engine, "alone") == []
        await cluster.until(lambda: any(node.engine.leads for node in cluster.nodes if node is not old), 2 * LEASE)
        await cluster.pass_time(MICROS)
        assert not old.engine.may_answer()
        old.line.loses_answers = old.line.is_cut = False
        await cluster.until(old.engine.may_answer)
        await cluster.pass_time(MICROS)
        assert [shown(node.engine, "alone") for node in cluster.nodes] == [SCHEDULED] * 3
        assert not old.engine.leads
        await ask(old, approval("alone"))
        assert shown(old.engine, "alone") == STARTED


@in_loop
async def test_the_store_is_away_for_a_while() -> None:
    """Polls go on for a lease, then nobody answers; all comes back by itself (N15)."""
    async with three() as cluster:
        await ask(cluster.leader, EnableScope("alone"))
        await ask(cluster.leader, reboot("alone"))
        await settle()
        for node in cluster.nodes:
            node.line.is_cut = True
        failed = ask(cluster.leader, approval("alone"))
        await cluster.until(failed.done)
        with pytest.raises(Unavailable):
            await failed
        assert all(node.engine.may_answer() for node in cluster.nodes)
        await cluster.pass_time(LEASE)
        assert not any(node.engine.may_answer() for node in cluster.nodes)
        for node in cluster.nodes:
            node.line.is_cut = False
        await cluster.until(lambda: all(node.engine.may_answer() for node in cluster.nodes), 5 * MICROS)
        done = ask(cluster.nodes[2], approval("alone"))
        await cluster.until(done.done)
        await done
        assert shown(cluster.nodes[2].engine, "alone") == STARTED


@in_loop
async def test_a_command_that_waits_for_a_leader_is_done_here_if_this_node_leads_then() -> None:
    """The first command of a new cluster comes before anybody leads."""
    cluster = Cluster()
    node = Node(cluster, "a")
    cluster.nodes.append(node)
    done = ask(node, ApplyFleet(declaration()))
    await settle()
    assert not done.done()
    await cluster.until(done.done)
    await done
    assert node.engine.state.fleet.vms
    await node.engine.stop()


@in_loop
async def test_who_leads_no_more_does_not_show_what_others_have_not_hidden() -> None:
    """It has stored something and handed over, while a member that is cut off may still be answering with the old."""
    async with three() as cluster:
        old, cut = cluster.leader, cluster.others[0]
        await ask(old, EnableScope("alone"))
        await settle()
        cut.line.is_cut = True
        done = ask(old, reboot("alone"))
        await settle()
        old.engine.seat.tell(HandOver())
        await settle()
        await done  # it is durable
        assert cut.engine.may_answer()
        assert [shown(node.engine, "alone") for node in cluster.nodes] == [[]] * 3
        assert not old.engine.curtain.hides("vm/alone")  # the one that is cut off has not applied it (N19)
        await cluster.pass_time(2 * LEASE)
        assert [shown(node.engine, "alone") for node in cluster.nodes if node is not cut] == [SCHEDULED] * 2
        assert not cut.engine.may_answer()


@in_loop
async def test_a_leader_that_stops_hands_over_at_once() -> None:
    """N07: the others go on within a second, and the one that leaves answers until it is gone."""
    async with three() as cluster:
        old = cluster.leader
        led: list[str] = []
        for node in cluster.nodes:
            node.engine.on_lead.append(partial(led.append, f"{node.name} leads"))
            node.engine.on_follow.append(partial(led.append, f"{node.name} follows"))
        old.engine.hand_over()
        await cluster.until(lambda: any(node.engine.leads for node in cluster.nodes), MICROS)
        assert led in (["a follows", "b leads"], ["a follows", "c leads"])
        assert old.engine.may_answer()
        await ask(cluster.others[0], EnableScope("alone"))
        await old.engine.stop()
        assert not old.engine.may_answer()
        assert old.life not in [member.life for member in cluster.store.look().members]


@in_loop
async def test_the_last_node_leaves_a_snapshot_and_one_of_many_hands_over() -> None:
    """A snapshot may take long, and the others go on at once; but the next start of all has to be short."""
    async with three() as cluster:
        for is_last in (False, False, True):
            await cluster.until(lambda: any(node.engine.leads for node in cluster.nodes if not node.is_dead))
            leader = cluster.leader
            await cluster.pass_time(MICROS)
            await leader.engine.stop()
            leader.is_dead = True
            snapshot = cluster.journal.snapshot()
            assert (snapshot is not None) == is_last
        assert snapshot is not None
        assert snapshot.position == cluster.journal.last_position()
        cluster.nodes.clear()


def _shows_all(cluster: Cluster, node: Node) -> bool:
    return node.engine.state.position == cluster.journal.last_position()


@in_loop
async def test_what_could_not_be_stored_while_the_curtain_was_down_is_not_shown() -> None:
    """S5: notice has to be made longer, and that cannot be stored; the leader shows what the journal has."""
    async with three() as cluster:
        leader, dead = cluster.leader, cluster.others[0]
        await ask(leader, EnableScope("alone"))
        await settle()
        cluster.kill(dead)
        done = ask(leader, reboot("alone"))
        await cluster.pass_time(LEASE // 3)
        assert not done.done()
        stored = load(cluster.journal)
        leader.line.refuses_appends = True
        leader.line.meanwhile = lambda: leader.engine.allow(stored.position)  # the answer to an earlier call
        await cluster.until(lambda: shown(leader.engine, "alone") == SCHEDULED)
        assert take(leader.engine.state) == take(stored)
        leader.line.refuses_appends = False
        for node in (leader, cluster.others[0]):
            await cluster.until(partial(_shows_all, cluster, node))
            assert take(node.engine.state) == take(load(cluster.journal))


@in_loop
async def test_a_node_that_starts_later_shows_what_all_show() -> None:
    """It reads the journal, joins, and answers only then (N07)."""
    async with three() as cluster:
        await ask(cluster.leader, EnableScope("alone"))
        await ask(cluster.leader, reboot("alone"))
        late = await cluster.begin("d")
        assert shown(late.engine, "alone") == SCHEDULED
        await ask(late, approval("alone"))
        await settle()
        assert [shown(node.engine, "alone") for node in cluster.nodes] == [STARTED] * 4


@in_loop
async def test_time_goes_on_with_the_new_leader_and_never_goes_back() -> None:
    """N10: its own clock began elsewhere."""
    async with three() as cluster:
        old = cluster.leader
        cluster.others[0].clock.pass_by(-500 * MICROS)
        cluster.others[1].clock.pass_by(3000 * MICROS)
        await cluster.pass_time(2 * MICROS)
        before = old.engine.clock.now().steady
        cluster.kill(old)
        begin = cluster.micros
        await cluster.until(lambda: any(node.engine.leads for node in cluster.nodes if node is not old))
        passed = cluster.micros - begin
        assert before <= cluster.leader.engine.clock.now().steady <= before + passed


@in_loop
async def test_who_takes_over_goes_on_from_what_was_stored_after_its_last_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """S25: the last leader could not answer, its time stood still, and it told VMs by that how much notice is left."""
    async with three() as cluster:
        old, store = cluster.leader, cluster.store
        await cluster.pass_time(2 * MICROS)
        stood_still_at, epoch, take_over = store.look().head.steady, store.look().head.epoch, store.take_over
        cluster.kill(old)

        def at_last(*seen: Any) -> Any:
            mark = ClockMarked(old.clock.mark()._replace(steady=stood_still_at))
            record = Record(store.journal.last_position() + 1, old.clock.now().at, "test", mark)
            with suppress(Deposed):
                store.append(old.life, epoch, [record], steady=stood_still_at)
            return take_over(*seen)

        monkeypatch.setattr(store, "take_over", at_last)
        await cluster.until(lambda: any(node.engine.leads for node in cluster.nodes if node is not old))
        assert cluster.leader.engine.clock.now().steady < stood_still_at + MICROS


@in_loop
async def test_a_second_process_with_the_same_name_ends_the_first() -> None:
    """N03: it says why."""
    async with three() as cluster:
        old = cluster.nodes[1]
        await cluster.begin("b")
        await cluster.until(old.engine.failed.done)
        assert "Another process has registered as this node." in str(old.engine.failed.result())
        assert not old.engine.may_answer()


@in_loop
async def test_an_event_starts_under_a_new_leader_when_its_notice_is_over_and_not_before() -> None:
    """S1, N10: the time in which the others answered counts, and nothing is started early."""
    async with three() as cluster:
        old = cluster.leader
        await ask(old, EnableScope("spot"))
        done = ask(old, EvictVm(id_of(1), "spot"))
        await done
        begin = cluster.micros
        await cluster.pass_time(10 * MICROS)
        cluster.kill(old)
        await cluster.until(lambda: any(node.engine.leads for node in cluster.nodes if node is not old))
        while shown(cluster.leader.engine, "spot") == SCHEDULED:
            await cluster.pass_time(MICROS // 12)
            await ask(cluster.leader, Tick())
            assert cluster.micros - begin < 60 * MICROS
        assert 30 * MICROS <= cluster.micros - begin <= 35 * MICROS
        assert shown(cluster.leader.engine, "spot") == STARTED


@in_loop
async def test_a_scope_that_is_polled_at_another_node_is_not_silent() -> None:
    """N11, F02: the leader hears of it with the beats, and so does whoever leads next."""
    async with three() as cluster:
        leader, other = cluster.leader, cluster.others[0]
        for vm in ("alone", "zonal"):
            await ask(leader, EnableScope(vm))
        for _ in range(25):
            for node in cluster.nodes:
                node.clock.pass_by(3600 * MICROS)
            other.engine.publisher.open_page("vm/alone").last_poll = other.engine.clock.now().steady
            await cluster.pass_time(2 * MICROS)
        now = leader.engine.clock.now().steady
        assert leader.engine.publisher.silent_among(["vm/alone", "vm/zonal"], now, SILENCE) == ["vm/zonal"]
        cluster.kill(other)
        cluster.kill(leader)
        await cluster.until(lambda: any(node.engine.leads for node in cluster.nodes if not node.is_dead), 10 * LEASE)
        silent = cluster.leader.engine.publisher.silent_among(["vm/alone", "vm/zonal"], now, SILENCE)
        assert silent == ["vm/zonal"]


@in_loop
async def test_a_store_that_has_lost_what_was_stored_ends_the_nodes() -> None:
    """N14: what they show may be newer than the journal; a new process reads what is left."""
    async with three() as cluster:
        await ask(cluster.leader, EnableScope("alone"))
        await settle()
        del cluster.store.journal._rows[-1]
        await cluster.pass_time(2 * MICROS)
        assert not any(node.engine.may_answer() for node in cluster.nodes)
        for node in cluster.nodes:
            assert isinstance(node.engine.failed.result(), Rewound)


@in_loop
async def test_a_leader_does_not_have_shown_what_its_store_has_lost() -> None:
    """N14: a store that shows more than it has would let no node join any more."""
    async with three(names="a") as cluster:
        leader = cluster.leader
        await ask(leader, EnableScope("alone"))
        leader.engine.below = killed = KilledFollower()
        ask(leader, reboot("alone"))
        await settle()
        del cluster.store.journal._rows[-1]
        killed.is_out.set()
        await settle()
        assert isinstance(leader.engine.failed.result(), Rewound)
        head = cluster.store.look().head
        assert head.shown == head.position


@in_loop
async def test_a_new_leader_lifts_first_if_the_journal_may_have_lost_something() -> None:
    """N14, S3: before anything else of it can be shown, however often that could not be stored."""
    async with three() as cluster:
        old, position = cluster.leader, cluster.journal.last_position()
        cluster.store.journal.restored = True
        cluster.kill(old)
        await cluster.until(lambda: cluster.journal.last_position() > position)
        cluster.store.journal.restored = False
        (first, *_) = cluster.journal.read(position)
        assert isinstance(first.transition, IncarnationsLifted)


@in_loop
async def test_the_log_says_once_that_the_store_is_away_and_who_leads() -> None:
    """Not for each try."""
    async with three() as cluster:
        with capture_logs() as logs:
            old = cluster.leader
            old.line.is_cut = True
            await cluster.until(lambda: any(node.engine.leads for node in cluster.nodes if node is not old))
            old.line.is_cut = False
            await cluster.until(old.engine.may_answer)
        assert [(log["log_level"], log["action"]) for log in logs] == [
            ("warning", "store-failed"),
            ("info", "leads"),
            ("info", "store-works-again"),
            ("info", "follows"),
        ]


@in_loop
async def test_a_leader_whose_clock_is_behind_the_journal_says_so_and_starts_what_is_approved() -> None:
    """Its time of day stands still for an hour (N10): what is not approved waits for as long."""
    async with three() as cluster:
        old = cluster.leader
        old.clock.set_wall(3600 * MICROS)
        await ask(old, EnableScope("alone"))
        with capture_logs() as logs:
            cluster.kill(old)
            await cluster.until(lambda: any(node.engine.leads for node in cluster.nodes if node is not old))
        (said,) = [log for log in logs if log["action"] == "clock-behind-journal"]
        assert 3500 < said["seconds"] <= 3600
        leader = cluster.leader
        await ask(leader, reboot("alone"))
        assert leader.engine.clock.now().at - leader.clock.now().at > timedelta(minutes=55)
        await ask(leader, approval(None))
        await cluster.until(lambda: shown(leader.engine, "alone") == STARTED)


@in_loop
async def test_a_token_that_is_stored_and_not_shown_yet_is_answered() -> None:
    """S23: the leader is cut off between the two; the secret is in no other answer."""
    async with three() as cluster:
        leader = cluster.leader
        cluster.kill(cluster.others[0])
        request = asked("POST", "/v1/tokens", b'{"name": "new", "role": "viewer"}')
        answer = asyncio.ensure_future(Tokens(leader.engine).create(request))
        await settle()
        leader.line.is_cut = True
        await cluster.pass_time(LEASE)  # now it has no right to wait for the others
        assert (await answer).status_code == 201


def asked(method: str, path: str, body: bytes) -> Request:
    """A request of an admin, whose body was read."""
    head = {"type": "http", "method": method, "path": path, "headers": [(b"content-type", b"application/json")]}
    return Request({**head, "query_string": b"", "state": {"actor": "token/admin", "body": body}})


@in_loop
async def test_a_command_that_is_being_passed_on_when_the_node_stops_is_refused() -> None:
    async with three() as cluster:
        node = cluster.others[0]
        deaf = cluster.others[1]
        deaf.line.is_cut = True
        waiting = ask(node, EnableScope("alone"))
        await settle()
        await node.engine.stop()
        with pytest.raises(Unavailable):
            await waiting
