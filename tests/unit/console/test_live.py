"""What a record changes on open pages."""

from duenotice.console.live import MOST_TOLD, PageChange, changed
from tests.support.answers import a_plan, an_event
from tests.support.answers import a_record as record


def test_an_event_concerns_its_page_its_vms_and_its_section() -> None:
    told = changed(record("event-raised", "E", event=an_event("batch_0", scope="scale-set/batch/0")))
    assert told.topics == {"any", "events", "event:E", "vm:batch_0", "scope:scale-set/batch/0"}
    assert told.vms == {"batch_0"} and told.sections == {"scale-set/batch"}


def test_one_that_moved_concerns_both_sections() -> None:
    told = changed(record("event-moved", "E", event=an_event("x", scope="set/b"), from_scope="set/a"))
    assert told.sections == {"set/a", "set/b"}


def test_a_step_concerns_its_maintenance() -> None:
    assert "maintenance:M" in changed(record("step-begun", "E", maintenance_id="M", step=1)).topics
    assert "maintenance:M" in changed(record("maintenance-started", maintenance=a_plan(id="M"))).topics


def test_a_scope_that_begins_to_listen_has_its_section_drawn_again() -> None:
    told = changed(record("scope-enabled", scope="scale-set/batch/0"))
    assert told.redrawn == told.sections == {"scale-set/batch"} and "listening" in told.topics


def test_vms_that_go_are_named_and_tokens_are_not() -> None:
    assert changed(record("vms-removed", names=("a",))).vms == {"a"}
    assert changed(record("groups-removed", keys=("set/a",))).topics == {"any", "fleet"}
    assert changed(record("token-revoked", token_id="T", name="a")) == PageChange(frozenset({"any", "tokens"}))


def test_changes_add_up_until_they_are_too_many() -> None:
    one, other = changed(record("vms-removed", names=("a",))), changed(record("vms-removed", names=("b",)))
    assert (one | other).to_json() == {
        "topics": ["any", "vm:a", "vm:b"],
        "vms": ["a", "b"],
        "sections": [],
        "redrawn": [],
    }
    many = changed(record("vms-removed", names=tuple(str(number) for number in range(MOST_TOLD))))
    assert many.to_json() == {"all": True}
