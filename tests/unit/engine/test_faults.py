"""A rule of ours that fails costs only what it was asked for: everybody else goes on (S6)."""

from typing import Any

import pytest
import structlog

from duenotice.clock import Instant
from duenotice.domain.commands import (
    CancelEvent,
    CancelMaintenance,
    PauseMaintenance,
    ResumeMaintenance,
    StartMaintenance,
    Tick,
)
from duenotice.domain.event import Act, Event, EventType
from duenotice.domain.plan import PlanProgress, Status
from duenotice.domain.policy import Policy
from duenotice.domain.records import EventCompleted, EventRaised, EventStarted, MaintenanceChanged, Transition
from duenotice.domain.rules import decide as decide_module
from duenotice.domain.rules import due, maintenance
from duenotice.domain.rules.timing import started
from duenotice.domain.snapshot import take
from duenotice.domain.state import State
from duenotice.engine import writer
from duenotice.engine.engine import Engine, load
from duenotice.engine.ticker import Ticker
from duenotice.errors import InvariantBroken
from duenotice.store.memory import MemoryJournal
from tests.unit.domain.build import HOUR, id_of
from tests.unit.engine.rig import approval, ask, in_loop, listen, reboot, running, shown


def is_whole(engine: Engine, journal: MemoryJournal) -> bool:
    """What readers see, what the writer goes on from and what is stored are one."""
    engine._writer.catch_up()
    truth = take(load(journal))
    return take(engine.state) == truth == take(engine._writer._ahead)


@in_loop
async def test_a_command_whose_changes_do_not_apply_is_refused_whole_and_others_of_its_batch_are_done() -> None:
    """The first change of the list applies, the second ends the event twice."""

    def twice(state: object, command: CancelEvent, *_: object) -> list[Transition]:
        return [EventCompleted(command.event_id, "vm/alone")] * 2

    journal = MemoryJournal()
    with pytest.MonkeyPatch.context() as patch, structlog.testing.capture_logs() as logs:
        rules: dict[Any, Any] = {**decide_module.RULES, CancelEvent: decide_module.Rule(twice, (EventCompleted,))}
        patch.setattr(decide_module, "RULES", rules)
        async with running(journal) as engine:
            await listen(engine, "alone")
            await ask(engine, reboot("alone"))
            broken, fine = ask(engine, CancelEvent(id_of(1))), ask(engine, reboot("zonal", 2))
            with pytest.raises(InvariantBroken, match="Nothing was changed"):
                await broken
            assert [type(record.transition) for record in await fine][:1] == [EventRaised]
            assert shown(engine, "alone") == [(id_of(1), "scheduled")]
            assert not engine.failed.done()
            assert is_whole(engine, journal)
    (line,) = [line for line in logs if line.get("action") == "invariant-broken"]
    assert "CancelEvent" in line["command"]
    assert (line["position"] > 0, len(line["half_done"])) == (True, 1)


@in_loop
async def test_an_event_at_which_a_rule_fails_does_not_keep_others_from_starting() -> None:
    def fails_at_one(event: Event, act: Act, now: Instant, policy: Policy) -> Event:
        if event.id == id_of(1):
            raise ZeroDivisionError
        return started(event, act, now, policy)

    journal = MemoryJournal()
    with pytest.MonkeyPatch.context() as patch, structlog.testing.capture_logs() as logs:
        patch.setattr(due, "started", fails_at_one)
        async with running(journal) as engine:
            await listen(engine, "alone", "zonal")
            await ask(engine, reboot("alone", 1))
            await ask(engine, reboot("zonal", 2))
            await ask(engine, approval(None, 1, 2))
            await ask(engine, Tick())
            assert shown(engine, "alone") == [(id_of(1), "scheduled")]
            assert shown(engine, "zonal") == [(id_of(2), "started")]
            assert is_whole(engine, journal)
    assert [line["command"] for line in logs if line.get("action") == "invariant-broken"] == [
        f"'what is due for {id_of(1)}'"
    ]


@in_loop
async def test_a_start_that_does_not_apply_leaves_nothing_of_it_behind() -> None:
    """What the rule gave could not be folded: memory is as if it had not been tried."""
    steps = due._step
    journal = MemoryJournal()
    with pytest.MonkeyPatch.context() as patch, structlog.testing.capture_logs():
        patch.setattr(due, "_step", lambda state, event, *rest: steps(state, event, *rest) + [_ends(event)] * 2)
        async with running(journal) as engine:
            await listen(engine, "alone")
            await ask(engine, reboot("alone", 1))
            await ask(engine, approval(None, 1))
            assert shown(engine, "alone") == [(id_of(1), "scheduled")]
            assert EventStarted not in {type(record.transition) for record in journal.read(0)}
            assert is_whole(engine, journal)


def _ends(event: Event) -> EventCompleted:
    return EventCompleted(event.id, event.scope)


def fails_at(plan_id: str) -> Any:
    """The rule by which steps begin, with a bug in it."""
    begun = maintenance._begun

    def fails(state: State, progress: PlanProgress, *rest: Any) -> list[Transition]:
        if progress.plan.id == plan_id:
            raise ZeroDivisionError
        return begun(state, progress, *rest)

    return fails


@in_loop
async def test_a_plan_at_which_a_rule_fails_does_not_keep_events_from_starting() -> None:
    journal = MemoryJournal()
    with pytest.MonkeyPatch.context() as patch, structlog.testing.capture_logs():
        patch.setattr(maintenance, "_begun", fails_at(id_of(9)))
        async with running(journal) as engine:
            await listen(engine, "alone")
            await ask(engine, StartMaintenance(id_of(9), EventType.REBOOT, ("web-0",)))
            await ask(engine, reboot("alone", 1))
            await ask(engine, approval(None, 1))
            assert shown(engine, "alone") == [(id_of(1), "started")]
            assert is_whole(engine, journal)


@in_loop
async def test_a_plan_at_which_a_rule_fails_pauses_with_a_reason_and_other_plans_go_on() -> None:
    journal = MemoryJournal()
    with pytest.MonkeyPatch.context() as patch, structlog.testing.capture_logs() as logs:
        patch.setattr(maintenance, "_begun", fails_at(id_of(9)))
        async with running(journal) as engine:
            await ask(engine, StartMaintenance(id_of(9), EventType.REBOOT, ("web-0",)))
            await ask(engine, StartMaintenance(id_of(8), EventType.REBOOT, ("alone", "zonal")))
            await Ticker(engine).advance(HOUR)
            plans = engine.state.maintenances
            assert (plans[id_of(9)].status, plans[id_of(9)].reason) == (Status.PAUSED, maintenance.A_RULE_FAILED)
            assert plans[id_of(8)].status is Status.DONE
            assert is_whole(engine, journal)
            await ask(engine, CancelMaintenance(id_of(9)))
            await ask(engine, StartMaintenance(id_of(7), EventType.REBOOT, ("web-0",)))
            await Ticker(engine).advance(HOUR)
            assert engine.state.maintenances[id_of(7)].status is Status.DONE
    assert [line["command"] for line in logs if line.get("action") == "invariant-broken"] == [
        f"'what is due for the plan {id_of(9)}'"
    ]


@in_loop
async def test_a_pause_that_fails_too_keeps_nobody_else_from_going_on() -> None:
    journal = MemoryJournal()
    with pytest.MonkeyPatch.context() as patch, structlog.testing.capture_logs():
        patch.setattr(maintenance, "_begun", fails_at(id_of(9)))
        patch.setattr(writer, "halted", lambda *_: [MaintenanceChanged("nobody", Status.PAUSED)])
        async with running(journal) as engine:
            await ask(engine, StartMaintenance(id_of(9), EventType.REBOOT, ("web-0",)))
            await ask(engine, StartMaintenance(id_of(8), EventType.REBOOT, ("alone",)))
            await Ticker(engine).advance(HOUR)
            assert engine.state.maintenances[id_of(8)].status is Status.DONE
            assert is_whole(engine, journal)


@in_loop
async def test_such_a_plan_tries_again_when_it_is_resumed() -> None:
    """It pauses again while the rule fails, and goes on when it does not any more."""
    journal = MemoryJournal()
    async with running(journal) as engine:
        with pytest.MonkeyPatch.context() as patch, structlog.testing.capture_logs() as logs:
            patch.setattr(maintenance, "_begun", fails_at(id_of(9)))
            await ask(engine, StartMaintenance(id_of(9), EventType.REBOOT, ("web-0",)))
            await ask(engine, ResumeMaintenance(id_of(9)))
            assert engine.state.maintenances[id_of(9)].status is Status.PAUSED
        assert [line.get("action") for line in logs].count("invariant-broken") == 2
        await ask(engine, ResumeMaintenance(id_of(9)))
        await Ticker(engine).advance(HOUR)
        assert engine.state.maintenances[id_of(9)].status is Status.DONE
        assert is_whole(engine, journal)


@in_loop
async def test_a_paused_plan_at_which_a_rule_fails_is_left_alone() -> None:
    """There is nothing to pause; the rule is not tried again and again."""

    def fails(*_: object) -> None:
        raise ZeroDivisionError

    journal = MemoryJournal()
    with pytest.MonkeyPatch.context() as patch, structlog.testing.capture_logs() as logs:
        async with running(journal) as engine:
            await ask(engine, StartMaintenance(id_of(9), EventType.REBOOT, ("web-0",)))
            await ask(engine, PauseMaintenance(id_of(9)))
            patch.setattr(maintenance, "_conclusion", fails)
            await Ticker(engine).advance(HOUR)
            assert is_whole(engine, journal)
    assert [line.get("action") for line in logs].count("invariant-broken") == 1
