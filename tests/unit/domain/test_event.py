"""What an event says of itself: its words, its source (B09, B11)."""

import itertools
import re
from importlib.resources import files

import pytest

from duenotice.cli.options import EVENT_TYPE, MAINTENANCE_TYPE
from duenotice.console.maintenance import TYPES
from duenotice.domain.event import MAINTENANCES, REMOVALS, Cause, Event, EventType, Source, description_of
from duenotice.domain.rules.timing import MINIMUM_SECONDS
from duenotice.host.power import OPERATIONS
from duenotice.testkit.verdicts import evidence
from duenotice.testkit.verdicts.verdict import OF_ONE_VM, OF_SEVERAL_VMS
from duenotice.wire.api_versions import EVERY_VERSION, TYPE_NAMES
from tests.unit.domain.build import NOW

MAINTENANCE = "Host server is undergoing maintenance."


@pytest.mark.parametrize(
    ("event_type", "cause", "words"),
    [
        (EventType.FREEZE, Cause.MAINTENANCE, MAINTENANCE),
        (EventType.REBOOT, Cause.MAINTENANCE, MAINTENANCE),
        (EventType.REDEPLOY, Cause.DEGRADED_HOST, MAINTENANCE),
        (
            EventType.FREEZE,
            Cause.LIVE_MIGRATION,
            "Virtual machine is being paused because of a memory-preserving Live Migration operation.",
        ),
        (
            EventType.REBOOT,
            Cause.USER,
            "Virtual machine is going to be restarted as requested by authorized user.",
        ),
        (
            EventType.REDEPLOY,
            Cause.USER,
            "Virtual machine is going to be redeployed as requested by authorized user.",
        ),
        (EventType.FREEZE, Cause.USER, MAINTENANCE),
        (EventType.REBOOT, Cause.HOST_FAILURE, "Virtual machine has encountered a failure."),
        (EventType.PREEMPT, Cause.EVICTION, ""),
    ],
)
def test_descriptions_are_those_of_the_real_service(event_type: EventType, cause: Cause, words: str) -> None:
    assert description_of(event_type, cause) == words


@pytest.mark.parametrize(("event_type", "cause"), list(itertools.product(EventType, Cause)))
def test_every_type_and_cause_has_words_and_only_preempt_is_silent(event_type: EventType, cause: Cause) -> None:
    assert bool(description_of(event_type, cause)) is (cause is not Cause.EVICTION)


@pytest.mark.parametrize("cause", Cause)
def test_users_are_the_source_of_their_operations_and_deletions_and_the_platform_of_the_rest(cause: Cause) -> None:
    event = Event("A", EventType.REBOOT, cause, "vm/alone", ("alone",), NOW.at, NOW.steady)
    assert event.source is (Source.USER if cause in (Cause.USER, Cause.REIMAGE, Cause.DELETION) else Source.PLATFORM)


def test_with_changes_a_copy_and_leaves_the_event_as_it_was() -> None:
    event = Event("A", EventType.REBOOT, Cause.USER, "vm/alone", ("alone",), NOW.at, NOW.steady)
    assert event.with_(approved_by="alone").approved_by == "alone"
    assert event.approved_by == ""


@pytest.mark.parametrize("kind", EventType)
def test_every_type_has_its_row_in_the_tables_of_types(kind: EventType) -> None:
    """Whoever adds a type is told here of the tables that no type checker holds."""
    assert kind in MINIMUM_SECONDS
    assert kind in TYPE_NAMES
    assert any(kind in version.types for version in EVERY_VERSION)
    assert kind in OPERATIONS or kind is EventType.SPOT_REBALANCE_RECOMMENDATION
    assert TYPE_NAMES[kind] in EVENT_TYPE.choices
    assert kind in (*OF_SEVERAL_VMS, *OF_ONE_VM) or kind is EventType.SPOT_REBALANCE_RECOMMENDATION


def test_all_lists_of_the_types_of_a_maintenance_are_one() -> None:
    """The command line and the console have their own order, and the form explains each."""
    names = {TYPE_NAMES[kind] for kind in MAINTENANCES}
    assert set(MAINTENANCE_TYPE.choices) == set(TYPES) == names == {TYPE_NAMES[kind] for kind in OF_SEVERAL_VMS}
    form = (files("duenotice.console") / "templates" / "maintenance_new.html").read_text()
    (told,) = re.findall('<small id="type-help">(.*?)</small>', form)
    assert all(f"{name}:" in told for name in names)


def test_a_vm_is_gone_after_a_type_or_a_plan_can_have_it_or_it_is_advice() -> None:
    assert REMOVALS.isdisjoint(MAINTENANCES)
    assert {TYPE_NAMES[kind] for kind in REMOVALS} == set(evidence.REMOVALS) == {TYPE_NAMES[kind] for kind in OF_ONE_VM}
    assert set(EventType) - REMOVALS - MAINTENANCES == {EventType.SPOT_REBALANCE_RECOMMENDATION}
