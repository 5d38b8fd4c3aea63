"""A request with a key: its answer is durable with what came of it, and it is not done again (S5, S6)."""

import asyncio

import pytest

from duenotice.clock import Instant, ManualClock, micros_of
from duenotice.domain.records import EventRaised, RequestAnswered
from duenotice.domain.state import ANSWERS_KEPT, State
from duenotice.engine.engine import Engine, Receipt, Records
from duenotice.errors import Refused, Unavailable
from duenotice.store.memory import MemoryJournal
from tests.unit.domain.build import DAY, SECOND, id_of
from tests.unit.engine.rig import (
    BEGIN,
    FailingJournal,
    GatedJournal,
    SettableClock,
    approval,
    in_loop,
    listen,
    reboot,
    running,
)


def phases(state: State, records: Records, now: Instant) -> RequestAnswered:
    """An answer that tells how all events are."""
    body = " ".join(event.phase.value for event in state.events.values())
    until = now.after(micros_of(ANSWERS_KEPT))
    return RequestAnswered("k", "f", until.at, body.encode(), until.steady)


def submit(engine: Engine, number: int = 1, key: str = "k") -> "asyncio.Future[Records]":
    return engine.submit(reboot("alone", number), "test", Receipt(key, phases))


@in_loop
async def test_the_answer_stands_in_the_journal_behind_what_came_of_the_command() -> None:
    journal = MemoryJournal()
    async with running(journal) as engine:
        await listen(engine, "alone")
        (raised,) = await submit(engine)
        assert isinstance(raised.transition, EventRaised)
        answered = await engine.answered("k")
        assert answered is not None
        assert answered.answer == b"scheduled"
        assert [r.transition for r in journal.read(raised.position)] == [answered]


@in_loop
async def test_the_answer_sees_what_became_due_at_once() -> None:
    """An approved event has started."""
    async with running() as engine:
        await listen(engine, "alone")
        await engine.submit(reboot("alone"), "test")
        await engine.submit(approval("alone"), "test", Receipt("k", phases))
        answered = await engine.answered("k")
        assert answered is not None
        assert answered.answer == b"started"


@in_loop
async def test_what_was_stored_without_an_answer_is_found_although_it_is_not_shown_yet() -> None:
    """The journal was away: it had stored it, and could not be read back at once (S6)."""
    journal = FailingJournal()
    async with running(journal) as engine:
        await listen(engine, "alone")
        journal.kept, journal.failures = True, [Unavailable("away")]
        journal.read_failures = [Unavailable("still away")]
        with pytest.raises(Unavailable):
            await submit(engine)
        answered = await engine.answered("k")
        assert answered is not None
        assert answered.answer == b"scheduled"


@in_loop
async def test_it_is_not_done_again_not_even_in_the_same_batch() -> None:
    async with running() as engine:
        await listen(engine, "alone")
        first, second = submit(engine, 1), submit(engine, 2)
        await first
        with pytest.raises(Unavailable, match="done already"):
            await second
        with pytest.raises(Unavailable, match="done already"):
            await submit(engine, 3)
        assert list(engine.state.events) == [id_of(1)]


@in_loop
async def test_another_engine_on_the_same_journal_knows_the_answer() -> None:
    journal = MemoryJournal()
    async with running(journal) as engine:
        await listen(engine, "alone")
        await submit(engine)
    async with running(journal) as engine:
        answered = await engine.answered("k")
        assert answered is not None
        assert answered.answer == b"scheduled"


@in_loop
async def test_after_a_day_the_key_is_free() -> None:
    clock = ManualClock(BEGIN)
    async with running(clock=clock) as engine:
        await listen(engine, "alone")
        await submit(engine, 1)
        clock.advance(micros_of(ANSWERS_KEPT) - SECOND)
        assert await engine.answered("k") is not None
        clock.advance(SECOND)
        assert await engine.answered("k") is None
        await submit(engine, 2)


@in_loop
async def test_it_is_not_done_again_when_somebody_has_set_the_clock_since() -> None:
    """Days forward or back, and another process of ours: the two tries are a moment apart."""
    for days, lasts in ((3, 1), (-3, 4)):
        clock, journal = SettableClock(), MemoryJournal()
        async with running(journal, clock) as engine:
            await listen(engine, "alone")
            await submit(engine, 1)
            clock.set_wall(days * DAY)
            with pytest.raises(Unavailable, match="done already"):
                await submit(engine, 2)
        async with running(journal, clock) as engine:
            assert await engine.answered("k") is not None
            clock.pass_by(lasts * DAY)
            assert await engine.answered("k") is None


@in_loop
async def test_a_refusal_is_not_kept() -> None:
    async with running() as engine:
        with pytest.raises(Refused):
            await engine.submit(reboot("nobody"), "test", Receipt("k", phases))
        assert await engine.answered("k") is None


@in_loop
async def test_what_could_not_be_stored_was_not_answered() -> None:
    journal = FailingJournal()
    async with running(journal) as engine:
        await listen(engine, "alone")
        journal.failures.append(Unavailable("The disk is full."))
        with pytest.raises(Unavailable):
            await submit(engine)
        assert await engine.answered("k") is None
        assert len(await submit(engine)) == 1


@in_loop
async def test_who_asks_while_it_is_being_stored_is_answered_by_what_is_stored() -> None:
    journal = GatedJournal()
    async with running(journal) as engine:
        await listen(engine, "alone")
        journal.gate.clear()
        journal.reached.clear()
        answer = submit(engine)
        await asyncio.to_thread(journal.reached.wait)
        asked = asyncio.create_task(engine.answered("k"))
        await asyncio.sleep(0)
        assert not asked.done()
        journal.gate.set()
        assert (await asked, len(await answer)) != (None, 0)


@in_loop
async def test_an_answer_that_was_lost_with_its_commit_is_never_given() -> None:
    journal = FailingJournal()
    async with running(journal) as engine:
        await listen(engine, "alone")
        journal.failures.append(Unavailable("The disk went away."))
        with pytest.raises(Unavailable, match="could not be stored"):
            await submit(engine)
        assert await engine.answered("k") is None


@in_loop
async def test_a_fault_in_making_the_answer_stops_nothing() -> None:
    def broken(*_: object) -> RequestAnswered:
        raise ZeroDivisionError

    async with running() as engine:
        await listen(engine, "alone")
        assert len(await engine.submit(reboot("alone"), "test", Receipt("k", broken))) == 1
        assert not engine.failed.done()
        assert await engine.answered("k") is None


@in_loop
async def test_without_a_key_nothing_is_written() -> None:
    async with running() as engine:
        await listen(engine, "alone")
        before = engine.state.position
        await engine.submit(reboot("alone"), "test", Receipt("", lambda *_: None))
        assert (engine.state.position, engine.state.idempotency) == (before + 1, {})
