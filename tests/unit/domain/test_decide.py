"""`decide` answers every command there is, and changes nothing."""

import pytest

from duenotice.clock import Mark
from duenotice.domain import commands as c
from duenotice.domain.decide import decide
from duenotice.domain.event import EventType
from duenotice.domain.fleet import EventsPolicy
from duenotice.domain.snapshot import take
from duenotice.domain.subscription import PushFormat, SubscriptionStatus
from duenotice.domain.token import Role
from duenotice.domain.transitions import ClockMarked
from duenotice.errors import DuenoticeError, NotFound
from tests.unit.domain.build import (
    NOW,
    POLICY,
    SECOND,
    SEED,
    declaration,
    degrade,
    do,
    failed,
    id_of,
    listening,
    maintain,
    schedule,
    started,
)

MARK = Mark(NOW.at, NOW.steady)
EVERY_COMMAND: list[c.Command] = [
    c.ApplyFleet(declaration(digest="2")),
    c.ScheduleEvent(id_of(9), EventType.REBOOT, ("web-0",)),
    c.OperateVm(id_of(9), "web-0", EventType.REDEPLOY),
    c.ScaleSet("batch", SEED, by=2),
    c.DeleteInstances("batch", ("batch_0",), SEED),
    c.SetEventsPolicy("set/web", EventsPolicy(user_initiated_reboot=True)),
    c.OperateInstances("batch", ("batch_0",), EventType.REBOOT, SEED),
    c.ChangeScaleSet("batch", SEED, 3, 600),
    c.EvictVm(id_of(9), "spot"),
    c.DegradeHost("host-2", 3600 * SECOND, SEED),
    c.FailHost("host-1", SEED),
    c.HoldHost("host-1"),
    c.RepairHost("host-1"),
    c.LeaveMoved("host-1"),
    c.ApproveEvents((id_of(1),), "alone"),
    c.CancelEvent(id_of(1)),
    c.PostponeEvents((id_of(1),), SECOND),
    c.MakeUpForAbsence(),
    c.ReportImpact(id_of(2)),
    c.ReportAttempt(id_of(2), 1, "exit 1"),
    c.ClaimImpact(id_of(2), 1, "a"),
    c.AcceptImpact(id_of(2)),
    c.StartMaintenance(id_of(9), EventType.REBOOT, ("web-0", "web-1")),
    c.PauseMaintenance(id_of(3)),
    c.ResumeMaintenance(id_of(4)),
    c.RetryMaintenance(id_of(7)),
    c.CancelMaintenance(id_of(3)),
    c.CreateToken(id_of(9), "ann", Role.VIEWER, "0" * 64),
    c.RevokeToken(id_of(5)),
    c.BeginSession(id_of(5), "0" * 64, 3600 * SECOND),
    c.EndSession("1" * 64),
    c.EnableScope("alone"),
    c.DisableScopes(("vm/alone",)),
    c.CreateSubscription(id_of(9), "https://r/", PushFormat.CLOUDEVENTS, "s" * 16),
    c.PauseSubscription(id_of(6)),
    c.ResumeSubscription(id_of(6)),
    c.DeleteSubscription(id_of(6)),
    c.ReplaySubscription(id_of(6)),
    c.ClaimPushes("other"),
    c.ReportReceiver("me", id_of(6), SubscriptionStatus.ACTIVE),
    c.NotePushes("me", (c.PushNote(id_of(6), 9),)),
    c.LiftIncarnations(5),
    c.MarkClock(MARK),
    c.Tick(),
]


@pytest.mark.parametrize("command", EVERY_COMMAND, ids=lambda command: type(command).__name__)
def test_deciding_changes_nothing_however_often(command: c.Command) -> None:
    state = listening()
    schedule(state, "alone", number=1)
    started(state, schedule(state, "zonal", number=2))
    degrade(state, "host-1")
    maintain(state, "batch_0", number=3)
    maintain(state, "Front_IN_0", number=4)
    do(state, c.PauseMaintenance(id_of(4)))
    failed(state, "plain_0", number=7)
    do(state, c.CreateToken(id_of(5), "bob", Role.VIEWER, "1" * 64))
    do(state, c.CreateSubscription(id_of(6), "https://r/", PushFormat.EVENTGRID, "s" * 16))
    do(state, c.ClaimPushes("me"))
    do(state, c.NotePushes("me", (c.PushNote(id_of(6), 1, given_up=(c.GivenUp(1, id_of(1), "away"),)),)))
    before = take(state)
    first, second = (decide(state, command, NOW.after(900 * SECOND), POLICY) for _ in range(2))
    assert take(state) == before
    assert first == second


def test_the_commands_above_are_all_there_are() -> None:
    assert {type(command) for command in EVERY_COMMAND} == set(c.Command.__subclasses__())


def test_a_mark_of_the_clock_is_written_down_as_it_is() -> None:
    assert decide(listening(), c.MarkClock(MARK), NOW, POLICY) == [ClockMarked(MARK)]


def test_the_end_of_an_unknown_event_cannot_be_reported() -> None:
    with pytest.raises(NotFound, match="no event"):
        decide(listening(), c.ReportImpact(id_of(1)), NOW, POLICY)


def test_refusals_are_errors_of_ours_with_a_hint() -> None:
    with pytest.raises(DuenoticeError) as refusal:
        decide(listening(), c.EnableScope("nobody"), NOW, POLICY)
    assert refusal.value.hint
