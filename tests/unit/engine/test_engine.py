"""The one writer: answers what is durable, shows what is durable, and forgets what is not (S5, S6, S17, S19)."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta

import pytest
import structlog

from duenotice.clock import micros
from duenotice.domain.commands import ApplyFleet, MarkClock, OperateVm, ScheduleEvent, Tick
from duenotice.domain.event import EventType
from duenotice.domain.fleet import Vm
from duenotice.domain.policy import Policy
from duenotice.domain.records import EventApproved, EventRaised, EventStarted, Record, Transition
from duenotice.domain.snapshot import take
from duenotice.engine import engine as engine_module
from duenotice.engine.engine import SELF, Engine, Records, load
from duenotice.engine.followers import Followers
from duenotice.errors import Conflict, Damaged, InvariantBroken, Misconfigured, NotFound, Refused, Unavailable
from duenotice.store.memory import MemoryJournal
from tests.unit.domain.build import HOUR, MINUTE, SECOND, VMS, declaration, id_of
from tests.unit.engine.rig import (
    BEGIN,
    FailingJournal,
    GatedJournal,
    SettableClock,
    approval,
    ask,
    cancellation,
    engine_on,
    in_loop,
    listen,
    once,
    reboot,
    running,
    shown,
)

FULL_DISK = Unavailable("The disk is full.", hint="Make room.")


def kinds(records: Sequence[Record]) -> list[type[Transition]]:
    return [type(record.transition) for record in records]


class TestAnswers:
    """A command is answered with what came of it, and only when that is durable (S5)."""

    @in_loop
    async def test_the_answer_is_the_records_with_place_time_and_actor(self) -> None:
        async with running() as engine:
            await listen(engine, "alone")
            (record,) = await engine.submit(reboot("alone"), "token/admin")
            assert record.position == engine.state.position
            assert (record.at, record.actor) == (BEGIN.at, "token/admin")
            assert isinstance(record.transition, EventRaised)

    @in_loop
    async def test_a_command_that_changes_nothing_is_answered_with_nothing(self) -> None:
        async with running() as engine:
            before = engine.state.position
            assert await ask(engine, ApplyFleet(declaration())) == ()
            assert engine.state.position == before

    @in_loop
    async def test_nothing_is_answered_or_shown_before_the_append_is_done(self) -> None:
        journal = GatedJournal()
        async with running(journal) as engine:
            await listen(engine, "alone")
            journal.gate.clear()
            journal.reached.clear()
            answer = ask(engine, reboot("alone"))
            await asyncio.to_thread(journal.reached.wait)
            assert not answer.done()  # decided, but only in memory
            assert shown(engine, "alone") == []
            assert engine.state.events == {}
            journal.gate.set()
            await answer
            assert shown(engine, "alone") == [(id_of(1), "scheduled")]

    @in_loop
    async def test_what_waits_during_a_commit_shares_the_next_one(self) -> None:
        journal = GatedJournal()
        appended: list[int] = []
        async with running(journal) as engine:
            await listen(engine, "alone", "zonal", "spot")
            engine.on_commit.append(lambda records: appended.append(len(records)))
            journal.gate.clear()
            journal.reached.clear()
            first = ask(engine, reboot("alone", 1))
            await asyncio.to_thread(journal.reached.wait)
            others = [ask(engine, reboot("zonal", 2)), ask(engine, reboot("spot", 3))]
            journal.gate.set()
            await asyncio.gather(first, *others)
            assert appended == [1, 2]

    @in_loop
    async def test_more_commands_than_a_batch_holds_are_all_answered_in_order(self) -> None:
        async with running() as engine:
            asks = [ask(engine, MarkClock(BEGIN)) for _ in range(2 * engine_module.BATCH + 1)]
            records = [(await answer)[0] for answer in asks]
            assert [record.position for record in records] == list(range(records[0].position, records[-1].position + 1))

    @in_loop
    async def test_one_who_stops_waiting_does_not_disturb_the_others(self) -> None:
        async with running() as engine:
            await listen(engine, "alone")
            impatient, patient = ask(engine, reboot("alone")), ask(engine, approval("alone"))
            impatient.cancel()
            assert kinds(await patient) == [EventApproved]


class TestRefusals:
    """What is refused has no effect, on nobody (S6)."""

    @in_loop
    async def test_a_refused_command_in_a_batch_leaves_the_others_alone(self) -> None:
        async with running() as engine:
            await listen(engine, "alone", "zonal")
            commands = (reboot("alone", 1), reboot("nobody", 2), reboot("alone", 1), reboot("zonal", 3))
            outcomes = await asyncio.gather(*(ask(engine, command) for command in commands), return_exceptions=True)
            assert [type(outcome) for outcome in outcomes] == [tuple, NotFound, Conflict, tuple]
            assert set(engine.state.events) == {id_of(1), id_of(3)}

    @in_loop
    async def test_a_refused_command_alone_writes_nothing(self) -> None:
        journal = MemoryJournal()
        async with running(journal) as engine:
            before = journal.last_position()
            with pytest.raises(NotFound):
                await ask(engine, reboot("nobody"))
            assert journal.last_position() == before

    @in_loop
    async def test_an_end_that_no_calendar_has_is_refused_and_the_service_goes_on(self) -> None:
        """S23: odd input is the operator's mistake, never the end of the engine."""
        async with running() as engine:
            far = ScheduleEvent(id_of(1), EventType.REBOOT, ("alone",), datetime.max.replace(tzinfo=UTC))
            with pytest.raises(Refused):
                await ask(engine, far)
            assert not engine.failed.done()


class TestFailingCommits:
    """If the append fails, memory is thrown away and folded again: it is as if nothing had been asked (S6)."""

    @in_loop
    async def test_the_command_fails_nothing_is_visible_and_the_next_one_works(self) -> None:
        journal = FailingJournal()
        async with running(journal) as engine:
            await listen(engine, "alone")
            before, position = take(engine.state), journal.last_position()
            journal.failures = [FULL_DISK]
            with pytest.raises(Unavailable, match="The disk is full") as failure:
                await ask(engine, reboot("alone"))
            assert failure.value.hint == "Make room."
            assert take(engine.state) == before
            assert journal.last_position() == position
            assert shown(engine, "alone") == []
            assert kinds(await ask(engine, reboot("alone"))) == [EventRaised]
            assert shown(engine, "alone") == [(id_of(1), "scheduled")]

    @in_loop
    async def test_all_of_the_batch_fail_together(self) -> None:
        journal = FailingJournal()
        async with running(journal) as engine:
            await listen(engine, "alone")
            journal.failures = [FULL_DISK]
            asks = [ask(engine, reboot("alone")), ask(engine, approval("alone")), ask(engine, reboot("nobody", 2))]
            outcomes = await asyncio.gather(*asks, return_exceptions=True)
            assert [type(outcome) for outcome in outcomes] == [Unavailable] * 3
            assert not engine.state.events

    @in_loop
    async def test_what_the_journal_kept_after_all_is_shown_and_took_effect_once(self) -> None:
        """A failure that lies: the records are stored. What timed out took effect at most once (S6)."""
        journal = FailingJournal()
        async with running(journal) as engine:
            await listen(engine, "alone")
            journal.failures, journal.kept = [FULL_DISK], True
            with pytest.raises(Unavailable):
                await ask(engine, reboot("alone"))
            assert shown(engine, "alone") == [(id_of(1), "scheduled")]
            with pytest.raises(Conflict):
                await ask(engine, reboot("alone"))

    @in_loop
    async def test_even_if_that_was_the_end_of_a_vm_that_somebody_had_asked_for(self) -> None:
        journal = FailingJournal()
        async with running(journal) as engine:
            await listen(engine, "alone")
            await ask(engine, reboot("alone"))
            await ask(engine, cancellation())
            assert shown(engine, "alone") == []
            journal.failures, journal.kept = [FULL_DISK], True
            with pytest.raises(Unavailable):
                await ask(engine, OperateVm(id_of(2), "alone", EventType.TERMINATE))
            assert not engine.failed.done()
            assert "alone" not in engine.publisher.state.fleet.vms

    @pytest.mark.parametrize("trouble", [Damaged("The journal is torn."), Misconfigured("Of a newer one, not torn.")])
    @in_loop
    async def test_a_journal_that_cannot_even_be_read_again_stops_the_engine(self, trouble: Misconfigured) -> None:
        journal = FailingJournal()
        async with running(journal) as engine:
            await listen(engine, "alone")
            journal.failures, journal.read_failures = [FULL_DISK], [trouble]
            with pytest.raises(Unavailable):
                await ask(engine, reboot("alone"))
            assert "torn" in (await engine.failed).message
            assert shown(engine, "alone") == []
            with pytest.raises(Unavailable, match="The service has stopped"):
                await ask(engine, reboot("alone"))

    @pytest.mark.parametrize("kept", [False, True])
    @in_loop
    async def test_a_journal_that_is_away_is_asked_again_until_it_is_back(self, kept: bool) -> None:
        """A database that was restarted: meanwhile nothing is done, then what it holds counts (S6, N15)."""
        journal = FailingJournal()
        async with running(journal) as engine:
            await listen(engine, "alone", "zonal")
            away = Unavailable("The database does not answer.")
            journal.failures, journal.kept, journal.read_failures = [away], kept, [away, away]
            for number in (1, 2):
                with pytest.raises(Unavailable, match="does not answer"):
                    await ask(engine, reboot("alone", number))
                assert (shown(engine, "alone"), engine.behind) == ([], True)
            assert not engine.failed.done()
            await ask(engine, reboot("zonal", 3))
            assert (shown(engine, "zonal"), engine.behind) == ([(id_of(3), "scheduled")], False)
            assert shown(engine, "alone") == ([(id_of(1), "scheduled")] if kept else [])
            assert take(load(journal)) == take(engine.state)

    @in_loop
    async def test_a_journal_that_comes_back_damaged_stops_the_engine(self) -> None:
        journal = FailingJournal()
        async with running(journal) as engine:
            await listen(engine, "alone")
            away, torn = Unavailable("The database does not answer."), Damaged("It has lost records.")
            journal.failures, journal.read_failures = [away], [away, torn]
            for number in (1, 2):
                with pytest.raises(Unavailable):
                    await ask(engine, reboot("alone", number))
            assert "lost records" in (await engine.failed).message


class TestFaultsOfOurs:
    """An error that is none of ours means that memory cannot be trusted: everybody is told, nobody waits."""

    @in_loop
    async def test_the_commands_that_wait_fail_and_later_ones_are_refused(self) -> None:
        journal = FailingJournal()
        async with running(journal) as engine:
            await listen(engine, "alone")
            journal.failures = [ZeroDivisionError("a bug")]
            asks = [ask(engine, reboot("alone", number)) for number in range(engine_module.BATCH + 1)]
            outcomes = await asyncio.gather(*asks, return_exceptions=True)
            assert {type(outcome) for outcome in outcomes} == {InvariantBroken}
            assert "a bug" in str(outcomes[0])
            with pytest.raises(Unavailable, match="The service has stopped"):
                await ask(engine, reboot("alone"))

    @in_loop
    async def test_the_process_is_told_why(self) -> None:
        journal = FailingJournal()
        async with running(journal) as engine:
            journal.failures = [ZeroDivisionError("a bug")]
            with pytest.raises(InvariantBroken):
                await ask(engine, MarkClock(BEGIN))
            assert isinstance(await engine.failed, InvariantBroken)

    @in_loop
    async def test_readers_keep_what_was_durable(self) -> None:
        journal = FailingJournal()
        async with running(journal) as engine:
            await listen(engine, "alone")
            await ask(engine, reboot("alone"))
            journal.failures = [ZeroDivisionError("a bug")]
            with pytest.raises(InvariantBroken):
                await ask(engine, cancellation())
            assert shown(engine, "alone") == [(id_of(1), "scheduled")]

    @in_loop
    async def test_stopping_a_broken_engine_leaves_no_snapshot_of_its_memory(self) -> None:
        journal = FailingJournal()
        async with running(journal) as engine:
            journal.failures = [ZeroDivisionError("a bug")]
            with pytest.raises(InvariantBroken):
                await ask(engine, MarkClock(BEGIN))
        assert journal.snapshot() is None
        assert journal.closed


class TestAtOnce:
    """Several at once: one winner, everyone agrees."""

    @in_loop
    async def test_two_approvals_of_one_event_are_one(self) -> None:
        """S17: both are told yes, the event starts once."""
        journal = MemoryJournal()
        async with running(journal) as engine:
            await listen(engine, "web-0")
            await ask(engine, reboot("web-0"))
            both = await asyncio.gather(ask(engine, approval("web-1")), ask(engine, approval("web-3")))
            assert sorted(len(records) for records in both) == [0, 1]
        assert kinds(list(journal.read(0))).count(EventApproved) == 1
        assert kinds(list(journal.read(0))).count(EventStarted) == 1

    @in_loop
    async def test_of_cancel_and_approve_the_first_wins_and_the_other_is_told(self) -> None:
        """S19: cancelled first, there is nothing left to approve."""
        async with running() as engine:
            await listen(engine, "alone")
            await ask(engine, reboot("alone"))
            cancelled, approved = await asyncio.gather(
                ask(engine, cancellation()), ask(engine, approval("alone")), return_exceptions=True
            )
            assert (type(cancelled), approved) == (tuple, ())  # C03: gone, and so without effect
            assert shown(engine, "alone") == []

    @in_loop
    async def test_of_approve_and_cancel_in_one_batch_the_cancel_comes_before_the_start(self) -> None:
        """S19: an approval lets it start, and until it has started it can be taken back."""
        journal = MemoryJournal()
        async with running(journal) as engine:
            await listen(engine, "alone")
            await ask(engine, reboot("alone"))
            await asyncio.gather(ask(engine, approval("alone")), ask(engine, cancellation()))
            assert shown(engine, "alone") == []
        assert EventStarted not in kinds(list(journal.read(0)))

    @in_loop
    async def test_after_the_start_a_cancel_is_told_that_it_is_too_late(self) -> None:
        async with running() as engine:
            await listen(engine, "alone")
            await ask(engine, reboot("alone"))
            await ask(engine, approval("alone"))
            with pytest.raises(Conflict, match="already started"):
                await ask(engine, cancellation())
            assert shown(engine, "alone") == [(id_of(1), "started")]

    @in_loop
    async def test_an_approval_and_the_start_it_brings_are_one_commit(self) -> None:
        """Nobody sees an event that is approved but does not start."""
        commits: list[list[type[Transition]]] = []
        async with running() as engine:
            await listen(engine, "alone")
            await ask(engine, reboot("alone"))
            engine.on_commit.append(lambda records: commits.append(kinds(records)))
            assert kinds(await ask(engine, approval("alone"))) == [EventApproved]
            assert commits == [[EventApproved, EventStarted]]


class TestRestart:
    """A new engine on the same journal is where the old one was (S3, S5)."""

    @in_loop
    async def test_everything_answered_is_there_again(self) -> None:
        journal = MemoryJournal()
        async with running(journal) as engine:
            await listen(engine, "alone", "web-0")
            await ask(engine, reboot("alone"))
            await ask(engine, approval("alone"))
            before = take(engine.state)
        async with running(journal) as again:
            after = take(again.state)
            assert (after.events, after.scopes, after.vms) == (before.events, before.scopes, before.vms)
            assert shown(again, "alone") == [(id_of(1), "started")]

    @in_loop
    async def test_without_a_snapshot_the_records_alone_tell_the_same(self) -> None:
        """A kill -9 leaves no snapshot."""
        journal = MemoryJournal()
        engine = engine_on(journal)
        engine.start()
        await ask(engine, ApplyFleet(declaration()))
        await ask(engine, reboot("alone"))
        assert journal.snapshot() is None
        assert take(load(journal)) == take(engine.state)
        await engine.stop()

    @in_loop
    async def test_stopping_writes_down_the_clock_and_a_snapshot_of_everything(self) -> None:
        journal = MemoryJournal()
        async with running(journal) as engine:
            pass
        snapshot = journal.snapshot()
        assert snapshot is not None
        assert snapshot == take(engine.state)
        assert (snapshot.position, snapshot.mark) == (journal.last_position(), BEGIN)

    @in_loop
    async def test_stopping_answers_what_was_asked_before(self) -> None:
        journal = MemoryJournal()
        engine = engine_on(journal)
        engine.start()
        asks = [ask(engine, MarkClock(BEGIN)) for _ in range(engine_module.BATCH + 1)]
        await engine.stop()
        assert all(answer.done() for answer in asks)

    @in_loop
    async def test_a_journal_that_fails_at_the_end_is_let_go_all_the_same(self) -> None:
        """Whoever comes next must be able to open it."""
        journal = FailingJournal()
        engine = engine_on(journal)
        engine.start()
        journal.failures = [FULL_DISK]
        with contextlib.suppress(Unavailable):
            await engine.stop()
        assert journal.closed

    @in_loop
    async def test_who_comes_after_the_end_is_told_so(self) -> None:
        async with running() as engine:
            pass
        with pytest.raises(Unavailable):
            await asyncio.wait_for(ask(engine, MarkClock(BEGIN)), 0.2)

    @in_loop
    async def test_a_long_journal_gets_a_snapshot_when_nobody_waits(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(engine_module, "SNAPSHOT_EVERY", 5)
        journal = MemoryJournal()
        async with running(journal) as engine:
            for _ in range(6):
                await ask(engine, MarkClock(BEGIN))
            await once(lambda: journal.snapshot() is not None)

    @in_loop
    async def test_upkeep_that_fails_is_put_off_and_nobody_notices(self) -> None:
        journal = UntidyJournal(Unavailable("Busy."))
        async with running(journal) as engine:
            await once(lambda: journal.tried)
            assert await ask(engine, MarkClock(BEGIN))


class TestListeners:
    """Who wants to hear of commits hears of each once, after it."""

    @in_loop
    async def test_a_listener_hears_what_was_committed_and_nothing_that_failed(self) -> None:
        journal = FailingJournal()
        heard: list[Record] = []
        async with running(journal) as engine:
            engine.on_commit.append(heard.extend)
            journal.failures = [FULL_DISK]
            with pytest.raises(Unavailable):
                await ask(engine, MarkClock(BEGIN))
            assert heard == []
            answer = await ask(engine, MarkClock(BEGIN))
            assert tuple(heard) == answer

    @in_loop
    async def test_what_time_brings_about_is_done_in_the_name_of_the_service(self) -> None:
        heard: list[Record] = []
        async with running() as engine:
            engine.on_commit.append(heard.extend)
            await ask(engine, reboot("alone"))  # nobody listens: it starts at once
            assert [(record.actor, type(record.transition)) for record in heard] == [
                ("test", EventRaised),
                (SELF, EventStarted),
            ]


class FullDisk:
    """A log that cannot be written."""

    def msg(self, message: str) -> None:
        raise OSError(28, "No space left on device")

    debug = info = warning = error = exception = critical = msg


class UntidyJournal(FailingJournal):
    """Upkeep fails with this error."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error
        self.tried = False

    def needs_upkeep(self) -> bool:
        return True

    def maintain(self) -> None:
        self.tried = True
        raise self.error


class SlowJournal(FailingJournal):
    """The next appends take these seconds each, and fail where told to; readers are watched meanwhile."""

    def __init__(self, clock: SettableClock) -> None:
        super().__init__()
        self.clock = clock
        self.takes: list[float] = []
        self.look: Callable[[], None] = lambda: None

    def append(self, records: Sequence[Record]) -> None:
        self.look()
        self.clock.pass_by(micros(self.takes.pop(0)) if self.takes else 0)
        super().append(records)


class TestSlowCommits:
    """A VM is told only when the commit is done: what that took must not come out of its notice (S2)."""

    @pytest.mark.parametrize("takes", [[1.0], [7.5], [1000.0], [7.5, 7.5], [5.0] * 9])
    @in_loop
    async def test_nobody_ever_sees_less_than_the_minimum_notice(self, takes: list[float]) -> None:
        """However slow the commit is, and the one that makes up for it."""
        clock = SettableClock()
        journal = SlowJournal(clock)
        async with running(journal, clock, Policy(commit_allowance=SECOND)) as engine:
            await listen(engine, "alone")
            journal.takes, journal.look = list(takes), lambda: self._check_nothing_shown(engine)
            await ask(engine, reboot("alone"))
            journal.look = lambda: None
            assert self._notice(engine) >= timedelta(minutes=15)
            (event,) = engine.state.events.values()
            assert event.notice_ends - clock.now().steady >= 15 * MINUTE

    @in_loop
    async def test_a_process_that_dies_before_it_was_seen_leaves_the_notice_to_the_next(self) -> None:
        """An event that nobody was told of starts no sooner than if it were raised now."""
        clock = SettableClock()
        journal = SlowJournal(clock)
        async with running(journal, clock) as engine:
            await listen(engine, "alone")
            seen = journal.seen
            await ask(engine, reboot("alone"))
        journal.seen = seen  # as if the process had died right after the commit
        clock.pass_by(HOUR)
        async with running(journal, clock) as engine:
            await ask(engine, MarkClock(BEGIN))
            assert shown(engine, "alone") == [(id_of(1), "scheduled")]
            assert self._notice(engine) >= timedelta(minutes=15)

    @in_loop
    async def test_what_was_seen_is_not_put_off_by_a_restart(self) -> None:
        clock, journal = SettableClock(), MemoryJournal()
        async with running(journal, clock) as engine:
            await listen(engine, "alone")
            await ask(engine, reboot("alone"))
            told = self._notice(engine)
        clock.pass_by(10 * MINUTE)
        async with running(journal, clock) as engine:
            await ask(engine, MarkClock(BEGIN))
            assert self._notice(engine) == told - timedelta(seconds=600)

    @in_loop
    async def test_if_the_notice_cannot_be_given_back_the_event_stays_hidden_until_it_can(self) -> None:
        """The raise is stored late, the postponement is not stored at all: readers see neither, until a tick."""
        clock = SettableClock()
        journal = SlowJournal(clock)
        async with running(journal, clock) as engine:
            await listen(engine, "alone")
            journal.takes, journal.failures, journal.kept = [60.0], [FULL_DISK], True
            with pytest.raises(Unavailable):
                await ask(engine, reboot("alone"))
            assert (shown(engine, "alone"), engine.behind) == ([], True)
            journal.failures, journal.kept = [FULL_DISK], False
            with pytest.raises(Unavailable):
                await ask(engine, Tick())
            assert (shown(engine, "alone"), engine.behind) == ([], True)
            await ask(engine, Tick())
            assert (shown(engine, "alone"), engine.behind) == ([(id_of(1), "scheduled")], False)
            assert self._notice(engine) >= timedelta(minutes=15)
            assert take(load(journal)) == take(engine.state)

    def _notice(self, engine: Engine) -> timedelta:
        (event,) = engine.publisher.open_page_of(engine.publisher.state.fleet.vms["alone"]).document.events
        return event.not_before - engine.clock.now().at

    def _check_nothing_shown(self, engine: Engine) -> None:
        assert shown(engine, "alone") == []


class TestWhenNothingCanBeLogged:
    """A full log disk is not the end of the engine, and keeps nobody waiting."""

    @pytest.fixture(autouse=True)
    def full_disk(self) -> Iterator[None]:
        structlog.configure(logger_factory=lambda *_: FullDisk())
        yield
        structlog.reset_defaults()

    @in_loop
    async def test_commits_go_on(self) -> None:
        engine = engine_on(MemoryJournal())
        engine.start()
        engine.on_commit.append(lambda records: FullDisk().msg("changed"))
        for _ in range(2):
            assert await soon(ask(engine, MarkClock(BEGIN)))

    @in_loop
    async def test_a_commit_that_fails_for_the_same_reason_is_recovered_from(self) -> None:
        """Log and journal on one disk fill up together; once there is room again, the engine works."""
        journal = FailingJournal()
        engine = engine_on(journal)
        engine.start()
        journal.failures = [FULL_DISK]
        with pytest.raises(Unavailable):
            await soon(ask(engine, MarkClock(BEGIN)))
        assert await soon(ask(engine, MarkClock(BEGIN)))

    @in_loop
    async def test_upkeep_that_fails_is_put_off(self) -> None:
        journal = UntidyJournal(Unavailable("Busy."))
        engine = engine_on(journal)
        engine.start()
        assert await soon(ask(engine, MarkClock(BEGIN)))
        await once(lambda: journal.tried)
        assert await soon(ask(engine, MarkClock(BEGIN)))


@in_loop
async def test_upkeep_that_breaks_keeps_nobody_from_their_answer() -> None:
    """Every record is safe without it."""
    journal = UntidyJournal(ZeroDivisionError("a bug"))
    engine = engine_on(journal)
    engine.start()
    await soon(ask(engine, MarkClock(BEGIN)))
    await once(lambda: journal.tried)
    assert await soon(ask(engine, MarkClock(BEGIN)))


async def soon(answer: "asyncio.Future[Records]") -> Records:
    """An answer that must not be long in coming."""
    return await asyncio.wait_for(answer, 0.5)


@in_loop
async def test_a_fleet_of_thousands_is_one_commit() -> None:
    commits: list[int] = []
    async with running() as engine:
        engine.on_commit.append(lambda records: commits.append(len(records)))
        many = [Vm(f"vm-{n}", f"10.1.{n // 250}.{n % 250}") for n in range(2500)]
        await ask(engine, ApplyFleet(declaration(*VMS, *many, digest="many")))
        assert commits == [4]
        assert len(engine.publisher.state.fleet.vms) == 2500 + len(VMS)


@in_loop
async def test_nothing_counts_as_seen_before_vms_can_read_it() -> None:
    """Else a start that fails leaves nothing new to the next one, which does not wait for old followers (S27)."""
    journal = MemoryJournal()
    async with running(journal) as engine:
        before = journal.seen
        engine.below = followers = Followers(engine.state.position)
        await listen(engine, "alone")
        assert journal.seen == before < journal.last_position()
        await followers.open(had_followers=False)
        engine.opened()
        assert journal.seen == journal.last_position()
        await ask(engine, ScheduleEvent(id_of(1), EventType.REBOOT, ("alone",)))
        assert journal.seen == journal.last_position()
