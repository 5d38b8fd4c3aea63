"""What is done next to a domain, from any state in which an impact may have been interrupted."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duenotice.domain.event import EventType
from duenotice.host.hypervisor import GONE, DomainState, DomainStatus, Note
from duenotice.host.power import Action, Begin, CannotBe, IsOver, LookAgain, PowerOperation, WriteNote, next_step

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SOON, LATE = NOW + timedelta(seconds=9), NOW - timedelta(seconds=1)
RUNNING, PAUSED, OFF = DomainState.RUNNING, DomainState.PAUSED, DomainState.OFF


def step(kind: EventType, state: DomainState, note: Note | None = None, run: Note | None = None, **more):
    """The next step of a domain in this state, with a note kept and one in the run."""
    transient = more.pop("transient", False)
    here = DomainStatus(state, transient, () if note is None else (note,), () if run is None else (run,))
    return next_step(PowerOperation("e1", kind, here, NOW, duration=9, grace=60, **more))


def note(kind: EventType, at: str, until: datetime | None = SOON, **more) -> Note:
    return Note("e1", kind.value, at, until, **more)


FREEZE, REBOOT, TERMINATE = EventType.FREEZE, EventType.REBOOT, EventType.TERMINATE


class TestFreeze:
    def test_it_is_noted_before_it_pauses(self) -> None:
        assert step(FREEZE, RUNNING) == Begin(note(FREEZE, "begun"))
        assert step(FREEZE, RUNNING, note(FREEZE, "begun")) == Action.SUSPEND

    def test_it_stays_paused_until_its_time_and_is_then_resumed(self) -> None:
        assert step(FREEZE, PAUSED, note(FREEZE, "begun")) == WriteNote(note(FREEZE, "paused"))
        assert step(FREEZE, PAUSED, note(FREEZE, "paused")) == LookAgain(9)
        assert step(FREEZE, PAUSED, note(FREEZE, "paused", LATE)) == Action.RESUME

    def test_a_clock_that_was_set_back_does_not_keep_it_paused_for_hours(self) -> None:
        assert step(FREEZE, PAUSED, note(FREEZE, "paused", NOW + timedelta(hours=5))) == Action.RESUME

    def test_one_that_runs_again_is_not_paused_again(self) -> None:
        """It was killed after the resume."""
        over = step(FREEZE, RUNNING, note(FREEZE, "paused", LATE))
        assert over == WriteNote(note(FREEZE, "done", None, what="paused and resumed"))
        assert step(FREEZE, RUNNING, over.note) == IsOver("paused and resumed")

    def test_an_old_note_of_one_that_was_never_paused_is_written_again(self) -> None:
        """Else its pause would be shorter than what was promised."""
        assert step(FREEZE, RUNNING, note(FREEZE, "begun", LATE)) == Begin(note(FREEZE, "begun"))

    @pytest.mark.parametrize("state", [PAUSED, OFF])
    def test_what_somebody_else_has_stopped_is_left_alone(self, state: DomainState) -> None:
        assert isinstance(step(FREEZE, state), WriteNote)

    def test_a_transient_domain_has_its_note_in_its_run(self) -> None:
        assert step(FREEZE, PAUSED, None, note(FREEZE, "paused"), transient=True) == LookAgain(9)


AT: Any = {"boot": "b1", "steady": 50_000_000}


class TestClock:
    """An end that this machine has noted since its boot is counted since that boot: nobody can set that clock."""

    SET_FORWARD, SET_BACK = NOW - timedelta(hours=5), NOW + timedelta(hours=5)

    @pytest.mark.parametrize("until", [SET_FORWARD, SET_BACK], ids=["forward", "back"])
    def test_a_grace_is_as_long_as_promised_when_the_clock_is_set(self, until: datetime) -> None:
        begun = note(TERMINATE, "begun", until, boot="b1", ends=57_000_000)
        assert step(TERMINATE, RUNNING, begun, pressed=True, **AT) == LookAgain(7)
        assert step(TERMINATE, RUNNING, begun._replace(ends=50_000_000), pressed=True, **AT) == Action.DESTROY

    @pytest.mark.parametrize("until", [SET_FORWARD, SET_BACK], ids=["forward", "back"])
    def test_a_pause_is_as_long_as_promised_when_the_clock_is_set(self, until: datetime) -> None:
        paused = note(FREEZE, "paused", until, boot="b1", ends=57_000_000)
        assert step(FREEZE, PAUSED, paused, **AT) == LookAgain(7)
        assert step(FREEZE, PAUSED, paused._replace(ends=50_000_000), **AT) == Action.RESUME

    def test_both_clocks_are_noted_at_the_beginning(self) -> None:
        assert step(FREEZE, RUNNING, **AT) == Begin(note(FREEZE, "begun", boot="b1", ends=59_000_000))

    @pytest.mark.parametrize(("kind", "at", "state"), [(FREEZE, "paused", PAUSED), (TERMINATE, "begun", RUNNING)])
    def test_a_note_of_another_boot_goes_on_by_the_time_of_day_and_is_then_ours(
        self, kind: EventType, at: str, state: DomainState
    ) -> None:
        ours = note(kind, at, boot="b1", ends=59_000_000)
        assert step(kind, state, note(kind, at, boot="b0", ends=1), **AT) == WriteNote(ours)
        assert step(kind, state, note(kind, at), **AT) == WriteNote(ours)

    @pytest.mark.parametrize("now", [{}, AT], ids=["no-boot-id", "another-boot"])
    def test_a_clock_that_was_set_back_gives_no_more_than_the_whole_grace(self, now: Any) -> None:
        again = step(TERMINATE, RUNNING, note(TERMINATE, "begun", self.SET_BACK), **now)
        assert isinstance(again, WriteNote)
        assert again.note.until == NOW + timedelta(seconds=60)
        assert step(TERMINATE, RUNNING, again.note, **now) == Action.PRESS


class TestReboot:
    BEGUN = note(REBOOT, "begun")
    MARK = BEGUN._replace(mark=True)

    def test_the_run_is_marked_and_the_beginning_noted(self) -> None:
        begun = note(REBOOT, "begun", NOW + timedelta(seconds=60))
        assert step(REBOOT, RUNNING) == Begin(begun, marks=True)

    def test_the_button_is_pressed_and_the_guest_gets_its_grace(self) -> None:
        assert step(REBOOT, RUNNING, self.BEGUN, self.MARK) == Action.PRESS
        assert step(REBOOT, RUNNING, self.BEGUN, self.MARK, pressed=True) == LookAgain(9)

    def test_after_the_grace_its_plug_is_pulled(self) -> None:
        late = self.BEGUN._replace(until=LATE)
        assert step(REBOOT, RUNNING, late, self.MARK, pressed=True) == Action.DESTROY

    def test_one_that_is_paused_cannot_use_its_grace(self) -> None:
        assert step(REBOOT, PAUSED, self.BEGUN, self.MARK) == Action.DESTROY

    def test_one_that_is_down_is_started(self) -> None:
        assert step(REBOOT, OFF, self.BEGUN) == Action.START

    def test_one_whose_run_has_no_mark_was_started_again(self) -> None:
        over = step(REBOOT, RUNNING, self.BEGUN, self.BEGUN)
        assert over == WriteNote(note(REBOOT, "done", None, what="shut down and started again"))
        assert isinstance(step(REBOOT, RUNNING, over.note, self.BEGUN), IsOver)

    def test_one_that_was_off_stays_off(self) -> None:
        assert isinstance(step(REBOOT, OFF), WriteNote)

    def test_one_on_a_host_under_maintenance_waits_for_it(self) -> None:
        assert step(REBOOT, OFF, self.BEGUN, is_held=True) == LookAgain()

    def test_a_transient_one_would_be_lost(self) -> None:
        assert isinstance(step(REBOOT, RUNNING, transient=True), CannotBe)

    def test_one_that_is_not_there_fails(self) -> None:
        assert step(REBOOT, DomainState.GONE) == CannotBe("There is no such domain.")


class TestRedeploy:
    KIND = EventType.REDEPLOY
    BEGUN = note(KIND, "begun")

    def there(self, state: DomainState, here: DomainState = OFF, **more):
        return step(self.KIND, here, self.BEGUN, there=DomainStatus(state), moves=True, **more)

    def test_it_is_started_there_before_it_is_forgotten_here(self) -> None:
        assert self.there(DomainState.GONE) == Action.DEFINE_THERE
        assert self.there(OFF) == Action.START_THERE
        assert self.there(RUNNING) == Action.UNDEFINE
        over = next_step(PowerOperation("e1", self.KIND, GONE, NOW, DomainStatus(RUNNING), moves=True))
        assert over == IsOver("shut down, moved, and started on another host")

    def test_if_the_other_host_refuses_it_comes_back(self) -> None:
        assert self.there(OFF, refused="no") == Action.UNDEFINE_THERE
        assert self.there(DomainState.GONE, refused="no") == Action.START
        failed = self.there(DomainState.GONE, RUNNING, refused="no")
        assert failed == CannotBe("The other host did not take it, so it is back on its old one: no")

    def test_one_that_is_shut_off_moves_and_stays_off(self) -> None:
        begun = step(self.KIND, OFF, there=GONE, moves=True)
        assert begun.note.starts is False
        assert step(self.KIND, OFF, begun.note, there=DomainStatus(OFF), moves=True) == Action.UNDEFINE

    def test_without_another_host_it_is_started_where_it_was(self) -> None:
        assert step(self.KIND, OFF, self.BEGUN) == Action.START


class TestMigration:
    def test_it_moves_while_it_runs(self) -> None:
        begun = Note("e1", "freeze", "begun", starts=False, target="h2")
        assert step(FREEZE, RUNNING, there=GONE, moves=True, target="h2") == Begin(begun, marks=True)
        assert step(FREEZE, RUNNING, begun, there=GONE, moves=True, target="h2") == Action.MIGRATE
        over = next_step(PowerOperation("e1", FREEZE, GONE, NOW, DomainStatus(RUNNING), moves=True))
        assert over == IsOver("moved to another host")

    def test_one_that_is_refused_runs_on_here(self) -> None:
        begun = note(FREEZE, "begun", None)
        refused = step(FREEZE, RUNNING, begun, there=GONE, moves=True, refused="no")
        assert refused == CannotBe("It was not migrated: no")


class TestTerminate:
    BEGUN = note(TERMINATE, "begun")

    def test_it_gets_its_grace_and_is_then_destroyed(self) -> None:
        assert step(TERMINATE, RUNNING) == Begin(note(TERMINATE, "begun", NOW + timedelta(seconds=60)))
        assert step(TERMINATE, RUNNING, self.BEGUN) == Action.PRESS
        assert step(TERMINATE, RUNNING, self.BEGUN, pressed=True) == LookAgain(9)
        assert step(TERMINATE, RUNNING, self.BEGUN._replace(until=LATE), pressed=True) == Action.DESTROY

    def test_it_is_undefined_if_that_is_asked_for(self) -> None:
        assert step(TERMINATE, OFF, self.BEGUN, undefines=True) == Action.UNDEFINE
        assert step(TERMINATE, OFF, self.BEGUN) == WriteNote(note(TERMINATE, "done", None, what="shut down"))

    def test_one_that_is_gone_is_gone(self) -> None:
        assert step(TERMINATE, DomainState.GONE) == IsOver("it is gone")


class TestAnotherDomainOfTheSameName:
    """On the target: it was not moved there, so it is neither started nor undefined, and ours is not forgotten."""

    HERE, OTHER = "11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"

    def operation(self, state: DomainState, there: DomainState, kept: Note | None = None) -> object:
        notes = () if kept is None else (kept,)
        here = DomainStatus(state, kept=notes, uuid=self.HERE)
        other = DomainStatus(there, uuid=self.OTHER)
        return next_step(PowerOperation("e1", EventType.REDEPLOY, here, NOW, other, moves=True))

    @pytest.mark.parametrize("there", [RUNNING, PAUSED, OFF])
    def test_the_event_fails_before_anything_is_done(self, there: DomainState) -> None:
        assert isinstance(self.operation(RUNNING, there), CannotBe)

    @pytest.mark.parametrize("there", [RUNNING, PAUSED, OFF])
    def test_one_that_came_meanwhile_is_left_alone_and_ours_is_started_again(self, there: DomainState) -> None:
        begun = note(EventType.REDEPLOY, "begun")
        assert self.operation(OFF, there, begun) == Action.START
        assert isinstance(self.operation(RUNNING, there, begun), CannotBe)
