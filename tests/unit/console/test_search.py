"""The lines of the search: where each leads, and which pages fit what was typed."""

import pytest

from duenotice.console.app import MENU, NAVIGATION
from duenotice.console.search import OFFERS, VERBS, action_result, hit_result, matches
from duenotice.wire.operator import HIT_KINDS, Hit


@pytest.mark.parametrize(
    ("typed", "title", "fitting"),
    [("ev fa", "events that failed", True), ("", "fleet", True), ("vents", "events", False), ("ev x", "events", False)],
)
def test_each_word_that_is_typed_is_the_beginning_of_a_word(typed: str, title: str, fitting: bool) -> None:
    assert matches(typed.split(), title.split()) is fitting


def test_every_page_of_the_menus_is_found_by_its_name() -> None:
    """A new page gets a row in `OFFERS`."""
    assert set(NAVIGATION) | set(MENU) <= {(offer.href, offer.title) for offer in OFFERS}


def test_every_kind_of_hit_leads_to_its_page() -> None:
    """Names are written as addresses; ids are short."""
    places = [hit_result(Hit(kind, "a b", "", False)).href for kind in HIT_KINDS]
    assert places == ["/vms/a%20b", "/groups/a%20b", "/hosts/a%20b", "/maintenances/a%20b", "/events/a%20b"]
    assert hit_result(Hit("event", "0123456789", "", True)).title == "01234567"


def test_an_action_leads_to_the_page_that_has_its_button() -> None:
    group = action_result("maintain", VERBS["maintain"][1], Hit("group", "scale-set/web", "", False))
    assert (group.title, group.href) == ("Maintain scale-set/web", "/maintenances/new?on=scale-set%3Dweb")
    assert action_result("drain", VERBS["drain"][1], Hit("host", "h 1", "", True)).href == "/hosts/h%201"
