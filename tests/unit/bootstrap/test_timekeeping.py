"""Where time goes on at a start, and the beat that says until when VMs could be answered (S25)."""

import asyncio
from collections.abc import Callable
from datetime import datetime

import pytest
from structlog.testing import capture_logs

from duenotice import clock as clock_module
from duenotice.bootstrap.process import Heartbeat, clock_of
from duenotice.clock import LAST_READABLE, MICROS, Alive, Instant, ManualClock, Mark, ScaledClock, SystemClock
from duenotice.domain.state import State
from duenotice.errors import Misconfigured
from duenotice.store.memory import MemoryJournal
from tests.unit.domain.build import NOW
from tests.unit.engine.rig import in_loop, once


class Machine:
    """Time since boot, as told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.micros = 5000
        monkeypatch.setattr(clock_module, "boot_micros", lambda: self.micros)
        monkeypatch.setattr(clock_module, "_monotonic_micros", lambda: self.micros)
        monkeypatch.setattr(clock_module, "boot_id", lambda: "boot-1")
        monkeypatch.setattr("duenotice.bootstrap.process.boot_id", lambda: "boot-1")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


class TestClockOf:
    """Where time goes on at a start."""

    def journal(self, mark: Mark, last_record: datetime, steady: int = 0) -> tuple[State, MemoryJournal]:
        state = State()
        state.mark, state.at, state.steady = mark, last_record, steady
        return state, MemoryJournal()

    @pytest.mark.parametrize("name", ["real", "60x", "manual"])
    def test_it_is_held(self, machine: Machine, name: str) -> None:
        clock = clock_of(name, State(), MemoryJournal())
        machine.micros += 100
        assert clock.now().steady == 0

    @pytest.mark.parametrize("name", ["60x", "manual"])
    def test_a_clock_of_its_own_goes_on_from_its_last_record(self, machine: Machine, name: str) -> None:
        """Both faces by as much."""
        clock = clock_of(name, *self.journal(Mark(NOW.at, 7), NOW.after(600).at, 607))
        assert clock.now() == Instant(NOW.after(600).at, 607)

    def test_the_real_one_goes_on_from_the_steady_time_of_its_last_record(self, machine: Machine) -> None:
        """That is as durable as a mark, and newer: less is counted twice after another boot (S25, S34)."""
        clock = clock_of("real", *self.journal(Mark(NOW.at, 7, "boot-1", 4000), NOW.after(600).at, 607))
        assert clock.now().steady == 607

    @pytest.mark.parametrize("boot_id", ["boot-1", ""])
    def test_of_the_real_one_the_time_of_day_is_not_believed(self, machine: Machine, boot_id: str) -> None:
        clock = clock_of("real", *self.journal(Mark(NOW.at, 7, boot_id, 4000), NOW.after(600).at))
        assert clock.now().steady == 7

    def test_the_real_one_goes_on_from_when_vms_could_last_be_answered(self, machine: Machine) -> None:
        state, journal = self.journal(Mark(NOW.at, 7, "boot-1", 4000), NOW.at)
        journal.note_alive(Alive("boot-1", 99))
        assert clock_of("real", state, journal).now().steady == 99

    def test_another_name_is_none(self) -> None:
        with pytest.raises(Misconfigured, match="'sundial' is not a clock"):
            clock_of("sundial", State(), MemoryJournal())


def nobody_is_told(micros: int) -> None:
    raise AssertionError(f"nobody was away, certainly not for {micros}")


@in_loop
async def test_from_start_to_stop_it_says_where_steady_time_is(machine: Machine) -> None:
    journal, clock = MemoryJournal(), SystemClock()
    clock.hold()
    beat = Heartbeat(journal, clock, nobody_is_told)
    machine.micros += 100  # what a start takes
    beat.start()
    await once(lambda: journal.alive)
    assert journal.alive == Alive("boot-1", 0)
    machine.micros += 20
    beat.stop()
    machine.micros += 100
    assert journal.alive == Alive("boot-1", 20) == Alive("boot-1", clock.now().steady)


@in_loop
async def test_it_beats_again_and_again(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duenotice.bootstrap.process.EVERY", 0.0)
    journal = MemoryJournal()
    beat = Heartbeat(journal, SystemClock(), nobody_is_told)
    beat.start()
    for _ in range(3):
        machine.micros += 1
        await once(lambda: journal.alive == Alive("boot-1", machine.micros - 5000))
    beat.stop()


@pytest.mark.parametrize("kind", [SystemClock, lambda: ScaledClock(60.0)], ids=["real", "60x"])
@in_loop
async def test_after_a_standstill_it_tells_how_long_that_was(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, kind: Callable[[], SystemClock | ScaledClock]
) -> None:
    """Once; none of it is notice, and none of it is noted."""
    monkeypatch.setattr("duenotice.bootstrap.process.EVERY", 0.0)
    journal, clock, told = MemoryJournal(), kind(), list[int]()
    beat = Heartbeat(journal, clock, told.append)
    beat.start()
    await asyncio.sleep(0)
    machine.micros += 40 * MICROS
    with capture_logs() as logged:
        await once(lambda: told)
        await asyncio.sleep(0)
    beat.stop()
    assert told == [40 * MICROS]
    assert clock.now().steady == 0
    assert journal.alive in (None, Alive("boot-1", 0))
    assert [(line["action"], line["seconds"]) for line in logged] == [("stood-still", 40.0)]


@in_loop
async def test_a_clock_that_cannot_be_read_is_told_of_at_once_and_when_it_can_be_read_again(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond the year 2262; not at each beat."""
    monkeypatch.setattr("duenotice.bootstrap.process.EVERY", 0.0)
    right, shown = NOW.at, [NOW.at, LAST_READABLE, LAST_READABLE, LAST_READABLE]
    monkeypatch.setattr("duenotice.bootstrap.process.wall", lambda: shown.pop(0) if shown else right)
    beat = Heartbeat(MemoryJournal(), SystemClock(), nobody_is_told)
    with capture_logs() as logged:
        beat.start()
        await once(lambda: len(logged) > 1)
        beat.stop()
    assert [(line["action"], line["log_level"]) for line in logged] == [
        ("clock-unreadable", "error"),
        ("clock-readable", "info"),
    ]
    assert "beyond the year 2262" in logged[0]["error"]
    assert "NTP" in logged[0]["hint"]


@in_loop
async def test_a_start_that_failed_before_the_doors_were_open_notes_nothing(machine: Machine) -> None:
    journal, clock = MemoryJournal(), SystemClock()
    Heartbeat(journal, clock, nobody_is_told).stop()
    machine.micros += 1
    assert (journal.alive, clock.now().steady) == (None, 0)


@pytest.mark.parametrize("clock", [ManualClock(), ScaledClock(60.0)], ids=["manual", "60x"])
@in_loop
async def test_other_clocks_go_on_from_their_marks_alone(clock: ManualClock | ScaledClock) -> None:
    journal = MemoryJournal()
    beat = Heartbeat(journal, clock, nobody_is_told)
    beat.start()
    await asyncio.sleep(0)
    beat.stop()
    assert journal.alive is None
