"""`decide` answers every command there is, and changes nothing."""

from contextlib import suppress
from datetime import timedelta

import pytest

from duenotice.clock import LAST_MOMENT, Instant, Mark
from duenotice.domain import commands as c
from duenotice.domain.apply import apply
from duenotice.domain.event import EventType, Phase
from duenotice.domain.fleet import EventsPolicy
from duenotice.domain.records import ClockMarked, EventRaised
from duenotice.domain.rules.decide import decide
from duenotice.domain.rules.due import next_due
from duenotice.domain.rules.timing import LAST_TOLD
from duenotice.domain.snapshot import take
from duenotice.domain.subscription import PushFormat, SubscriptionStatus
from duenotice.domain.token import Role
from duenotice.errors import DuenoticeError, NotFound, Refused
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
    tick,
)

MARK = Mark(NOW.at, NOW.steady)
EVERY_COMMAND: list[c.Command] = [
    c.ApplyFleet(declaration(digest="2")),
    c.ScheduleEvent(id_of(9), EventType.REBOOT, ("web-0",)),
    c.OperateVm(id_of(9), "web-0", EventType.REDEPLOY),
    c.ScaleSet("batch", SEED, by=2),
    c.DeleteInstances("batch", ("batch_0",), SEED),
    c.SetEventsPolicy("set/web", EventsPolicy(user_initiated_reboot=True)),
    c.OperateInstances("batch", ("batch_0",), EventType.REBOOT, SEED, reimage=True),
    c.ChangeScaleSet("batch", SEED, 3, 600),
    c.EvictVm(id_of(9), "spot"),
    c.DegradeHost("host-2", 3600 * SECOND, SEED),
    c.ReportHealth("impact-1", "alone", "Resource.Hpc.Unhealthy.MissingIB", "no port", NOW.at, SEED),
    c.FailHost("host-1", SEED),
    c.HoldHost("host-1"),
    c.RepairHost("host-1"),
    c.LeaveMoved("host-1"),
    c.ApproveEvents((id_of(1),), "alone"),
    c.CancelEvent(id_of(1)),
    c.AcknowledgeFailures(maintenance_id=id_of(7)),
    c.PostponeEvents((id_of(1),), SECOND),
    c.MakeUpForDowntime(),
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


@pytest.mark.parametrize("left", [0, 1, 900, 40_000])
@pytest.mark.parametrize("command", EVERY_COMMAND, ids=lambda command: type(command).__name__)
def test_near_the_end_of_all_dates_it_is_decided_or_refused_with_a_sentence(command: c.Command, left: int) -> None:
    """So many seconds before: a wrong clock breaks no rule, and promises no notice that is not given (S2)."""
    state = listening()
    maintain(state, "Front_IN_0", number=4)
    far = Instant(LAST_MOMENT - timedelta(seconds=left), NOW.steady)
    with suppress(DuenoticeError):
        for change in decide(state, command, far, POLICY):
            assert not isinstance(change, EventRaised) or change.event.phase is Phase.STARTED
            apply(state, change)
    tick(state, far)
    assert next_due(state, far.steady, far.at) is None or next_due(state, far.steady, far.at) != far.steady


def test_what_tells_vms_of_a_time_is_refused_when_there_are_no_dates_left() -> None:
    far = Instant(LAST_TOLD, NOW.steady)
    for command in (c.DegradeHost("host-2", 3600 * SECOND, SEED), c.EvictVm(id_of(9), "spot")):
        assert decide(listening(), command, Instant(LAST_TOLD - timedelta(seconds=1), NOW.steady), POLICY)
        with pytest.raises(Refused, match="the year 9990: there are no dates left"):
            decide(listening(), command, far, POLICY)


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
