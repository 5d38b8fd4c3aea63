"""What records add up to, and what names the content of an event."""

import pytest

from duenotice.agent.state import revision_of, snapshot
from tests.unit.agent.build import ID, event, events, record, seen, tracked


@pytest.mark.parametrize(
    ("changed", "same"),
    [
        ({}, True),
        ({"notice": 1800}, True),
        ({"status": "Started"}, True),
        ({"description": "other words"}, True),
        ({"resources": ("web-1", "web-0")}, False),
        ({"type": "Redeploy"}, False),
        ({"event_id": "E2"}, False),
    ],
)
def test_what_makes_the_content(changed, same):
    """Id, type and VMs hit; not when, nor in which words (S12)."""
    assert (revision_of(event(**changed)) == revision_of(event())) == same


def test_the_order_of_resources_is_not_content():
    """Another leader is no other work."""
    assert revision_of(event(resources=("a", "b"))) == revision_of(event(resources=("b", "a")))


def test_names_cannot_run_into_each_other():
    """Two VMs are not one with a long name."""
    assert revision_of(event(resources=("a", "b"))) != revision_of(event(resources=("ab",)))


def test_a_started_event_keeps_the_not_before_we_were_told():
    """The document no longer shows it, and handlers still go by it."""
    assert tracked(seen(), seen(event("Started"))).not_before == event().not_before


def test_notes_outlive_a_second_try():
    """What the first try wrote down is what the way back needs (S15)."""
    tried = tracked(
        seen(),
        record("preparing", "a"),
        record("note", "a", key="k", value=1),
        record("failed", "a"),
        record("preparing", "a"),
    )
    assert (tried.runs["a"].notes, tried.runs["a"].tries) == ({"k": 1}, 2)


def test_a_new_event_begins_with_a_clean_sheet():
    """An event that comes back after everything was put back is prepared for from scratch."""
    over = (seen(), record("preparing", "a"), record("returning", reason="gone"), record("recovered", "a"))
    assert tracked(*over).is_closed
    assert tracked(*over, seen()).runs == {} and not tracked(*over, seen()).recovering


def test_an_event_is_closed_when_all_that_was_begun_is_put_back():
    """Nothing less, and nothing more where nothing was begun (S15)."""
    turned = (seen(), record("preparing", "a"), record("preparing", "b"), record("returning", reason="gone"))
    assert not tracked(*turned).is_closed
    assert not tracked(*turned, record("recovered", "a")).is_closed
    assert tracked(*turned, record("recovered", "a"), record("recovered", "b")).is_closed
    assert tracked(seen(), record("returning", reason="gone")).is_closed
    assert not tracked(seen()).is_closed


def test_a_snapshot_stands_for_all_before_it():
    """What had been there before and is not in it is gone."""
    one = snapshot(events(seen()))
    assert list(events(seen(event(event_id="E2")), one)) == [ID]


def test_records_that_fit_no_event_change_nothing():
    """An old ledger can always be read."""
    assert events(record("prepared", "a"), record("approved")) == {}
    assert tracked(seen(), record("recovered", "never-begun")).runs == {}
    assert ID in events(seen(), record("note", "never-begun", key="k", value=1))
