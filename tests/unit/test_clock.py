"""Clocks: two faces of an instant, going on after a restart, and standing still with who answers (S1, S3, S25)."""

import time
from datetime import UTC, datetime, timedelta
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duenotice import clock as clock_module
from duenotice.clock import (
    LAST_READABLE,
    LONGEST_PAUSE,
    MICROS,
    Alive,
    Instant,
    ManualClock,
    Mark,
    ScaledClock,
    SystemClock,
    boot_id,
    clock_from_name,
    later,
    micros,
    micros_of,
    seconds,
    survive_every_year,
)

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


class Machine:
    """The machine under the clocks: its wall, its time since boot, its boot."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wall, self.micros, self.boot = NOON, 5000 * MICROS, "boot-1"
        monkeypatch.setattr(clock_module, "wall", lambda: self.wall)
        monkeypatch.setattr(clock_module, "boot_micros", lambda: self.micros)
        monkeypatch.setattr(clock_module, "_monotonic_micros", lambda: self.micros)
        monkeypatch.setattr(clock_module, "boot_id", lambda: self.boot)

    def pass_by(self, seconds: float) -> None:
        self.wall += timedelta(seconds=seconds)
        self.micros += micros(seconds)

    def reboot(self, took: float) -> None:
        self.wall += timedelta(seconds=took)
        self.micros, self.boot = 3 * MICROS, "boot-2"


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def test_later_ends_with_the_last_moment_that_a_document_can_show() -> None:
    last = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    assert later(last - timedelta(days=1), timedelta(hours=1)) == last - timedelta(hours=23)
    assert later(last, timedelta(days=1)) == last
    assert Instant(last, 5).after(7) == Instant(last, 12)


@pytest.mark.parametrize(
    ("at", "steady", "come"), [(0, 0, True), (-1, 0, False), (0, -1, False), (10**9, -1, False), (-1, 10**9, False)]
)
def test_a_moment_has_come_when_both_faces_say_so(at: int, steady: int, come: bool) -> None:
    """In microseconds from it; nothing is given up by one face alone (S34)."""
    moment = Instant(NOON, 7)
    assert moment.has_come(Instant(NOON + timedelta(microseconds=at), 7 + steady)) is come


class _NoClock(datetime):
    @classmethod
    def now(cls, tz: object = None) -> "_NoClock":
        raise OverflowError("timestamp too large to convert to C _PyTime_t")


def test_a_time_of_day_that_python_cannot_read_is_the_last_that_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    """The year 2262; newer versions of Python fail, older ones stand still there."""
    monkeypatch.setattr(clock_module, "datetime", _NoClock)
    assert clock_module.wall() == LAST_READABLE
    assert LAST_READABLE.timestamp() * 10**9 <= 2**63


def test_what_libraries_read_fails_in_no_year_either(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_clock() -> float:
        raise OverflowError("timestamp too large to convert to C _PyTime_t")

    before = time.time
    monkeypatch.setattr(time, "time", before)  # as it was, after the test
    survive_every_year()
    assert before() <= time.time() <= before()
    monkeypatch.setattr(clock_module, "_python_time", no_clock)
    assert time.time() == LAST_READABLE.timestamp()


def test_an_instant_moves_both_faces() -> None:
    assert Instant(NOON, 7).after(1_500_001) == Instant(NOON + timedelta(seconds=1.5, microseconds=1), 1_500_008)


@pytest.mark.parametrize(
    ("given", "exact"), [(0.1, 100_000), (1 / 3, 333_333), (1e-7, 0), (1e9, 10**15), (5, 5 * MICROS)]
)
def test_seconds_become_whole_microseconds(given: float, exact: int) -> None:
    assert (micros(given), type(micros(given))) == (exact, int)


@pytest.mark.parametrize("shown", [0.0, 0.1, 300.0, 1e9, 86_400.000001])
def test_what_somebody_gave_in_seconds_is_shown_as_it_was_given(shown: float) -> None:
    assert seconds(micros(shown)) == shown


def test_a_span_between_two_times_of_day_is_exact_over_centuries() -> None:
    assert micros_of(timedelta(days=200_000, microseconds=1)) == 200_000 * 86_400 * MICROS + 1


class TestSystemClock:
    """Real time: `at` follows the wall, `steady` the time since boot."""

    def test_the_first_one_begins_at_zero(self, machine: Machine) -> None:
        assert SystemClock().now() == Instant(NOON, 0)

    def test_both_faces_pass(self, machine: Machine) -> None:
        clock = SystemClock()
        machine.pass_by(60)
        assert clock.now() == Instant(NOON + timedelta(seconds=60), 60 * MICROS)

    @pytest.mark.parametrize("jump", [timedelta(days=1), timedelta(days=-1)])
    def test_a_wall_that_is_set_does_not_touch_steady(self, machine: Machine, jump: timedelta) -> None:
        clock = SystemClock()
        machine.wall += jump
        machine.pass_by(10)
        assert clock.now() == Instant(NOON + jump + timedelta(seconds=10), 10 * MICROS)

    def test_a_mark_says_where_it_stood_and_on_which_boot(self, machine: Machine) -> None:
        clock = SystemClock()
        machine.pass_by(10)
        assert clock.mark() == Mark(NOON + timedelta(seconds=10), 10 * MICROS, "boot-1", 5010 * MICROS)

    def test_after_a_restart_the_time_away_does_not_count(self, machine: Machine) -> None:
        """Nobody could be told anything meanwhile (S25)."""
        clock = SystemClock()
        machine.pass_by(50)
        mark = clock.mark()
        machine.pass_by(100)
        assert SystemClock(mark).now().steady == 50 * MICROS

    def test_after_a_kill_it_goes_on_from_when_somebody_could_last_be_answered(self, machine: Machine) -> None:
        clock = SystemClock()
        machine.pass_by(50)
        mark = clock.mark()
        machine.pass_by(7)
        alive = Alive("boot-1", clock.now().steady)
        machine.pass_by(100)
        assert SystemClock(mark, alive).now().steady == 57 * MICROS

    def test_it_never_goes_back_behind_a_mark(self, machine: Machine) -> None:
        """The note is not synced; it may be an old one."""
        assert SystemClock(Mark(NOON, 50, "boot-1"), Alive("boot-1", 49)).now().steady == 50

    @pytest.mark.parametrize("boot_id", ["boot-0", ""])
    def test_a_note_from_another_boot_is_not_believed(self, machine: Machine, boot_id: str) -> None:
        machine.boot = boot_id and "boot-1"
        assert SystemClock(Mark(NOON, 50, "boot-0"), Alive(boot_id, 99)).now().steady == 50

    def test_a_first_start_that_was_killed_before_its_mark(self, machine: Machine) -> None:
        assert SystemClock(None, Alive("boot-1", 99)).now().steady == 99

    def test_while_it_is_held_steady_stands_still_and_the_time_of_day_goes_on(self, machine: Machine) -> None:
        clock = SystemClock()
        machine.pass_by(10)
        clock.hold()
        machine.pass_by(60)
        assert clock.now() == Instant(NOON + timedelta(seconds=70), 10 * MICROS)
        assert clock.mark() == Mark(NOON + timedelta(seconds=70), 10 * MICROS, "boot-1", 5070 * MICROS)
        clock.run()
        machine.pass_by(5)
        assert clock.now().steady == 15 * MICROS

    def test_holding_and_letting_go_twice_is_like_once(self, machine: Machine) -> None:
        clock = SystemClock()
        for turn in (clock.hold, clock.hold, clock.run, clock.run):
            machine.pass_by(1)
            turn()
        assert clock.now().steady == 2 * MICROS

    @pytest.mark.parametrize("took", [300, -86_400, 30 * 86_400])
    def test_after_a_reboot_no_time_away_counts_whatever_the_wall_says(self, machine: Machine, took: int) -> None:
        """The wall may be wrong by then, and nobody was told anything meanwhile (S1)."""
        clock = SystemClock()
        machine.pass_by(50)
        mark = clock.mark()
        machine.reboot(took=took)
        clock = SystemClock(mark)
        assert clock.now().steady == 50 * MICROS
        machine.pass_by(5)
        assert clock.now().steady == 55 * MICROS

    def test_without_a_boot_id_every_start_counts_as_a_reboot(self, machine: Machine) -> None:
        machine.boot = ""
        mark = SystemClock().mark()
        machine.pass_by(100)
        assert SystemClock(mark).now().steady == 0

    def test_the_real_one_reads_aware_utc_and_grows(self) -> None:
        clock = SystemClock()
        first, second = clock.now(), clock.now()
        assert first.at.tzinfo is UTC
        assert 0 <= first.steady <= second.steady
        assert (clock.name, clock.speed) == ("real", 1.0)
        assert clock.mark().boot_id == boot_id()


class TestScaledClock:
    """Time at another pace, from one beginning."""

    def test_it_runs_so_many_times_as_fast(self, machine: Machine) -> None:
        clock = ScaledClock(60.0)
        machine.pass_by(2.5)
        assert clock.now() == Instant(NOON + timedelta(seconds=150), 150 * MICROS)
        assert (clock.name, clock.speed) == ("60x", 60.0)

    @pytest.mark.parametrize("speed", [0.3, 7.7, 99_999.9])
    def test_it_never_goes_back_and_is_whole_at_any_speed(self, machine: Machine, speed: float) -> None:
        clock, seen = ScaledClock(speed), [0]
        for _ in range(1000):
            machine.micros += 1
            seen.append(clock.now().steady)
        assert seen == sorted(seen)
        assert {type(steady) for steady in seen} == {int}

    def test_a_wall_that_is_set_does_not_touch_it(self, machine: Machine) -> None:
        clock = ScaledClock(60.0)
        machine.wall += timedelta(days=1)
        assert clock.now() == Instant(NOON, 0)

    def test_after_a_restart_it_goes_on_from_its_mark_and_not_from_real_time(self, machine: Machine) -> None:
        clock = ScaledClock(60.0)
        machine.pass_by(10)
        mark = clock.mark()
        machine.pass_by(3600)
        assert ScaledClock(60.0, mark).now() == Instant(NOON + timedelta(seconds=600), 600 * MICROS)

    def test_while_it_is_held_it_stands_still(self, machine: Machine) -> None:
        clock = ScaledClock(60.0)
        machine.pass_by(10)
        clock.hold()
        machine.pass_by(10)
        assert clock.mark() == Mark(NOON + timedelta(minutes=10), 600 * MICROS, given=60.0, speed=60.0)
        clock.run()
        clock.run()
        machine.pass_by(1)
        assert clock.now() == Instant(NOON + timedelta(minutes=11), 660 * MICROS)

    def test_a_speed_that_was_set_meanwhile_is_there_after_a_restart(self, machine: Machine) -> None:
        clock = ScaledClock(60.0)
        clock.set_speed(600.0)
        again = ScaledClock(60.0, clock.mark())
        assert again.speed == 600.0
        assert ScaledClock(60.0, again.mark()).speed == 600.0

    @pytest.mark.parametrize("given", [30.0, 600.0])
    def test_unless_it_is_started_with_another_speed_than_before(self, machine: Machine, given: float) -> None:
        clock = ScaledClock(60.0)
        clock.set_speed(7.0)
        assert ScaledClock(given, clock.mark()).speed == given

    def test_a_mark_of_another_kind_of_clock_says_nothing_about_the_speed(self, machine: Machine) -> None:
        assert ScaledClock(60.0, ManualClock().mark()).speed == 60.0

    def test_it_begins_at_a_whole_second(self, machine: Machine) -> None:
        machine.wall = NOON.replace(microsecond=999_999)
        assert ScaledClock(60.0).now().at == NOON


PACES = {"real": 1, "0.5x": 0.5, "60x": 60}


class Answered:
    """A clock of a node that answers VMs: its loop beats now and then, and anybody may read it."""

    def __init__(self, machine: Machine, name: str) -> None:
        clock = clock_from_name(name)
        assert isinstance(clock, SystemClock | ScaledClock)
        self.machine, self.clock, self.pace = machine, clock, PACES[name]

    @property
    def counted(self) -> float:
        """Real microseconds that have counted so far."""
        return self.clock.now().steady / self.pace

    def beats_for(self, seconds: float, every: float = 0.25) -> None:
        for _ in range(round(seconds / every)):
            self.machine.pass_by(every)
            self.clock.beat()


@pytest.fixture(params=PACES)
def answered(machine: Machine, request: pytest.FixtureRequest) -> Answered:
    clock = Answered(machine, request.param)
    clock.clock.beat()
    return clock


class TestStandstill:
    """Between beats nobody is answered, and when that is for too long it is no notice (S25)."""

    def test_a_pause_that_is_too_long_does_not_count_whoever_reads_the_clock_first(self, answered: Answered) -> None:
        answered.beats_for(10)
        answered.machine.pass_by(40)
        assert answered.counted == 10 * MICROS
        assert answered.clock.beat() == 40 * MICROS
        assert answered.counted == 10 * MICROS
        answered.beats_for(5)
        assert answered.counted == 15 * MICROS

    def test_nor_does_it_when_the_beat_comes_first(self, answered: Answered) -> None:
        answered.beats_for(10)
        answered.machine.pass_by(40)
        assert answered.clock.beat() == 40 * MICROS
        assert answered.counted == 10 * MICROS

    def test_a_pause_that_is_just_not_too_long_counts(self, answered: Answered) -> None:
        answered.machine.micros += LONGEST_PAUSE
        assert answered.counted == LONGEST_PAUSE
        assert answered.clock.beat() == 0
        answered.machine.micros += LONGEST_PAUSE + 2
        assert answered.counted == LONGEST_PAUSE
        assert answered.clock.beat() == LONGEST_PAUSE + 2

    def test_what_was_read_before_the_standstill_stays_true(self, answered: Answered) -> None:
        """A thread that reads on while the loop stands still gets a little further and then no more."""
        seen = []
        for _ in range(10):
            answered.machine.pass_by(1)
            seen.append(answered.counted)
        assert seen == [1 * MICROS] + [2 * MICROS] * 9
        assert answered.clock.beat() == 8 * MICROS
        assert answered.counted == 2 * MICROS

    def test_nothing_is_lost_because_nobody_reads_it(self, answered: Answered) -> None:
        answered.beats_for(3600)
        assert answered.counted == 3600 * MICROS

    def test_the_time_of_day_goes_on_where_it_is_real(self, answered: Answered) -> None:
        """So that is what documents have to be brought in line with; at another pace both faces stand still."""
        answered.machine.pass_by(40)
        answered.clock.beat()
        assert answered.clock.now().at == NOON + timedelta(seconds=40 if answered.pace == 1 else 0)
        assert answered.clock.mark().steady == 0

    @pytest.mark.parametrize("name", PACES)
    def test_where_nobody_beats_all_time_counts(self, machine: Machine, name: str) -> None:
        clock = Answered(machine, name)
        machine.pass_by(3600)
        assert clock.counted == 3600 * MICROS
        assert clock.clock.beat() == 0

    def test_while_it_is_held_no_beat_is_missed(self, answered: Answered) -> None:
        answered.clock.hold()
        answered.machine.pass_by(40)
        assert answered.clock.beat() == 0
        answered.clock.run()
        answered.machine.pass_by(40)
        assert answered.counted == 40 * MICROS

    def test_held_after_a_standstill_it_does_not_count_that_either(self, answered: Answered) -> None:
        """The process was told to end while it was stopped."""
        answered.beats_for(1)
        answered.machine.pass_by(40)
        answered.clock.hold()
        assert answered.counted == 1 * MICROS

    def test_another_pace_set_after_a_standstill_does_not_count_it_either(self, machine: Machine) -> None:
        clock = ScaledClock(60.0)
        clock.beat()
        machine.pass_by(1)
        clock.beat()
        machine.pass_by(40)
        clock.set_speed(600.0)
        assert clock.beat() == 40 * MICROS
        machine.pass_by(1)
        assert clock.now().steady == 660 * MICROS

    def test_a_manual_one_misses_nothing(self) -> None:
        assert ManualClock().beat() == 0

    @given(
        name=st.sampled_from(list(PACES)),
        steps=st.lists(st.tuples(st.integers(0, 3 * LONGEST_PAUSE), st.sampled_from(["beat", "read", "both"]))),
    )
    def test_whatever_comes_it_counts_the_short_pauses_and_little_of_the_long_ones(
        self, name: str, steps: list[tuple[int, str]]
    ) -> None:
        with pytest.MonkeyPatch.context() as patch:
            clock = Answered(Machine(patch), name)
            clock.clock.beat()
            seen, beats, lost = [0], [clock.machine.micros], 0
            for pause, who in steps:
                clock.machine.micros += pause
                if who != "read":
                    beats.append(clock.machine.micros)
                    lost += clock.clock.beat()
                if who != "beat":
                    seen.append(clock.clock.now().steady)
            clock.clock.hold()
            seen.append(clock.clock.now().steady)
        assert seen == sorted(seen)
        pauses = [later - earlier for earlier, later in zip(beats, [*beats[1:], clock.machine.micros], strict=True)]
        short = sum(pause for pause in pauses if pause <= LONGEST_PAUSE)
        long = sum(pause > LONGEST_PAUSE for pause in pauses)
        assert short - 1 <= clock.counted <= short + long * LONGEST_PAUSE
        assert lost <= sum(pauses) - short

    def test_a_thread_that_reads_while_the_pace_is_set_never_sees_it_go_back(self) -> None:
        clock, seen = ScaledClock(1.0), [0]
        reader = Thread(target=lambda: seen.extend(clock.now().steady for _ in range(20_000)))
        reader.start()
        speeds = 0
        while reader.is_alive():
            clock.set_speed((1.0, 100_000.0)[speeds % 2])
            speeds += 1
        reader.join()
        assert seen == sorted(seen)


class TestManualClock:
    """Time passes only when told."""

    def test_it_begins_at_real_time_in_a_whole_second_and_stands_still(self, machine: Machine) -> None:
        machine.wall = NOON.replace(microsecond=5)
        clock = ManualClock()
        machine.pass_by(60)
        assert clock.now() == Instant(NOON, 0)
        assert (clock.name, clock.speed) == ("manual", 0.0)

    def test_it_advances_by_what_it_is_told(self) -> None:
        clock = ManualClock(Mark(NOON, 3))
        clock.advance(250_000)
        clock.advance(900 * MICROS)
        assert clock.now() == Instant(NOON + timedelta(seconds=900.25), 900_250_003)

    def test_it_never_goes_back(self) -> None:
        clock = ManualClock(Mark(NOON, 3))
        clock.advance(-5)
        assert clock.now() == Instant(NOON, 3)

    def test_holding_it_and_letting_it_go_makes_no_difference(self) -> None:
        clock = ManualClock(Mark(NOON, 3))
        clock.hold()
        clock.advance(4)
        clock.run()
        assert clock.now().steady == 7

    def test_after_a_restart_it_goes_on_from_its_mark(self, machine: Machine) -> None:
        clock = ManualClock()
        clock.advance(86_400 * MICROS)
        assert ManualClock(clock.mark()).now() == clock.now()


class TestNames:
    """How a person asks for a clock."""

    @pytest.mark.parametrize(
        ("name", "kind", "speed"),
        [
            ("real", SystemClock, 1.0),
            ("manual", ManualClock, 0.0),
            ("60x", ScaledClock, 60.0),
            ("0.5x", ScaledClock, 0.5),
            ("100000x", ScaledClock, 100_000.0),
        ],
    )
    def test_these_are_clocks(self, name: str, kind: type, speed: float) -> None:
        clock = clock_from_name(name)
        assert clock is not None
        assert type(clock) is kind
        assert (clock.name, clock.speed) == (name, speed)

    @pytest.mark.parametrize("name", ["", "x", "60", "fast", "0x", "-1x", "nanx", "infx", "100001x", "60xx", "Real"])
    def test_these_are_not(self, name: str) -> None:
        assert clock_from_name(name) is None

    @pytest.mark.parametrize("name", ["manual", "60x", "real"])
    def test_each_goes_on_from_a_mark(self, name: str, machine: Machine) -> None:
        clock = clock_from_name(name, Mark(NOON, 77, "boot-1", 5000 * MICROS))
        assert clock is not None
        assert clock.now() == Instant(NOON, 77)
