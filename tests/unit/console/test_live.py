"""What a record changes on open pages."""

from duenotice.console.live import MOST_NAMES, PageChange, page_change
from tests.support.answers import a_plan, an_event
from tests.support.answers import a_record as record


def test_an_event_concerns_its_page_its_vms_and_its_section() -> None:
    told = page_change(record("event-raised", "E", event=an_event("batch_0", scope="scale-set/batch/0")))
    assert told.topics == {"any", "events", "event:E", "vm:batch_0", "scope:scale-set/batch/0"}
    assert told.vms == {"batch_0"} and told.sections == {"scale-set/batch"}


def test_one_that_moved_concerns_both_sections() -> None:
    told = page_change(record("event-moved", "E", event=an_event("x", scope="set/b"), from_scope="set/a"))
    assert told.sections == {"set/a", "set/b"}


def test_a_step_concerns_its_maintenance() -> None:
    assert "maintenance:M" in page_change(record("step-begun", "E", maintenance_id="M", step=1)).topics
    assert "maintenance:M" in page_change(record("maintenance-started", maintenance=a_plan(id="M"))).topics


def test_a_scope_that_begins_to_listen_has_its_section_drawn_again() -> None:
    told = page_change(record("scope-enabled", scope="scale-set/batch/0"))
    assert told.redrawn == told.sections == {"scale-set/batch"} and "listening" in told.topics


def test_vms_that_go_are_named_and_tokens_are_not() -> None:
    assert page_change(record("vms-removed", names=("a",))).vms == {"a"}
    assert page_change(record("groups-removed", keys=("set/a",))).topics == {"any", "fleet"}
    assert page_change(record("token-revoked", token_id="T", name="a")) == PageChange(frozenset({"any", "tokens"}))


def test_changes_add_up_until_they_are_too_many() -> None:
    one, other = page_change(record("vms-removed", names=("a",))), page_change(record("vms-removed", names=("b",)))
    assert (one | other).to_json() == {
        "topics": ["any", "vm:a", "vm:b"],
        "vms": ["a", "b"],
        "sections": [],
        "redrawn": [],
    }
    many = page_change(record("vms-removed", names=tuple(str(number) for number in range(MOST_NAMES))))
    assert many.to_json() == {"all": True}
