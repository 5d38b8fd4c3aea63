"""What the operator's side reads and writes."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from duenotice.domain.event import Cause, Event, EventType, Phase
from duenotice.errors import Malformed
from duenotice.wire.operator_json import ScheduleRequest, event_to_json, parse_cause, parse_moment, parse_type

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
EVENT = Event("ID-1", EventType.REBOOT, Cause.USER, "set/web", ("web-0",), NOON, 0.0, "Words", update_domain=3)


def test_a_scheduled_event_is_shown_whole() -> None:
    assert event_to_json(EVENT) == {
        "id": "ID-1",
        "type": "Reboot",
        "phase": "scheduled",
        "scope": "set/web",
        "resources": ["web-0"],
        "update_domain": 3,
        "cause": "user",
        "source": "User",
        "description": "Words",
        "duration": -1,
        "not_before": "2026-03-01T12:00:00Z",
        "approved_by": None,
        "started_at": None,
        "ends_at": None,
    }


def test_a_started_event_says_who_approved_and_since_when_and_keeps_its_not_before() -> None:
    begun = EVENT.with_(phase=Phase.STARTED, approved_by="web-1", started_at=NOON + timedelta(seconds=5))
    shown = event_to_json(begun)
    assert (shown["phase"], shown["approved_by"]) == ("started", "web-1")
    assert (shown["started_at"], shown["not_before"]) == ("2026-03-01T12:00:05Z", "2026-03-01T12:00:00Z")


def test_a_started_event_says_when_it_will_be_over_if_that_is_known() -> None:
    begun = EVENT.with_(phase=Phase.STARTED, started_at=NOON, notice_ends=1000.0)
    assert event_to_json(begun.with_(impact_ends=1600.0))["ends_at"] == "2026-03-01T12:10:00Z"
    assert event_to_json(begun)["ends_at"] is None


@pytest.mark.parametrize("event_type", EventType)
def test_a_type_is_read_in_any_case(event_type: EventType) -> None:
    for text in (event_type.value, event_type.value.upper(), event_type.value.title()):
        assert parse_type(text) is event_type


def test_another_type_is_refused_with_those_there_are() -> None:
    with pytest.raises(Malformed, match="'Explode' is not an event type") as error:
        parse_type("Explode")
    assert error.value.hint == "Use one of Freeze, Reboot, Redeploy, Preempt, Terminate."


def test_an_operator_may_give_three_causes() -> None:
    for cause in (Cause.MAINTENANCE, Cause.LIVE_MIGRATION, Cause.USER):
        assert parse_cause(cause.value) is cause
    for cause in (Cause.HOST_FAILURE, Cause.DEGRADED_HOST, Cause.EVICTION, Cause.DELETION):
        with pytest.raises(Malformed, match="is not a cause"):
            parse_cause(cause.value)


def test_a_moment_is_brought_to_utc() -> None:
    moment = datetime.fromisoformat("2026-03-01T14:00:00+02:00")
    assert parse_moment(moment) == NOON
    assert parse_moment(moment).tzinfo is UTC  # type: ignore[union-attr]
    assert parse_moment(None) is None


def test_a_moment_without_an_offset_could_mean_anything() -> None:
    with pytest.raises(Malformed, match="has no offset"):
        parse_moment(datetime.fromisoformat("2026-03-01T14:00:00"))


@pytest.mark.parametrize("text", ["9999-12-31T23:59:59-05:00", "0001-01-01T00:00:00+05:00"])
def test_a_moment_that_has_no_place_in_utc_is_malformed(text: str) -> None:
    with pytest.raises(Malformed, match="beyond all time"):
        parse_moment(datetime.fromisoformat(text))


def test_a_request_to_schedule_needs_a_type_and_vms_and_nothing_it_does_not_know() -> None:
    read = msgspec.json.Decoder(ScheduleRequest).decode
    assert read(b'{"type":"Reboot","resources":["a"]}') == ScheduleRequest("Reboot", ("a",))
    for body in (b'{"type":"Reboot"}', b'{"type":"Reboot","resources":["a"],"notBefore":"x"}'):
        with pytest.raises(msgspec.ValidationError):
            read(body)
