"""The table of an event's life, all of it (D02, S7)."""

import itertools

import pytest

from duenotice.clock import Instant
from duenotice.domain.commands import CancelEvent, Command, ReportImpact
from duenotice.domain.event import MOVES, Act, Phase, move
from duenotice.domain.snapshot import take
from duenotice.errors import Conflict, NotFound
from tests.unit.domain.build import NOW, SECOND, do, id_of, listening, schedule, started, tick

EVERY_PAIR = list(itertools.product([None, *Phase], Act))
LEGAL = {
    (None, Act.SCHEDULE): Phase.SCHEDULED,
    (None, Act.HAPPEN): Phase.STARTED,
    (Phase.SCHEDULED, Act.START): Phase.STARTED,
    (Phase.SCHEDULED, Act.CANCEL): Phase.CANCELLED,
    (Phase.STARTED, Act.COMPLETE): Phase.COMPLETED,
    (Phase.STARTED, Act.FAIL): Phase.FAILED,
}


def test_the_table_holds_the_six_moves_of_the_contract_and_no_other() -> None:
    assert MOVES == LEGAL


@pytest.mark.parametrize(("phase", "act"), LEGAL)
def test_a_legal_act_leads_where_the_table_says(phase: Phase | None, act: Act) -> None:
    assert move(phase, act) is LEGAL[phase, act]


@pytest.mark.parametrize(("phase", "act"), [pair for pair in EVERY_PAIR if pair not in LEGAL])
def test_every_other_act_is_refused_with_the_phase_as_the_reason(phase: Phase | None, act: Act) -> None:
    reason = "has not begun" if phase is None else f"is already {phase.value}"
    with pytest.raises(Conflict, match=f"Cannot {act.value} the event: it {reason}"):
        move(phase, act)


@pytest.mark.parametrize("end", [Phase.COMPLETED, Phase.CANCELLED, Phase.FAILED])
def test_nothing_leads_out_of_an_end(end: Phase) -> None:
    assert not [act for phase, act in MOVES if phase is end]


@pytest.mark.parametrize("command", [CancelEvent(id_of(1)), ReportImpact(id_of(1)), ReportImpact(id_of(1), "no")])
@pytest.mark.parametrize("phase", [None, *Phase])
def test_a_command_that_the_table_forbids_is_refused_and_changes_nothing(phase: Phase | None, command: Command) -> None:
    """Only a Scheduled event can be cancelled, only a Started one reported as over or failed."""
    state, now = listening(), NOW
    now = _bring_to(phase, state)
    allowed = {CancelEvent: Phase.SCHEDULED, ReportImpact: Phase.STARTED}[type(command)]
    before = take(state)
    if phase is allowed:
        do(state, command, now)
        assert state.document("vm/alone").events == ()
        return
    with pytest.raises(Conflict if phase in (Phase.SCHEDULED, Phase.STARTED) else NotFound):
        do(state, command, now)
    assert take(state) == before


def _bring_to(phase, state) -> Instant:
    if phase is None:
        return NOW
    event = schedule(state, "alone")
    if phase is Phase.CANCELLED:
        do(state, CancelEvent(event.id))
    if phase in (Phase.STARTED, Phase.COMPLETED, Phase.FAILED):
        started(state, event)
    if phase is Phase.COMPLETED:
        tick(state, NOW.after(600 * SECOND))
    if phase is Phase.FAILED:
        do(state, ReportImpact(event.id, "It did not work."))
    return NOW
