"""Time passes: everything happens in its moment, nothing early, whatever the wall clock does (S1, F02)."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from duenotice.clock import ManualClock, Mark, ScaledClock, SystemClock
from duenotice.domain.commands import StartMaintenance, Tick
from duenotice.domain.event import EventType, Phase
from duenotice.domain.plan import Status, StepStatus
from duenotice.domain.records import (
    ClockMarked,
    EventCompleted,
    EventPostponed,
    EventStarted,
    FleetDeclared,
    Record,
    ScopeDisabled,
)
from duenotice.engine import writer
from duenotice.engine.engine import SELF, Engine
from duenotice.engine.ticker import Ticker
from duenotice.errors import Refused, Unavailable
from duenotice.store.memory import MemoryJournal
from tests.unit.domain.build import DAY, EVERYBODY, HOUR, MINUTE, NOW, SECOND, id_of
from tests.unit.engine.rig import (
    FailingJournal,
    GatedJournal,
    SettableClock,
    approval,
    ask,
    cancellation,
    in_loop,
    listen,
    once,
    reboot,
    running,
    shown,
)


def heard_by(engine: Engine) -> list[Record]:
    """All records committed from now on."""
    heard: list[Record] = []
    engine.on_commit.append(heard.extend)
    return heard


def moments(heard: list[Record]) -> list[tuple[type, float]]:
    """What happened when, in minutes from the beginning; marks left out."""
    return [
        (type(record.transition), (record.at - NOW.at).total_seconds() / 60)
        for record in heard
        if not isinstance(record.transition, ClockMarked)
    ]


class TestAdvance:
    """A manual clock is told how much time passes, and stops at each due moment on the way."""

    @in_loop
    async def test_an_event_starts_at_its_not_before_and_is_gone_ten_minutes_later(self) -> None:
        async with running() as engine:
            await listen(engine, "alone")
            await ask(engine, reboot("alone"))
            heard = heard_by(engine)
            await Ticker(engine).advance(25 * MINUTE)
            assert moments(heard) == [(EventStarted, 15), (EventCompleted, 25)]
            assert isinstance(heard[0].transition, EventStarted)
            started = heard[0].transition.event
            assert started.started_at == started.not_before == NOW.at + timedelta(minutes=15)
            assert shown(engine, "alone") == []

    @in_loop
    async def test_a_moment_less_and_it_is_still_there(self) -> None:
        async with running() as engine:
            await listen(engine, "alone")
            await ask(engine, reboot("alone"))
            ticker = Ticker(engine)
            await ticker.advance(15 * MINUTE - 1)
            assert shown(engine, "alone") == [(id_of(1), "scheduled")]
            await ticker.advance(1)
            assert shown(engine, "alone") == [(id_of(1), "started")]
            await ticker.advance(10 * MINUTE - 1)
            assert shown(engine, "alone") == [(id_of(1), "started")]

    @in_loop
    async def test_in_one_stride_or_in_many_the_same_happens_at_the_same_moments(self) -> None:
        told = []
        for strides in ([2 * HOUR], [SECOND // 10] * 100 + [SECOND] * 990 + [6200 * SECOND]):
            async with running() as engine:
                await listen(engine, "alone", "web-0")
                await ask(engine, reboot("web-0", 1))
                await ask(engine, reboot("web-1", 2))
                await ask(engine, reboot("alone", 3))
                heard, ticker = heard_by(engine), Ticker(engine)
                for stride in strides:
                    await ticker.advance(stride)
                told.append(moments(heard))
        assert told[0] == told[1]

    @in_loop
    async def test_update_domains_follow_each_other(self) -> None:
        """The second starts in the very moment that the first is over (S11)."""
        async with running() as engine:
            await listen(engine, "web-0")
            await ask(engine, reboot("web-0", 1))
            await ask(engine, reboot("web-1", 2))
            heard = heard_by(engine)
            await Ticker(engine).advance(HOUR)
            assert moments(heard) == [
                (EventStarted, 15),
                (EventCompleted, 25),
                (EventStarted, 25),
                (EventCompleted, 35),
            ]

    @in_loop
    async def test_what_was_taken_back_does_not_happen(self) -> None:
        async with running() as engine:
            await listen(engine, "alone")
            await ask(engine, reboot("alone"))
            await ask(engine, cancellation())
            heard = heard_by(engine)
            await Ticker(engine).advance(DAY)
            assert [kind for kind, _ in moments(heard)] == [ScopeDisabled]

    @in_loop
    async def test_silent_scopes_are_turned_off_after_a_day(self) -> None:
        async with running() as engine:
            await listen(engine, "alone", "zonal")
            ticker = Ticker(engine)
            await ticker.advance(DAY - SECOND)
            engine.publisher.open_page_of(
                engine.publisher.state.fleet.vms["zonal"]
            ).last_poll = engine.clock.now().steady
            await ticker.advance(SECOND)
            assert (engine.state.enabled("vm/alone"), engine.state.enabled("vm/zonal")) == (False, True)

    @in_loop
    async def test_the_clock_is_written_down_and_a_restart_goes_on_from_there(self) -> None:
        """A manual clock does not go back, even after a kill -9."""
        journal = MemoryJournal()
        async with running(journal) as engine:
            await listen(engine, "alone")
            await ask(engine, reboot("alone"))
            await Ticker(engine).advance(10 * MINUTE)
            mark = engine.state.mark
        assert mark == Mark(*NOW.after(600 * SECOND))
        async with running(journal, ManualClock(mark)) as again:
            assert again.clock.now() == NOW.after(600 * SECOND)
            await Ticker(again).advance(5 * MINUTE)
            assert shown(again, "alone") == [(id_of(1), "started")]

    @in_loop
    async def test_any_other_clock_cannot_be_told(self) -> None:
        for clock, name in ((SystemClock(), "real"), (ScaledClock(60.0), "60x")):
            async with running(clock=clock) as engine:
                with pytest.raises(Refused, match=f"The clock is {name}") as refusal:
                    await Ticker(engine).advance(SECOND)
                assert refusal.value.hint == "Use --clock manual."


class TestWallClock:
    """The time of day may jump; nothing starts early because of it, and late only if it was set back (S1)."""

    @in_loop
    async def test_a_jump_forward_starts_nothing_early(self) -> None:
        clock = SettableClock()
        async with running(clock=clock) as engine:
            await listen(engine, "alone")
            await ask(engine, reboot("alone"))
            clock.set_wall(by=DAY)
            await ask(engine, Tick())
            assert shown(engine, "alone") == [(id_of(1), "scheduled")]
            clock.pass_by(15 * MINUTE - 1)
            await ask(engine, Tick())
            assert shown(engine, "alone") == [(id_of(1), "scheduled")]
            clock.pass_by(1)
            await ask(engine, Tick())
            assert shown(engine, "alone") == [(id_of(1), "started")]

    @in_loop
    async def test_a_jump_back_only_delays(self) -> None:
        clock = SettableClock()
        async with running(clock=clock) as engine:
            await listen(engine, "alone")
            await ask(engine, reboot("alone"))
            clock.set_wall(by=-HOUR)
            clock.pass_by(15 * MINUTE)
            await ask(engine, Tick())
            assert shown(engine, "alone") == [(id_of(1), "scheduled")]
            clock.pass_by(HOUR)
            await ask(engine, Tick())
            assert shown(engine, "alone") == [(id_of(1), "started")]

    @in_loop
    async def test_a_jump_neither_shortens_nor_prolongs_the_impact(self) -> None:
        clock = SettableClock()
        async with running(clock=clock) as engine:
            await listen(engine, "alone")
            await ask(engine, reboot("alone"))
            await ask(engine, approval("alone"))
            clock.set_wall(by=DAY)
            await ask(engine, Tick())
            assert shown(engine, "alone") == [(id_of(1), "started")]
            clock.set_wall(by=-2 * DAY)
            clock.pass_by(10 * MINUTE)
            await ask(engine, Tick())
            assert shown(engine, "alone") == []

    @in_loop
    async def test_notice_given_after_a_jump_counts_from_the_new_time_of_day(self) -> None:
        clock = SettableClock()
        async with running(clock=clock) as engine:
            await listen(engine, "alone")
            clock.set_wall(by=DAY)
            await ask(engine, reboot("alone"))
            event = engine.state.events[id_of(1)]
            assert event.not_before == NOW.at + timedelta(days=1, minutes=15)
            assert event.notice_ends == NOW.steady + 900 * SECOND


class TestAbsence:
    """Time in which nobody could be answered is made up for before anything else happens (S25)."""

    @in_loop
    async def test_what_waits_says_when_its_notice_ends_now_before_anything_starts(self) -> None:
        clock = SettableClock()
        async with running(clock=clock) as engine:
            await listen(engine, "alone", "zonal")
            await two_events(engine, clock)
            clock.set_wall(by=HOUR)
            heard, ticker = heard_by(engine), Ticker(engine)
            ticker.absent(HOUR)
            with capture_logs() as logged:
                ticker.start()
                await once(lambda: logged)
            await ticker.stop()
            postponed, started = (record.transition for record in heard)
            assert isinstance(postponed, EventPostponed)
            assert isinstance(started, EventStarted)
            assert (postponed.event.id, started.event.id) == (id_of(2), id_of(1))
            assert postponed.event.not_before == NOW.at + timedelta(hours=1, minutes=20)
            assert [(line["action"], line["events"]) for line in logged] == [("notice-made-up-for", 1)]

    @in_loop
    async def test_it_is_made_up_for_once_the_disk_is_well_again(self) -> None:
        clock, journal = SettableClock(), FailingJournal()
        async with running(journal, clock) as engine:
            await listen(engine, "alone")
            await ask(engine, reboot("alone"))
            clock.set_wall(by=HOUR)
            journal.failures = [Unavailable("The disk is full.")] * 2
            ticker = Ticker(engine)
            ticker.absent(HOUR)
            ticker.start()
            await once(lambda: engine.state.events[id_of(1)].not_before == NOW.at + timedelta(hours=1, minutes=15))
            await ticker.stop()

    @in_loop
    async def test_an_absence_that_comes_while_it_looks_is_not_forgotten(self) -> None:
        """This clock never wakes it by itself."""
        clock, journal = SettableClock(), GatedJournal()
        clock.speed = 0.0
        async with running(journal, clock) as engine:
            await listen(engine, "alone", "zonal")
            await two_events(engine, clock)
            journal.reached.clear()
            journal.gate.clear()
            ticker = Ticker(engine)
            ticker.start()
            await once(journal.reached.is_set)
            clock.set_wall(by=HOUR)
            ticker.absent(HOUR)
            journal.gate.set()
            await once(lambda: engine.state.events[id_of(2)].not_before == NOW.at + timedelta(hours=1, minutes=20))
            await ticker.stop()


async def two_events(engine: Engine, clock: SettableClock) -> None:
    """The notice of the first is over; the second has five minutes left."""
    await ask(engine, reboot("zonal", 1))
    clock.pass_by(5 * MINUTE)
    await ask(engine, reboot("alone", 2))
    clock.pass_by(10 * MINUTE)


class TestWaiting:
    """The loop that looks when something is due, and is woken when that changes."""

    @in_loop
    async def test_what_is_due_already_is_done_at_once(self) -> None:
        clock = SettableClock()
        async with running(clock=clock) as engine:
            await listen(engine, "alone")
            await ask(engine, reboot("alone"))
            clock.pass_by(15 * MINUTE)
            ticker = Ticker(engine)
            ticker.start()
            await once(lambda: engine.state.events[id_of(1)].phase is Phase.STARTED)
            await ticker.stop()

    @in_loop
    async def test_a_change_wakes_it_before_its_sleep_is_over(self) -> None:
        """On a manual clock it sleeps for ever, unless woken."""
        async with running() as engine:
            await listen(engine, "alone")
            ticker = Ticker(engine)
            ticker.start()
            await once(lambda: not engine.changed.is_set())
            await ask(engine, reboot("alone"))
            await once(lambda: not engine.changed.is_set())
            assert engine.clock.now() == NOW
            await ticker.stop()

    @in_loop
    async def test_silent_scopes_are_looked_for_every_ten_minutes(self) -> None:
        clock = SettableClock()
        async with running(clock=clock) as engine:
            await listen(engine, "alone")
            ticker = Ticker(engine)
            clock.pass_by(DAY)
            ticker.start()
            await once(lambda: not engine.state.enabled("vm/alone"))
            await ticker.stop()

    @in_loop
    async def test_a_scaled_clock_is_written_down_now_and_then(self) -> None:
        """So that a kill -9 sets it back by a minute at the most."""
        clock = SettableClock()
        clock.speed = 60.0
        async with running(clock=clock) as engine:
            heard = heard_by(engine)
            ticker = Ticker(engine)
            clock.pass_by(HOUR)
            ticker.start()
            await once(lambda: bool(heard))
            await ticker.stop()
            assert heard[0].transition == ClockMarked(Mark(*NOW.after(HOUR)))
            assert heard[0].actor == SELF

    @in_loop
    async def test_a_failed_commit_does_not_end_it(self) -> None:
        """What was due is still due at the next look."""
        clock, journal = SettableClock(), FailingJournal()
        async with running(journal, clock) as engine:
            await listen(engine, "alone")
            await ask(engine, reboot("alone"))
            clock.pass_by(15 * MINUTE)
            journal.failures = [Unavailable("The disk is full.")] * 2
            ticker = Ticker(engine)
            ticker.start()
            await once(lambda: engine.state.events[id_of(1)].phase is Phase.STARTED)
            await ticker.stop()

    @in_loop
    async def test_after_a_disk_that_was_full_for_a_while_it_is_as_quick_as_before(self) -> None:
        """It does not wait longer from one try to the next: five tries fit into the time that this test has."""
        clock, journal = SettableClock(), FailingJournal()
        async with running(journal, clock) as engine:
            await listen(engine, "alone")
            await ask(engine, reboot("alone"))
            clock.pass_by(15 * MINUTE)
            journal.failures = [Unavailable("The disk is full.")] * 5
            ticker = Ticker(engine)
            ticker.start()
            await once(lambda: engine.state.events[id_of(1)].phase is Phase.STARTED and not journal.failures)
            await ticker.stop()

    @in_loop
    async def test_it_can_be_stopped_before_it_was_started_and_twice(self) -> None:
        async with running() as engine:
            ticker = Ticker(engine)
            await ticker.stop()
            ticker.start()
            await asyncio.sleep(0)
            await ticker.stop()
            await ticker.stop()
            assert await ask(engine, Tick()) == ()


class TestMuchAtOnce:
    """More is due than one commit should hold."""

    @in_loop
    async def test_it_is_done_in_several_commits_and_nothing_is_left(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(writer, "MOST_AT_ONCE", 3)
        journal = CountingJournal()
        async with running(journal) as engine:
            await listen(engine, *EVERYBODY)
            await ask(engine, StartMaintenance(id_of(9), EventType.REBOOT, EVERYBODY))
            ticker = Ticker(engine)
            await ticker.advance(HOUR)
            assert [plan.status for plan in engine.state.maintenances.values()] == [Status.DONE]
            assert max(journal.sizes) <= 5  # what has begun is done: an end moves its VMs as well
            assert not engine.behind

    @in_loop
    async def test_a_command_waits_for_one_commit_and_not_for_all_that_is_due(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(writer, "MOST_AT_ONCE", 1)
        async with running() as engine:
            await ask(engine, StartMaintenance(id_of(9), EventType.REBOOT, EVERYBODY))
            waiting = sum(step.status is StepStatus.WAITING for step in engine.state.maintenances[id_of(9)].steps)
            assert (waiting > 0, engine.behind) == (True, True)


class CountingJournal(MemoryJournal):
    """Knows how many records each commit had, once the fleet is there."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def append(self, records: Sequence[Record]) -> None:
        if not any(isinstance(record.transition, FleetDeclared) for record in records):
            self.sizes.append(len(records))
        super().append(records)
