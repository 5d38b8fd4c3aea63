"""Subscriptions: who may be told by push, and what is written down of deliveries (M13)."""

from datetime import timedelta
from typing import Any

import pytest

from duenotice.clock import Instant, Mark
from duenotice.domain import commands as c
from duenotice.domain import records as t
from duenotice.domain.event import EventType
from duenotice.domain.fleet import Group, GroupKind
from duenotice.domain.rules.receivers import MOST_FILTERS, MOST_SUBSCRIPTIONS
from duenotice.domain.snapshot import restore, take
from duenotice.domain.state import State
from duenotice.domain.subscription import MOST_DEAD_LETTERS, DeadLetter, PushFormat, Subscription, SubscriptionStatus
from duenotice.errors import Conflict, LookAt, NotFound, Refused
from tests.unit.domain.build import HOUR, NOW, do, id_of, listening, schedule, state_of, take_in

SECRET = "0123456789abcdef"
ME = "process-1"
LATER = NOW.after(HOUR)


def create(state: State, number: int = 1, url: str = "https://r/a?code=k", **more: object) -> Subscription:
    """A subscription under an id made of its number."""
    values: dict[str, object] = {"secret": SECRET, **more}
    do(state, c.CreateSubscription(id_of(number), url, PushFormat.EVENTGRID, **values))  # type: ignore[arg-type]
    return state.subscriptions[id_of(number)]


def claimed(state: State) -> Subscription:
    """A subscription whose deliveries we have claimed."""
    made = create(state)
    do(state, c.ClaimPushes(ME))
    return made


def note(state: State, position: int, **more: object) -> list[t.Transition]:
    """Write down how far it is."""
    noted = c.PushNote(id_of(1), position, **more)  # type: ignore[arg-type]
    return do(state, c.NotePushes(ME, (noted,)), LATER)


def report(state: State, status: SubscriptionStatus, reason: str = "") -> list[t.Transition]:
    """Say what the receiver has answered."""
    return do(state, c.ReportReceiver(ME, id_of(1), status, reason), LATER)


def test_a_subscription_begins_where_the_journal_is_and_waits_for_its_receiver() -> None:
    state = state_of()
    made = create(state, types=(EventType.REBOOT,), groups=("web",), vms=("alone",))
    assert (made.status, made.position, made.since) == (SubscriptionStatus.WAITING, state.position - 1, NOW.at)
    assert (made.types, made.groups, made.vms) == ((EventType.REBOOT,), ("set/web",), ("alone",))


@pytest.mark.parametrize(
    ("at", "steady", "is_too_late"),
    [(24, 24, True), (23, 24, False), (24, 23, False), (2400, 1, False), (-2400, 48, False)],
)
def test_a_message_is_given_up_when_a_day_is_over_by_both_faces_of_time(
    at: int, steady: int, is_too_late: bool
) -> None:
    """Since it happened, and since the subscription was resumed (S34)."""
    made, hour = create(state_of()), timedelta(hours=1)
    now = Instant(NOW.at + at * hour, NOW.steady + steady * HOUR)
    assert made.is_too_late(now, t.Record(1, NOW.at, "me", t.ClockMarked(Mark(*NOW)), NOW.steady).when) is is_too_late
    assert made.is_too_late(now) is is_too_late
    assert not made.is_too_late(now, now)


def test_a_snapshot_keeps_subscriptions_and_who_delivers() -> None:
    state = state_of()
    made = claimed(state)
    again = restore(take(state))
    assert (again.subscriptions, again.push_claim) == ({made.id: made}, ME)
    assert (state.copy().subscriptions, state.copy().push_claim) == ({made.id: made}, ME)


def test_what_is_told_to_others_has_no_secrets() -> None:
    made = create(state_of(), bearer="b" * 20)
    told = made.without_secrets()
    assert (told.url, told.secret, told.bearer) == ("https://r/a?***", "", "")
    assert made.with_(url="https://r/a").without_secrets().url == "https://r/a"


@pytest.mark.parametrize(
    "secret", ["", "short", "s" * 501, "with a space in it", "ungewöhnliches-wort", "line\nbreak" * 3]
)
def test_a_secret_is_long_and_plain(secret: str) -> None:
    with pytest.raises(Refused, match="secret is not valid"):
        create(state_of(), secret=secret)


@pytest.mark.parametrize("bearer", ["a b", "ä", "b" * 2001])
def test_a_bearer_is_plain(bearer: str) -> None:
    with pytest.raises(Refused, match="bearer is not valid"):
        create(state_of(), bearer=bearer)


def test_a_bearer_needs_https() -> None:
    with pytest.raises(Refused, match="not sent over plain http"):
        create(state_of(), url="http://r/", bearer="b")


def test_there_is_an_end_to_subscriptions_and_to_what_they_name() -> None:
    state = state_of()
    with pytest.raises(Refused, match="Too many groups"):
        create(state, vms=("alone",) * (MOST_FILTERS + 1))
    for number in range(MOST_SUBSCRIPTIONS):
        create(state, number)
    with pytest.raises(Refused, match="which is the limit"):
        create(state, MOST_SUBSCRIPTIONS)


def test_what_is_named_exists() -> None:
    state = state_of()
    with pytest.raises(NotFound, match="no group named 'wep'") as refused:
        create(state, groups=("wep",))
    assert refused.value.look_at is LookAt.GROUPS
    with pytest.raises(NotFound, match="no VM named 'wep-0'"):
        create(state, vms=("wep-0",))
    take_in(state, [t.GroupsPut((Group(GroupKind.SCALE_SET, "web"),))])
    with pytest.raises(Conflict, match="Several groups"):
        create(state, groups=("web",))
    assert create(state, groups=("scale-set/web",)).groups == ("scale-set/web",)


@pytest.mark.parametrize(
    ("asks", "wanted"),
    [
        ({}, True),
        ({"types": (EventType.REBOOT,)}, True),
        ({"types": (EventType.FREEZE,)}, False),
        ({"groups": ("set/web",)}, True),
        ({"groups": ("scale-set/batch",)}, False),
        ({"vms": ("web-2",)}, True),
        ({"vms": ("web-1",)}, False),
        ({"groups": ("scale-set/batch",), "vms": ("web-0",)}, True),
        ({"types": (EventType.FREEZE,), "groups": ("set/web",)}, False),
    ],
)
def test_it_wants_types_and_places(asks: dict[str, Any], wanted: bool) -> None:
    """One of the types; and one of the groups or one of the VMs."""
    state = listening()
    event = schedule(state, "web-0", "web-2")
    assert create(state, 2, **asks).wants(event) is wanted


def test_a_scale_set_is_wanted_with_all_of_its_placement_groups() -> None:
    state = listening()
    event = schedule(state, "batch_100")
    assert create(state, 2, groups=("scale-set/batch",)).wants(event)


def test_a_paused_one_is_resumed_by_asking_its_receiver_again() -> None:
    """A day begins anew for what has waited meanwhile."""
    state = state_of()
    made = claimed(state)
    report(state, SubscriptionStatus.ACTIVE)
    assert do(state, c.ResumeSubscription(made.id)) == []
    do(state, c.PauseSubscription(made.id))
    assert do(state, c.PauseSubscription(made.id)) == []
    do(state, c.ResumeSubscription(made.id), LATER)
    resumed = state.subscriptions[made.id]
    assert (resumed.status, resumed.since) == (SubscriptionStatus.WAITING, NOW.at + timedelta(hours=1))
    assert do(state, c.ResumeSubscription(made.id)) == []


def test_a_deleted_one_is_gone() -> None:
    state = state_of()
    made = claimed(state)
    do(state, c.DeleteSubscription(made.id))
    assert (state.subscriptions, note(state, 9)) == ({}, [])
    with pytest.raises(NotFound, match="no subscription") as refused:
        do(state, c.PauseSubscription(made.id))
    assert refused.value.look_at is LookAt.SUBSCRIPTIONS


def test_what_a_receiver_answers_is_written_down_once() -> None:
    state = state_of()
    made = claimed(state)
    assert report(state, SubscriptionStatus.WAITING, "away") != []
    assert report(state, SubscriptionStatus.WAITING, "away") == []
    assert state.subscriptions[made.id].since == NOW.at
    report(state, SubscriptionStatus.REFUSED, "no")
    assert (state.subscriptions[made.id].status, state.subscriptions[made.id].reason) == (
        SubscriptionStatus.REFUSED,
        "no",
    )
    assert report(state, SubscriptionStatus.ACTIVE) == []


def test_only_who_has_claimed_it_may_say_what_is_delivered() -> None:
    """N12: a leader that does not know yet that another one leads changes nothing."""
    state = state_of()
    claimed(state)
    do(state, c.ClaimPushes("process-2"))
    with pytest.raises(Conflict, match="Another process delivers"):
        note(state, 9)
    with pytest.raises(Conflict, match="Another process delivers"):
        report(state, SubscriptionStatus.ACTIVE)


def test_what_is_delivered_and_what_is_left_is_noted() -> None:
    state = state_of()
    made = claimed(state)
    note(state, 9, pending=(7, 5), trouble="It answered 500.")
    noted = state.subscriptions[made.id]
    assert (noted.position, noted.pending, noted.trouble) == (9, (5, 7), "It answered 500.")
    note(state, 12, pending=(7,), done=(5,))
    noted = state.subscriptions[made.id]
    assert (noted.position, noted.pending, noted.trouble) == (12, (7,), "")


def given_up(*positions: int) -> tuple[c.GivenUp, ...]:
    return tuple(c.GivenUp(position, f"E-{position}", "no answer") for position in positions)


def test_what_is_given_up_is_set_aside_and_can_be_replayed() -> None:
    """Also while somebody else is noting how far it is."""
    state = state_of()
    made = claimed(state)
    note(state, 9, done=(3, 4, 5), given_up=given_up(3, 4, 5))
    aside = state.subscriptions[made.id].dead_letters
    assert aside[0] == DeadLetter(3, "E-3", LATER.at, "no answer")
    do(state, c.ReplaySubscription(made.id, ("E-4",)), LATER)
    note(state, 10, done=(9,))
    replayed = state.subscriptions[made.id]
    assert (replayed.pending, [each.position for each in replayed.dead_letters]) == ((4,), [3, 5])
    assert replayed.since == LATER.at
    do(state, c.ReplaySubscription(made.id), LATER)
    assert state.subscriptions[made.id].pending == (3, 4, 5)
    with pytest.raises(Conflict, match="None of that is a dead letter"):
        do(state, c.ReplaySubscription(made.id))


def test_what_is_set_aside_is_limited() -> None:
    """S24: the oldest is forgotten first, and counted."""
    state = state_of()
    made = claimed(state)
    note(state, 2000, given_up=given_up(*range(1, MOST_DEAD_LETTERS + 3)))
    kept = state.subscriptions[made.id]
    assert (len(kept.dead_letters), kept.dead_letters[0].position, kept.dropped) == (MOST_DEAD_LETTERS, 3, 2)
    note(state, 2010, given_up=given_up(2005))
    kept = state.subscriptions[made.id]
    assert (len(kept.dead_letters), kept.dead_letters[0].position, kept.dropped) == (MOST_DEAD_LETTERS, 4, 3)
