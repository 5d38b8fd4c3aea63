"""The agent's rules, as tables: what a document changes, and what is to be done next."""

from datetime import timedelta
from typing import Any

import pytest

from duenotice.agent.planner import (
    RESERVE,
    ApprovalPolicy,
    Approve,
    AskPeers,
    HandlerSpec,
    LookAgain,
    PeerAnswers,
    Prepare,
    Recover,
    Wait,
    is_in_service,
    is_ready,
    next_steps,
    observe,
    on_boot,
    unprepared,
)
from duenotice.agent.state import LedgerRecord, apply
from tests.unit.agent.build import ID, ME, NOW, event, events, record, seen, world

OTHER = "11111111-1111-1111-1111-111111111111"
ALL_READY = ApprovalPolicy("all-ready")
BOTH = (ME, "web-1")


def whats(records: object) -> list[tuple[str, str]]:
    assert hasattr(records, "__iter__")
    return [(each.kind, each.reason) for each in records if isinstance(each, LedgerRecord)]


# What a document changes


def test_only_events_that_hit_me_are_seen():
    """A neighbour's event is none of mine (H01)."""
    document = [event(), event(event_id=OTHER, resources=("web-1",))]
    assert [each.event_id for each in observe(document, {}, world())] == [ID]


def test_every_outstanding_event_is_seen():
    """Not only the first of the document (H01)."""
    document = [event(), event(event_id=OTHER)]
    assert [each.event_id for each in observe(document, {}, world())] == [ID, OTHER]


def test_an_event_that_did_not_change_is_not_recorded_again():
    """The ledger does not grow with the polls (S24)."""
    assert list(observe([event()], events(seen()), world())) == []


def test_an_event_that_is_gone_turns_the_case():
    """Finished or cancelled, it is the same: the way back begins (H05)."""
    assert whats(observe([], events(seen()), world())) == [("returning", "gone")]


def test_an_event_that_no_longer_hits_me_is_gone_for_me():
    """When this VM was taken out of Resources, it returns to service."""
    assert whats(observe([event(resources=("web-1",))], events(seen()), world())) == [("returning", "gone")]


def test_a_case_turns_only_once():
    """The turn is recorded, so a second empty document adds nothing (S15)."""
    turned = events(seen(), record("preparing", "a"), record("returning", reason="gone"))
    assert list(observe([], turned, world())) == []


@pytest.mark.parametrize(("status", "opens"), [("Scheduled", True), ("Started", False)])
def test_an_event_that_comes_back(status: str, opens: bool):
    """One that was put back and is Scheduled again is a new case; one that is merely still Started is not."""
    closed = events(seen(), record("preparing", "a"), record("returning", reason="gone"), record("recovered", "a"))
    assert (whats(observe([event(status)], closed, world())) == [("seen", "")]) == opens


def test_an_event_that_comes_back_waits_for_the_way_back():
    """What is half put back is not prepared again."""
    turned = events(seen(), record("preparing", "a"), record("returning", reason="gone"))
    assert list(observe([event()], turned, world())) == []
    assert next_steps(turned, world("a")) == [Recover(ID, "a")]


def test_drills_and_documents_do_not_end_each_other():
    """A document without the drill's event says nothing about the drill, and the other way round."""
    both = events(seen(), seen(event(event_id="DRILL-1"), drill=True))
    assert [each.event_id for each in observe([], both, world())] == [ID]
    assert [each.event_id for each in observe([], both, world(), drill=True)] == ["DRILL-1"]


# Another boot


@pytest.mark.parametrize(
    ("then", "now", "turns"), [("boot-1", "boot-2", True), ("boot-1", "boot-1", False), ("", "boot-2", False)]
)
def test_what_was_begun_before_a_reboot_is_put_back(then: str, now: str, turns: bool):
    """Told by the boot's name, with or without a document (H05, S15); a kernel that does not tell changes nothing."""
    begun = events(seen(), record("preparing", "a", boot=then))
    assert whats(on_boot(begun, world("a", boot=now))) == ([("returning", "rebooted")] if turns else [])


def test_a_reboot_before_anything_was_begun_changes_nothing():
    """Only if preparation had begun there is a way back (S15)."""
    assert list(on_boot(events(seen()), world("a", boot="boot-2"))) == []


def test_the_event_that_rebooted_us_is_not_prepared_for_again():
    """It is still Started in the document for minutes after the reboot."""
    back = events(seen(), record("preparing", "a"), record("returning", reason="rebooted"), record("recovered", "a"))
    assert list(observe([event("Started")], back, world("a", boot="boot-2"))) == []
    assert next_steps(back, world("a", boot="boot-2")) == []


# Preparing


def test_handlers_run_in_the_rules_order_one_after_the_other():
    """The second begins when the first is through."""
    both = world("a", "b")
    assert next_steps(events(seen()), both) == [Prepare(ID, "a", 60.0)]
    assert next_steps(events(seen(), record("preparing", "a"), record("prepared", "a")), both) == [
        Prepare(ID, "b", 60.0)
    ]


def test_a_failed_handler_does_not_keep_the_next_from_running():
    """Each runs at least once: the event comes whether we are ready or not (S13)."""
    failed = events(seen(), record("preparing", "a"), record("failed", "a"))
    assert next_steps(failed, world("a", "b")) == [Prepare(ID, "b", 60.0)]


def test_a_handler_that_was_cut_off_runs_again():
    """`preparing` without an end is what kill -9 leaves (S13)."""
    assert next_steps(events(seen(), record("preparing", "a")), world("a")) == [Prepare(ID, "a", 60.0)]


@pytest.mark.parametrize(
    ("notice", "timeout", "seconds"),
    [(900, 60, 60), (30, 60, 30 - RESERVE), (RESERVE + 1, 60, 1), (RESERVE, 60, None), (-5, 60, None)],
)
def test_the_notice_left_cuts_the_timeout(notice: float, timeout: float, seconds: float | None):
    """A reserve is kept for the approval; when nothing is left nothing begins (H07)."""
    steps = next_steps(events(seen(event(notice=notice))), world(HandlerSpec("a", timeout=timeout)))
    assert steps == ([] if seconds is None else [Prepare(ID, "a", seconds)])


def test_an_event_first_seen_started_is_not_prepared_for():
    """It gave no notice, and may be over but for the document (D04)."""
    assert next_steps(events(seen(event("Started"))), world("a")) == []


def test_work_goes_on_when_somebody_else_approved():
    """The NotBefore we were told still bounds it."""
    begun = events(seen(), record("preparing", "a"), record("prepared", "a"), seen(event("Started")))
    assert next_steps(begun, world("a", "b")) == [Prepare(ID, "b", 60.0)]


def test_changed_content_is_prepared_for_again():
    """What was done for other Resources counts for nothing (S12)."""
    done = [seen(), record("preparing", "a"), record("prepared", "a")]
    assert next_steps(events(*done), world("a")) == [Approve(ID)]
    assert next_steps(events(*done, seen(event(resources=BOTH))), world("a")) == [Prepare(ID, "a", 60.0)]


def test_a_later_not_before_changes_nothing_but_the_time():
    """Postponed is not changed (S12)."""
    postponed = events(seen(), record("preparing", "a"), record("prepared", "a"), seen(event(notice=1800)))
    assert next_steps(postponed, world("a")) == [Approve(ID)]


def test_nothing_is_prepared_before_a_document_was_read():
    """The ledger says what was, not what is (S14)."""
    assert next_steps(events(seen()), world("a", document_read=False)) == []


def test_a_rule_may_want_to_begin_late():
    """Seven days of notice are no reason to drain for seven days."""
    far = event(notice=7 * 86400)
    steps = next_steps(events(seen(far)), world("a", rule={"within": 900.0}))
    assert steps == [Wait(ID, NOW + timedelta(days=7, seconds=-900))]
    assert next_steps(events(seen(event(notice=900))), world("a", rule={"within": 900.0})) == [Prepare(ID, "a", 60.0)]


def test_what_was_begun_late_goes_on_when_the_event_moves_away_again():
    """A handler that was cut off half way does not wait for days to be through (S13)."""
    begun = events(seen(), record("preparing", "a"), seen(event(notice=7 * 86400)))
    assert next_steps(begun, world("a", rule={"within": 900.0})) == [Prepare(ID, "a", 60.0)]


def test_an_event_without_a_rule_is_left_alone():
    """Nobody said that it may start."""
    assert next_steps(events(seen()), world(rule={"types": ("Freeze",)})) == []


# Approving

DONE = (record("preparing", "a"), record("prepared", "a"))
FAILED = (record("preparing", "a"), record("failed", "a"))


def test_nothing_to_do_is_ready_at_once():
    """An empty list of handlers says that the event may come."""
    assert next_steps(events(seen()), world()) == [Approve(ID)]


@pytest.mark.parametrize(
    ("policy", "shown", "approves"),
    [
        ("own", event(), True),
        ("never", event(), False),
        ("own", event("Started"), False),
        ("own", event("Frozen"), False),
        ("own", event(resources=BOTH), True),
        ("own", event(resources=("web-1", ME)), False),
    ],
)
def test_when_the_leader_approves(policy, shown, approves):
    """Only a Scheduled event, only if the policy says so, only the first of Resources (H03)."""
    done = (seen(shown), *(record(each.kind, "a", of=shown) for each in DONE))
    assert (next_steps(events(*done), world("a", approval=ApprovalPolicy(policy))) == [Approve(ID)]) == approves


@pytest.mark.parametrize(
    ("required", "anyhow", "approves"), [(True, False, False), (True, True, True), (False, False, True)]
)
def test_failed_work_holds_the_approval_back(required: bool, anyhow: bool, approves: bool):
    """Unless it was best effort, or the rule says so (H04)."""
    spec = HandlerSpec("a", required)
    steps = next_steps(events(seen(), *FAILED), world(spec, rule={"approve_after_failure": anyhow}))
    assert (steps == [Approve(ID)]) == approves


def test_an_approval_is_given_once_for_a_content():
    """And again if the content changed and was prepared for."""
    approved, wider = [seen(), *DONE, record("approved")], event(resources=BOTH)
    assert next_steps(events(*approved), world("a")) == []
    again = [seen(wider), *(record(each.kind, "a", of=wider) for each in DONE)]
    assert next_steps(events(*approved, *again), world("a")) == [Approve(ID)]


def test_a_drill_is_never_approved():
    """Nothing of a rehearsal reaches the service (S12)."""
    assert next_steps(events(seen(drill=True), *DONE), world("a")) == []


ADVISED: dict[str, Any] = {"type": "SpotRebalanceRecommendation"}
NAMED = {"types": ("SpotRebalanceRecommendation",)}


@pytest.mark.parametrize("notice", [30.0, 1.0, -3600.0])
def test_advice_is_prepared_for_without_a_deadline(notice: float):
    """Its NotBefore says nothing: a handler gets its whole time, also long after, and nothing was missed."""
    advised, now = event(**ADVISED, notice=notice), world("a", rule=NAMED)
    known = events(seen(advised))
    assert next_steps(known, now) == [Prepare(ID, "a", 60.0)]
    assert list(unprepared(known, now)) == []


def test_advice_that_was_prepared_for_is_never_approved_and_put_back_when_it_is_gone():
    """H04: it is not a deadline, so nobody waits for an approval; withdrawn, it is over like any event (H05)."""
    advised, now = event(**ADVISED), world("a", rule=NAMED)
    known = events(seen(advised), record("preparing", "a", advised), record("prepared", "a", advised))
    assert next_steps(known, now) == []
    for each in observe([], known, now):
        apply(known, each)
    assert next_steps(known, now) == [Recover(ID, "a")]


def test_advice_is_left_alone_unless_a_rule_names_it():
    """A drain because of a mere risk is a choice, so a rule for everything else does not mean it."""
    assert next_steps(events(seen(event(**ADVISED))), world("a")) == []


def test_all_ready_asks_the_others_first():
    """The leader approves when every VM in Resources is ready for this content (H04)."""
    hit = event(resources=BOTH)
    ready = events(seen(hit), record("preparing", "a", of=hit), record("prepared", "a", of=hit))
    revision = ready[ID].revision
    ask = [AskPeers(ID, ("web-1",), ())]
    for news, steps in (
        ({}, ask),
        ({ID: PeerAnswers(revision)}, ask),
        ({ID: PeerAnswers("other", frozenset({"web-1"}))}, ask),
        ({ID: PeerAnswers(revision, frozenset({"web-1"}))}, [Approve(ID)]),
    ):
        assert next_steps(ready, world("a", approval=ALL_READY, peer_answers=news)) == steps


def test_all_ready_means_every_one_of_the_others():
    """One that is ready does not speak for the other (H04)."""
    hit = event(resources=(*BOTH, "web-2"))
    ready = events(seen(hit), *(record(each.kind, "a", of=hit) for each in DONE))
    one = {ID: PeerAnswers(ready[ID].revision, frozenset({"web-1"}))}
    both = {ID: PeerAnswers(ready[ID].revision, frozenset({"web-1", "web-2"}))}
    assert next_steps(ready, world("a", approval=ALL_READY, peer_answers=one)) == [AskPeers(ID, ("web-1", "web-2"), ())]
    assert next_steps(ready, world("a", approval=ALL_READY, peer_answers=both)) == [Approve(ID)]


def test_all_ready_needs_nobody_when_only_i_am_hit():
    """There is nobody to ask."""
    assert next_steps(events(seen(), *DONE), world("a", approval=ALL_READY)) == [Approve(ID)]


@pytest.mark.parametrize(("in_service", "approves"), [(("web-1", "web-2"), True), (("web-1",), False), ((), False)])
def test_the_guard_keeps_enough_of_the_group(in_service, approves):
    """Those that are hit are not counted, whatever they say."""
    guarded = ApprovalPolicy("own", ("web-0", "web-1", "web-2"), keep=2)
    ready = events(seen(), *DONE)
    peer_answers = {ID: PeerAnswers(ready[ID].revision, frozenset(), frozenset(in_service))}
    steps = next_steps(ready, world("a", approval=guarded, peer_answers=peer_answers))
    assert steps == ([Approve(ID)] if approves else [AskPeers(ID, (), ("web-1", "web-2"))])


def test_the_guard_does_not_count_a_neighbour_that_is_hit_too():
    """It is in service now, and will not be (H04)."""
    hit = event(resources=BOTH)
    guarded = ApprovalPolicy("own", ("web-0", "web-1", "web-2"), keep=1)
    ready = events(seen(hit), *(record(each.kind, "a", of=hit) for each in DONE))
    peer_answers = {ID: PeerAnswers(ready[ID].revision, frozenset(), frozenset({"web-1"}))}
    assert next_steps(ready, world("a", approval=guarded, peer_answers=peer_answers)) == [AskPeers(ID, (), ("web-2",))]


def test_what_a_peer_is_told():
    """Ready means: prepared for, and not on the way back."""
    assert is_ready(events(seen(), *DONE)[ID], world("a"))
    assert not is_ready(events(seen())[ID], world("a"))
    assert not is_ready(events(seen(), *FAILED)[ID], world("a"))
    assert not is_ready(events(seen(), *DONE)[ID], world("a", document_read=False))
    assert not is_ready(events(seen(), *DONE, record("returning", reason="gone"))[ID], world("a"))


def test_in_service_means_that_nothing_is_left_to_put_back():
    """From the first preparing to the last recovered the VM does not count."""
    assert is_in_service(events(seen()))
    assert not is_in_service(events(seen(), record("preparing", "a")))
    back = events(seen(), *DONE, record("returning", reason="gone"), record("recovered", "a"))
    assert is_in_service(back)


def test_a_machine_that_an_event_is_upon_is_not_in_service():
    """Also where no handler had anything to do; a drill takes nothing away by itself."""
    started = seen(event("Started"))
    assert not is_in_service(events(seen(), record("approved")))
    assert not is_in_service(events(started))
    assert is_in_service(events(started, record("returning", reason="gone")))
    assert is_in_service(events(seen(event("Started"), drill=True)))


# The way back

TURN = record("returning", reason="gone")


def test_the_way_back_runs_in_the_opposite_order():
    """The last thing that was done is undone first, and what failed half way too (S15)."""
    done = [seen(), *DONE, record("preparing", "b"), record("failed", "b"), TURN]
    assert next_steps(events(*done), world("a", "b")) == [Recover(ID, "b")]
    assert next_steps(events(*done, record("recovered", "b")), world("a", "b")) == [Recover(ID, "a")]
    assert next_steps(events(*done, record("recovered", "b"), record("recovered", "a")), world("a", "b")) == []


def test_only_what_was_begun_is_put_back():
    """A handler that never ran has nothing to undo (S15)."""
    assert next_steps(events(seen(), TURN), world("a")) == []


def test_optional_handlers_are_put_back_one_after_another_too():
    """The next begins when the one before is through, or has failed once (S15)."""
    optional = [HandlerSpec(name, required=False) for name in "ab"]
    done = [seen(), *DONE, record("preparing", "b"), record("prepared", "b"), TURN]
    assert next_steps(events(*done), world(*optional)) == [Recover(ID, "b")]
    assert next_steps(events(*done, record("recovering", "b")), world(*optional)) == [Recover(ID, "b")]


@pytest.mark.parametrize(("required", "steps"), [(True, ["b"]), (False, ["b", "a"])])
def test_what_is_stuck_holds_up_the_rest_only_if_it_is_required(required: bool, steps: list[str]):
    """A chat message that cannot be sent does not keep a machine out of service."""
    stuck = [seen(), *DONE, record("preparing", "b"), TURN, record("recovering", "b"), record("stuck", "b", reason="x")]
    found = next_steps(events(*stuck), world("a", HandlerSpec("b", required)))
    assert [step.handler for step in found if isinstance(step, Recover)] == steps


@pytest.mark.parametrize(("seconds", "steps"), [(59, ["b"]), (60, ["b", "a"])])
def test_the_rest_waits_only_so_long_for_what_is_stuck(seconds: int, steps: list[str]):
    """A machine whose last step cannot be put back would stay drained as a whole."""
    stuck = [seen(), *DONE, record("preparing", "b"), TURN, record("recovering", "b"), record("stuck", "b", reason="x")]
    now = NOW + timedelta(seconds=seconds)
    found = next_steps(events(*stuck), world("a", HandlerSpec("b", holds=60.0), now=now))
    assert [step.handler for step in found if isinstance(step, Recover)] == steps


SKIPPED = record("skipped", "a", reason="by hand")


@pytest.mark.parametrize(
    "before",
    [[], [record("preparing", "a")], [record("preparing", "a"), record("failed", "a", reason="x")]],
    ids=["not begun", "begun", "failed"],
)
def test_an_event_is_approved_without_a_handler_that_a_person_has_skipped(before: list[LedgerRecord]):
    """What it had begun is put back all the same, and what it had not begun is not (S15)."""
    known = events(seen(), *before, SKIPPED)
    assert next_steps(known, world("a")) == [Approve(ID)]
    for each in (record("again", "a"), TURN):
        apply(known, each)
    assert next_steps(known, world("a")) == ([Recover(ID, "a")] if before else [])


def test_a_skipped_handler_is_skipped_for_what_the_event_was_then():
    """When other VMs are hit, it is run after all (S12)."""
    wider = event(resources=(ME, "web-1"))
    assert next_steps(events(seen(), SKIPPED, seen(wider)), world("a")) == [Prepare(ID, "a", 60.0)]


@pytest.mark.parametrize("what", ["again", "undone"])
def test_what_is_to_be_done_again_does_not_count_as_done(what: str):
    """A person says so, or it was undone (S12)."""
    known = events(seen(), *DONE, record(what, "a", reason=""))
    assert not is_ready(known[ID], world("a"))
    assert next_steps(known, world("a")) == [Prepare(ID, "a", 60.0)]


@pytest.mark.parametrize(
    ("records", "again"),
    [
        (DONE, 0),
        ([*DONE, record("undone", "a")], 1),
        ([*DONE, record("undone", "a"), *DONE], 1),
        ([*DONE, record("undone", "a"), record("preparing", "a"), record("again", "a")], 1),
        ([*DONE, record("undone", "a"), *DONE, record("again", "a")], 2),
        ([record("preparing", "a"), record("failed", "a"), record("again", "a")], 0),
    ],
)
def test_what_had_worked_and_is_to_be_done_again_is_counted(records: list[LedgerRecord], again: int):
    """A hook of before does not count then; one that has failed goes on where it ended (S13)."""
    assert events(seen(), *records)[ID].runs["a"].again == again


def test_what_a_person_has_skipped_on_the_way_back_is_not_put_back_any_more():
    """The case is over then."""
    known = events(seen(), *DONE, TURN, record("recovering", "a"), record("stuck", "a", reason="x"), SKIPPED)
    assert next_steps(known, world("a")) == [] and known[ID].is_closed


@pytest.mark.parametrize(
    ("looks", "seconds", "looked_at"), [(True, 10, True), (True, 9, False), (False, 10, False), (True, 900 - 2, False)]
)
def test_what_is_prepared_is_looked_at_again_until_the_event_begins(looks: bool, seconds: int, looked_at: bool):
    """Not at once, or a handler whose work is undone each time would run all the time."""
    found = next_steps(
        events(seen(), *DONE), world(HandlerSpec("a", looks=looks), now=NOW + timedelta(seconds=seconds))
    )
    assert (LookAgain(ID, "a") in found) is looked_at


LATE = {"now": NOW + timedelta(minutes=15)}
BEGUN = [seen(), record("preparing", "a")]
STARTED = seen(event("Started"))


@pytest.mark.parametrize(
    ("records", "now", "why"),
    [
        ([seen()], LATE, "there was no time for a."),
        (BEGUN, LATE, "a was not done in time."),
        ([*BEGUN, record("failed", "a", reason="exit 3.")], LATE, "a has failed: exit 3."),
        ([seen(), *DONE, record("undone", "a", reason="x")], LATE, "a was undone."),
        ([seen(), *DONE, seen(event(resources=BOTH))], LATE, "a was done for what the event was before."),
        ([STARTED], {}, "it had started when it was first seen."),
        ([*BEGUN, STARTED], {}, "a was not done in time."),
        ([*BEGUN], {"now": NOW + timedelta(minutes=14, seconds=59)}, None),
        ([seen(), *DONE, STARTED], {}, None),
        ([seen(), SKIPPED, STARTED], {}, None),
        ([*BEGUN, TURN], LATE, None),
        ([*BEGUN, STARTED, record("unprepared", reason="x")], {}, None),
        ([seen(drill=True)], LATE, None),
        ([seen()], {**LATE, "document_read": False}, None),
        ([seen()], {**LATE, "rules": ()}, None),
    ],
)
def test_what_was_not_prepared_is_recorded_once_with_its_reason(records, now, why: str | None):
    """When the event begins, or its notice is over: not before, and not when a person or a rule wanted it so (S32)."""
    assert whats(unprepared(events(*records), world("a", **now))) == ([] if why is None else [("unprepared", why)])


def test_a_handler_that_another_event_needs_is_not_put_back():
    """Undraining for the one would undo it for the other; when both are over, both ways back run."""
    other = event(event_id=OTHER)
    both = [seen(), *DONE, seen(other), record("preparing", "a", of=other), record("prepared", "a", of=other), TURN]
    assert next_steps(events(*both), world("a", approval=ApprovalPolicy("never"))) == []
    over = [*both, record("returning", of=other, reason="gone")]
    assert next_steps(events(*over), world("a")) == [Recover(ID, "a"), Recover(OTHER, "a")]


def test_an_event_too_late_to_prepare_for_holds_nothing_up():
    """One that is merely Started and was never prepared for needs no handler."""
    other = event("Started", event_id=OTHER)
    assert next_steps(events(seen(), *DONE, seen(other), TURN), world("a")) == [Recover(ID, "a")]


def test_an_event_that_is_prepared_for_later_holds_nothing_up():
    """Until then the machine is in service, days perhaps (S15)."""
    other = event(event_id=OTHER, notice=7 * 86400)
    wait = Wait(OTHER, NOW + timedelta(days=7, seconds=-900))
    both = events(seen(), *DONE, seen(other), TURN)
    assert next_steps(both, world("a", rule={"within": 900.0})) == [Recover(ID, "a"), wait]


def test_a_handler_that_is_no_longer_configured_is_passed_over():
    """The rest is put back all the same."""
    done = [seen(), *DONE, record("preparing", "b"), record("prepared", "b"), TURN]
    assert next_steps(events(*done), world("a")) == [Recover(ID, "a")]


def test_the_way_back_needs_no_document():
    """What is decided goes on, also while the service is away (H05)."""
    assert next_steps(events(seen(), *DONE, TURN), world("a", document_read=False)) == [Recover(ID, "a")]
