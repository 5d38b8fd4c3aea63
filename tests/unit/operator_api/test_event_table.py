"""The table of events: what matches, and in which order."""

from datetime import timedelta
from typing import Any

import pytest

from duenotice.domain.event import Cause, Event, EventType, Phase
from duenotice.domain.failure import Failure, Failures
from duenotice.engine.event_traces import EventTrace
from duenotice.errors import Malformed
from duenotice.operator_api.event_table import EventPlace, WantedEvents, ordered, place_of
from duenotice.operator_api.history import state_of_trace, with_failures
from tests.unit.domain.build import NOW, id_of, schedule, state_of

BASE = schedule(state_of(), "web-0", type=EventType.REBOOT)


def trace(number: int, vm: str, minutes: int = 15, outcome: str = "", **more: Any) -> EventTrace:
    event = BASE.with_(id=id_of(number), resources=(vm,), not_before=NOW.at + timedelta(minutes=minutes))
    event = event.with_(**({"approved_by": ""} | more))
    return EventTrace(event, ended_at=NOW.at + timedelta(minutes=minutes) if outcome else None, outcome=outcome)


def names(*traces: EventTrace, pile: Any = lambda _: "") -> list[str]:
    return [found.event.resources[0] for found in ordered(traces, {id_of(8)}, pile)]


def test_what_hits_now_comes_first_then_the_soonest_then_names_as_people_count() -> None:
    """Before that stands what has failed and needs a person. What is over comes last, the newest of it first."""
    started: dict[str, Any] = {"phase": Phase.STARTED, "started_at": NOW.at}
    mixed = [trace(1, "old", 1, "failed"), trace(2, "new", 9, "completed"), trace(3, "vm-10"), trace(4, "vm-2")]
    mixed += [trace(5, "soon", 3), trace(6, "hit", 60, **started), trace(8, "broken", 5, "failed")]
    assert names(*mixed) == ["broken", "hit", "soon", "vm-2", "vm-10", "new", "old"]


def test_a_pile_stands_where_its_most_urgent_event_belongs() -> None:
    rows = [trace(1, "a-1", 5), trace(2, "b-1", 4), trace(3, "a-2", 3), trace(4, "b-2", 6)]
    assert names(*rows, pile=lambda found: found.event.resources[0][0]) == ["a-2", "a-1", "b-1", "b-2"]


PLACE = EventPlace("set/web", "host-1", id_of(9))


@pytest.mark.parametrize(
    ("query", "matches"),
    [
        ({}, True),
        ({"type": "reboot", "cause": "maintenance,user", "group": "web", "host": "host-1", "vm": "web-0"}, True),
        ({"group": "set/web", "maintenance": id_of(9)[:8].lower()}, True),
        ({"q": "WEB-0"}, True),
        ({"q": "getting a new kernel"}, False),
        ({"cause": "user"}, False),
        ({"type": "Freeze"}, False),
        ({"group": "alone"}, False),
        ({"host": "host-2"}, False),
        ({"vm": "web-1"}, False),
        ({"maintenance": "FFFF"}, False),
    ],
)
def test_a_query_chooses_by_all_that_it_says(query: dict[str, str], matches: bool) -> None:
    found = EventTrace(BASE.with_(cause=Cause.MAINTENANCE, resources=("web-0",)))
    assert WantedEvents(query)(found, PLACE) is matches


def test_a_vm_without_a_group_is_alone() -> None:
    assert WantedEvents({"group": "alone"})(EventTrace(BASE), PLACE._replace(group=None))


@pytest.mark.parametrize("query", [{"state": "fine"}, {"cause": "user,fun"}, {"by": "colour"}, {"type": "Boom"}])
def test_a_word_that_is_not_known_is_refused(query: dict[str, str]) -> None:
    with pytest.raises(Malformed):
        WantedEvents(query)


def test_an_event_belongs_to_the_host_that_is_its_reason_else_to_that_of_its_vm() -> None:
    """Also when its VM has gone."""
    fleet = state_of().fleet.vms
    event: Event = BASE.with_(resources=("web-0",), host=None)
    assert place_of(EventTrace(event), fleet).host == fleet["web-0"].host
    assert place_of(EventTrace(event.with_(host="ill")), {}).host == "ill"
    assert place_of(EventTrace(event), {}).host is None


def test_the_state_is_how_it_ended_or_what_it_does_now() -> None:
    assert state_of_trace(trace(1, "a"), ()) == "scheduled"
    assert state_of_trace(trace(3, "a", approved_by="vm/a"), ()) == "approved"
    assert state_of_trace(EventTrace(trace(4, "a").event, approved_by="token/ann"), ()) == "approved"


def test_what_failed_is_resolved_when_somebody_has_dealt_with_it() -> None:
    failed = trace(2, "a", 1, "failed")
    assert [state_of_trace(failed, open_ones) for open_ones in ({id_of(2)}, ())] == ["failed", "resolved"]


def test_a_failure_is_known_however_long_ago_it_was() -> None:
    """Of other events that are over only the newest are remembered."""
    old, new = trace(1, "a"), trace(2, "b", 1, "failed")
    failures = Failures([Failure(old.event, NOW.at, "no power"), Failure(new.event, NOW.at, "no disk")])
    known = with_failures([new], failures)
    assert [(found.event.id, found.outcome, found.reason) for found in known] == [
        (id_of(1), "failed", "no power"),
        (id_of(2), "failed", ""),
    ]
    assert with_failures([new], Failures()) == [new]
