"""The whole plan of an event before any of it is done."""

from datetime import timedelta
from typing import Any

import pytest

from duenotice.agent.dry_run import predict
from duenotice.agent.planner import ApprovalPolicy, HandlerRule, HandlerSpec
from tests.unit.agent.build import ME, NOW, event, record, seen, tracked, world

GUARD = ApprovalPolicy("own", group=(ME, "web-1", "web-2"), keep=2)
TOLD = event(resources=(ME, "web-1"))


def steps(of: Any, **more: Any) -> list[str]:
    """The steps in words."""
    rest = ("handler", "until", "reason", "ready", "in_service")
    found = predict(of, world(*more.pop("handlers", ("a", "b")), **more))
    return [" ".join([step, *(str(details[key]) for key in rest if details.get(key))]) for step, details in found]


def test_each_handler_the_approval_and_the_way_back_are_foreseen():
    """In the order in which they would come."""
    expected = ["prepare a", "prepare b", "approve", "recover b", "recover a"]
    assert steps(tracked(seen())) == expected


def test_a_handler_has_as_long_as_the_notice_leaves_it():
    """H07."""
    (first, *_) = predict(tracked(seen(event(notice=30))), world(HandlerSpec("a", timeout=300)))
    assert (first.step, first.details) == ("prepare", {"handler": "a", "seconds": 28})


@pytest.mark.parametrize(
    ("told", "more", "reason"),
    [
        (event(), {"approval": ApprovalPolicy("never")}, "the policy is never"),
        (event(resources=("web-1", ME)), {}, "web-1 is the first of Resources and approves"),
        (TOLD, {"approval": GUARD}, "too few of the group would stay in service"),
        (event("Started"), {}, "it has started"),
        (event(notice=1), {}, "the work for it failed, or there is no time left for it"),
    ],
)
def test_what_is_not_approved_says_why(told, more, reason):
    """Then it starts when its notice is over."""
    found = steps(tracked(seen(told)), **more)
    assert f"let-notice-run-out {reason}" in found and "approve" not in found


def test_a_drill_is_never_approved():
    """S12."""
    assert "let-notice-run-out a drill is never approved" in steps(tracked(seen(drill=True)))


def test_peers_are_asked_before_the_approval():
    """Those that are hit too, and those that must stay."""
    assert steps(tracked(seen(TOLD)), approval=ApprovalPolicy("all-ready"), handlers=()) == [
        "ask-peers ('web-1',)",
        "approve",
    ]
    guard = GUARD._replace(group=(ME, "web-1", "web-2", "web-3"))
    assert steps(tracked(seen(TOLD)), approval=guard, handlers=()) == ["ask-peers ('web-2', 'web-3')", "approve"]


def test_work_that_begins_later_is_waited_for():
    """A week ahead need not be drained for a week."""
    far = event(notice=7200)
    begin = NOW + timedelta(seconds=3600)
    assert steps(tracked(seen(far)), rule={"within": 3600.0})[:2] == [f"wait {begin.isoformat()}", "prepare a"]


def test_what_is_done_already_is_not_foreseen_again():
    """The ledger of the real agent says so."""
    begun = tracked(seen(), record("preparing", "a"), record("prepared", "a"))
    assert steps(begun) == ["prepare b", "approve", "recover b", "recover a"]
    back = tracked(seen(), record("preparing", "a"), record("prepared", "a"), record("returning", reason="gone"))
    assert steps(back) == ["recover a"]
    assert steps(back, handlers=("b",)) == []


def test_an_event_that_no_rule_is_about_is_left_alone():
    """And nothing follows from it."""
    assert steps(tracked(seen()), rules=(HandlerRule(types=("Freeze",)),)) == ["leave-alone no rule matches this event"]
