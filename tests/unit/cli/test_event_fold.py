"""Live events as the fold of the feed."""

from typing import Any

import pytest

from duenotice.cli.event_fold import fold

SCHEDULED = {"id": "A", "phase": "scheduled", "approved_by": None}
STARTED = SCHEDULED | {"phase": "started"}


def record(action: str, event: Any = None, **details: Any) -> Any:
    return {"action": action, "event_id": "A", "details": details | ({"event": event} if event else {})}


def test_an_event_that_is_raised_and_starts_is_told_each_time() -> None:
    events: dict[str, Any] = {}
    assert fold(events, record("event-raised", SCHEDULED)) == SCHEDULED
    assert fold(events, record("event-started", STARTED)) == STARTED
    assert events == {"A": STARTED}


@pytest.mark.parametrize("outcome", ["completed", "cancelled", "failed"])
def test_one_that_is_over_is_told_with_how_it_ended(outcome: str) -> None:
    events = {"A": STARTED}
    assert fold(events, record(f"event-{outcome}")) == STARTED | {"phase": outcome}
    assert events == {}


def test_an_approval_is_told_with_who_gave_it() -> None:
    events = {"A": SCHEDULED}
    assert fold(events, record("event-approved", by="web-0")) == SCHEDULED | {"approved_by": "web-0"}


def test_what_we_know_already_is_not_told_again() -> None:
    """The feed is opened before the first look, so its first records may be older than that."""
    events = {"A": STARTED}
    assert fold(events, record("event-raised", SCHEDULED)) is None
    assert fold(events, record("event-started", STARTED)) is None
    assert events == {"A": STARTED}


@pytest.mark.parametrize("action", ["event-completed", "event-approved", "vms-put"])
def test_what_concerns_no_event_of_ours_is_not_told(action: str) -> None:
    events: dict[str, Any] = {}
    assert fold(events, record(action, by="web-0")) is None
    assert events == {}
