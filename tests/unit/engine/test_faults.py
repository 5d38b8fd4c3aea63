"""A rule of ours that fails costs only what it was asked for: everybody else goes on (S6)."""

from typing import Any

import pytest
import structlog

from duenotice.clock import Instant
from duenotice.domain import decide as decide_module
from duenotice.domain import due, planning
from duenotice.domain.commands import CancelEvent, StartMaintenance, Tick
from duenotice.domain.event import Event, EventType
from duenotice.domain.lifecycle import Act
from duenotice.domain.policy import Policy
from duenotice.domain.snapshot import take
from duenotice.domain.starting import started
from duenotice.domain.transitions import EventCompleted, EventRaised, EventStarted
from duenotice.engine.engine import Engine, load
from duenotice.errors import InvariantBroken
from duenotice.journal.memory import MemoryJournal
from tests.unit.domain.build import id_of
from tests.unit.engine.rig import approval, ask, in_loop, listen, reboot, running, shown


def is_whole(engine: Engine, journal: MemoryJournal) -> bool:
    """What readers see, what the writer goes on from and what is stored are one."""
    engine._writer.catch_up()
    truth = take(load(journal))
    return take(engine.state) == truth == take(engine._writer._ahead)


@in_loop
async def test_a_command_whose_changes_do_not_apply_is_refused_whole_and_others_of_its_batch_are_done() -> None:
    """The first change of the list applies, the second ends the event twice."""

    def twice(state: object, command: CancelEvent, *_: object) -> list[EventCompleted]:
        return [EventCompleted(command.event_id, "vm/alone")] * 2

    journal = MemoryJournal()
    with pytest.MonkeyPatch.context() as patch, structlog.testing.capture_logs() as logs:
        rules: dict[Any, Any] = {**decide_module._RULES, CancelEvent: twice}
        patch.setattr(decide_module, "_RULES", rules)
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


@in_loop
async def test_a_plan_at_which_a_rule_fails_does_not_keep_events_from_starting() -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError

    journal = MemoryJournal()
    with pytest.MonkeyPatch.context() as patch, structlog.testing.capture_logs():
        patch.setattr(planning, "_begun", fails)
        async with running(journal) as engine:
            await listen(engine, "alone")
            await ask(engine, StartMaintenance(id_of(9), EventType.REBOOT, ("web-0",)))
            await ask(engine, reboot("alone", 1))
            await ask(engine, approval(None, 1))
            assert shown(engine, "alone") == [(id_of(1), "started")]
            assert is_whole(engine, journal)
