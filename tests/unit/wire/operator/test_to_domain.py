"""What the operator's side reads."""

from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duenotice.domain.event import Cause, EventType
from duenotice.domain.fleet import Vm
from duenotice.errors import Malformed, NotFound
from duenotice.wire.operator import ScheduleRequest
from duenotice.wire.operator.to_domain import parse_cause, parse_moment, parse_type, select

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize("event_type", EventType)
def test_a_type_is_read_in_any_case(event_type: EventType) -> None:
    for text in (event_type.value, event_type.value.upper(), event_type.value.title()):
        assert parse_type(text) is event_type


def test_another_type_is_refused_with_those_there_are() -> None:
    with pytest.raises(Malformed, match="'Explode' is not an event type") as error:
        parse_type("Explode")
    assert error.value.hint == "Use one of Freeze, Reboot, Redeploy, Preempt, Terminate, SpotRebalanceRecommendation."


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
    with pytest.raises(Malformed, match="is out of range"):
        parse_moment(datetime.fromisoformat(text))


def test_a_request_to_schedule_needs_a_type_and_vms_and_nothing_it_does_not_know() -> None:
    read = msgspec.json.Decoder(ScheduleRequest).decode
    assert read(b'{"type":"Reboot","resources":["a"]}') == ScheduleRequest("Reboot", ("a",))
    for body in (b'{"type":"Reboot"}', b'{"type":"Reboot","resources":["a"],"notBefore":"x"}'):
        with pytest.raises(msgspec.ValidationError):
            read(body)


FLEET = (
    Vm("db-0", "127.0.0.1", zone="1", host="h1", tags=(("role", "db"), ("note", "a=b"))),
    Vm("db-1", "127.0.0.2", zone="2", host="h1", tags=(("role", "db"),)),
    Vm("web-0", "127.0.0.3", zone="1", group="set/web", update_domain=0),
    Vm("web_0", "127.0.0.4", group="scale-set/web", update_domain=0),
)


@pytest.mark.parametrize(
    ("on", "chosen"),
    [
        (("vm=db-1",), ("db-1",)),
        (("host=h1",), ("db-0", "db-1")),
        (("set=web",), ("web-0",)),
        (("scale-set=web",), ("web_0",)),
        (("zone=1",), ("db-0", "web-0")),
        (("tag=role=db",), ("db-0", "db-1")),
        (("tag=note=a=b",), ("db-0",)),
        (("zone=2", "tag=role=db", "vm=db-0"), ("db-1", "db-0")),
    ],
)
def test_a_selector_chooses_by_name_place_or_tag_and_nobody_twice(on: tuple[str, ...], chosen: tuple[str, ...]) -> None:
    assert select(on, FLEET) == chosen


@pytest.mark.parametrize("on", ["zone=3", "tag=role", "tag=db", "tag=role=web", "set=shop"])
def test_a_selector_that_chooses_nobody_is_a_mistake(on: str) -> None:
    with pytest.raises(NotFound, match="No VM is chosen"):
        select(("vm=db-0", on), FLEET)


@pytest.mark.parametrize(
    ("said", "meant"), [("evict", EventType.PREEMPT), ("Preempt", EventType.PREEMPT), ("RESTART", EventType.REBOOT)]
)
def test_a_type_has_the_name_of_its_operation_too(said: str, meant: EventType) -> None:
    assert parse_type(said) is meant


@pytest.mark.parametrize("on", ["web", "rack=1", "zone=", "=1", ""])
def test_a_selector_of_an_unknown_kind_is_told_the_known_ones(on: str) -> None:
    with pytest.raises(Malformed) as refused:
        select((on,), FLEET)
    assert "vm, host, set, service, scale-set, zone, tag" in refused.value.hint


def chosen_one_by_one(on: tuple[str, ...]) -> tuple[str, ...] | str:
    """What selectors choose, each looked for by itself; or the word for what is wrong with the first wrong one."""
    names: list[str] = []
    for selector in on:
        kind, _, name = selector.partition("=")
        if kind not in ("vm", "host", "set", "service", "scale-set", "zone", "tag") or not name:
            return f"{selector!r} chooses nothing."
        key, _, value = name.partition("=")
        places = {"vm": lambda vm: vm.name, "host": lambda vm: vm.host, "zone": lambda vm: vm.zone}
        if kind == "tag":
            found = [vm.name for vm in FLEET if (key, value) in vm.tags]
        elif kind in places:
            found = [vm.name for vm in FLEET if places[kind](vm) == name]
        else:
            found = [vm.name for vm in FLEET if vm.group == f"{kind}/{name}"]
        if not found:
            return f"No VM is chosen by {selector!r}."
        names += found
    return tuple(dict.fromkeys(names))


SELECTORS = st.sampled_from(
    ["vm=db-0", "vm=web_0", "host=h1", "set=web", "scale-set=web", "zone=1", "zone=2", "tag=role=db", "tag=note=a=b"]
) | st.sampled_from(["", "=", "vm=", "rack=1", "group=set/web", "vm=None", "host=None", "zone=9", "tag=role", "web"])


@given(st.lists(SELECTORS, max_size=6))
def test_all_selectors_at_once_choose_what_each_by_itself_would(on: list[str]) -> None:
    try:
        chosen: object = select(tuple(on), FLEET)
    except (Malformed, NotFound) as wrong:
        chosen = wrong.message
    assert chosen == chosen_one_by_one(tuple(on))


def test_each_vm_is_looked_at_once_however_many_selectors_there_are() -> None:
    looked: list[str] = []

    class Watched(list[Vm]):
        def __iter__(self) -> Iterator[Vm]:
            for vm in FLEET:
                looked.append(vm.name)
                yield vm

    assert select(("zone=1",) * 4000 + ("vm=db-0", "host=h1"), Watched()) == ("db-0", "web-0", "db-1")
    assert len(looked) == len(FLEET)


@pytest.mark.parametrize(
    ("on", "near"),
    [
        ("set=wbe", "set=web"),
        ("set=batch", "scale-set=batch"),
        ("host=hots1", "host=host1"),
        ("vm=a-O", "vm=a-0"),
        ("zone=11", "zone=1"),
        ("tag=role=dv", "tag=role=db"),
    ],
)
def test_a_selector_that_chooses_no_vm_is_told_the_nearest_that_does(on: str, near: str) -> None:
    """Also one of another kind of set."""
    tags = (("role", "db"),)
    vms = [Vm("a-0", "10.0.0.1", "set/web", host="host1", zone="1", tags=tags), Vm("b", "10.0.0.2", "scale-set/batch")]
    with pytest.raises(NotFound) as refused:
        select((on,), vms)
    assert refused.value.hint == f"Did you mean {near!r}?"


def test_more_selectors_than_anybody_means_are_refused_before_anybody_is_looked_for() -> None:
    assert select(["zone=1"] * 100_000, FLEET) == ("db-0", "web-0")
    with pytest.raises(Malformed, match="10001 selectors are too many") as refused:
        select((f"vm={number}" for number in range(10_001)), FLEET)
    assert "10000 at the most" in refused.value.hint
