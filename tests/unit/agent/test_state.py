"""What records add up to, and what names the content of an event."""

import pytest

from duenotice.agent.state import fingerprint, snapshot
from tests.unit.agent.build import ID, case, cases, event, record, seen


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
    assert (fingerprint(event(**changed)) == fingerprint(event())) == same


def test_the_order_of_resources_is_not_content():
    """Another leader is no other work."""
    assert fingerprint(event(resources=("a", "b"))) == fingerprint(event(resources=("b", "a")))


def test_names_cannot_run_into_each_other():
    """Two VMs are not one with a long name."""
    assert fingerprint(event(resources=("a", "b"))) != fingerprint(event(resources=("ab",)))


def test_a_started_event_keeps_the_not_before_we_were_told():
    """The document no longer shows it, and handlers still go by it."""
    assert case(seen(), seen(event("Started"))).not_before == event().not_before


def test_notes_outlive_a_second_try():
    """What the first try wrote down is what the way back needs (S15)."""
    tried = case(
        seen(),
        record("preparing", "a"),
        record("note", "a", key="k", value=1),
        record("failed", "a"),
        record("preparing", "a"),
    )
    assert (tried.works["a"].notes, tried.works["a"].tries) == ({"k": 1}, 2)


def test_a_new_case_begins_with_a_clean_sheet():
    """An event that comes back after everything was put back is prepared for from scratch."""
    over = (seen(), record("preparing", "a"), record("returning", reason="gone"), record("recovered", "a"))
    assert case(*over).is_closed
    assert case(*over, seen()).works == {} and not case(*over, seen()).returning


def test_a_case_is_closed_when_all_that_was_begun_is_put_back():
    """Nothing less, and nothing more where nothing was begun (S15)."""
    turned = (seen(), record("preparing", "a"), record("preparing", "b"), record("returning", reason="gone"))
    assert not case(*turned).is_closed
    assert not case(*turned, record("recovered", "a")).is_closed
    assert case(*turned, record("recovered", "a"), record("recovered", "b")).is_closed
    assert case(seen(), record("returning", reason="gone")).is_closed
    assert not case(seen()).is_closed


def test_a_snapshot_stands_for_all_before_it():
    """What had been there before and is not in it is gone."""
    one = snapshot(cases(seen()))
    assert list(cases(seen(event(event_id="E2")), one)) == [ID]


def test_records_that_fit_no_case_change_nothing():
    """An old ledger can always be read."""
    assert cases(record("prepared", "a"), record("approved")) == {}
    assert case(seen(), record("recovered", "never-begun")).works == {}
    assert ID in cases(seen(), record("note", "never-begun", key="k", value=1))
