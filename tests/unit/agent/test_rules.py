"""Which rule an event falls under."""

import pytest

from duenotice.agent.planner import HandlerRule, match_rule
from tests.unit.agent.build import event


@pytest.mark.parametrize(
    ("rule", "changed", "matches"),
    [
        ({}, {}, True),
        ({"types": ("Freeze", "Reboot")}, {}, True),
        ({"types": ("Freeze",)}, {}, False),
        ({}, {"type": "SomethingNew"}, True),
        ({}, {"type": "SpotRebalanceRecommendation"}, False),
        ({"types": ("SpotRebalanceRecommendation",)}, {"type": "SpotRebalanceRecommendation"}, True),
        ({"sources": ("User",)}, {"source": "User"}, True),
        ({"sources": ("User",)}, {}, False),
        ({"resources": ("web-*",)}, {}, True),
        ({"resources": ("db-*",)}, {}, False),
        ({"resources": ("db-*",)}, {"resources": ("web-0", "db-1")}, True),
        ({"shorter_than": 10.0}, {"duration": 9}, True),
        ({"shorter_than": 10.0}, {"duration": 10}, False),
        ({"shorter_than": 10.0}, {"duration": -1}, False),
        ({"shorter_than": 10.0}, {"duration": 0}, True),
        ({"longer_than": 10.0}, {"duration": 11}, True),
        ({"longer_than": 10.0}, {"duration": 10}, False),
        ({"longer_than": 10.0}, {"duration": -1}, False),
    ],
)
def test_what_a_rule_matches(rule, changed, matches):
    """What it leaves out matches everything but advice; an unknown duration is neither short nor long (B09)."""
    assert HandlerRule(**rule).matches(event(**changed)) == matches


def test_the_first_rule_that_matches_wins():
    """In the order of the file."""
    short, rest = HandlerRule((), types=("Freeze",), shorter_than=10.0), HandlerRule(("a",), types=("Freeze",))
    assert match_rule([short, rest], event(type="Freeze", duration=5)) is short
    assert match_rule([short, rest], event(type="Freeze")) is rest
    assert match_rule([short, rest], event(type="Reboot")) is None
