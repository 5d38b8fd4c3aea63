"""The scenarios that come with duenotice: complete, well named, and documented as they are."""

import subprocess
import sys
from pathlib import Path

import pytest

from duenotice.errors import NotFound
from duenotice.metadata_api import faults
from duenotice.scenarios import verbs
from duenotice.scenarios.scenario import read_scenario, shipped_fleet, shipped_names, shipped_scenario
from duenotice.scenarios.verbs import ACTIONS
from duenotice.wire.fleet_file import read_fleet

ROOT = Path(__file__).parents[3]
STORIES = {
    *("live-migration", "host-maintenance", "user-reboot", "user-redeploy", "cancelled-maintenance", "spot-eviction"),
    *("scale-in", "degraded-host", "host-failure", "rolling-maintenance"),
}
TRAPS = 14
"""At the end of PROTOCOL.md, counting each that can be fallen into on its own."""


@pytest.mark.parametrize("name", shipped_names())
def test_each_is_called_like_its_file_and_says_what_it_is_about(name: str) -> None:
    """A person can choose by these."""
    scenario = shipped_scenario(name)
    assert (scenario.name, bool(scenario.title), bool(scenario.about)) == (name, True, True)


def test_there_is_one_for_every_story_and_every_trap() -> None:
    """None without a trap beside the stories."""
    traps = {name: shipped_scenario(name).trap for name in shipped_names()}
    assert {name for name, trap in traps.items() if not trap} == STORIES
    assert len({trap for trap in traps.values() if trap}) == TRAPS


def test_an_unknown_one_is_refused_with_the_nearest() -> None:
    """And the fleet beside them is no scenario."""
    with pytest.raises(NotFound) as refused:
        shipped_scenario("user-rebot")
    assert refused.value.hint == "Did you mean 'user-reboot'?"
    with pytest.raises(NotFound):
        shipped_scenario("fleet")
    assert read_fleet(shipped_fleet().read_text()).vms


def test_every_verb_can_be_done() -> None:
    """Those the player does itself, and those it asks for; and all faults there are can be asked for."""
    assert set(ACTIONS) | {"wait", "expect"} == set(verbs.VERBS)
    assert set(verbs.FAULTS) == set(faults.FAULTS)


def test_the_documentation_is_made_of_what_there_is() -> None:
    """Its tables are current, and it names all that can be expected."""
    done = subprocess.run([sys.executable, "tools/scenarios.py", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    page = (ROOT / "docs" / "scenarios.md").read_text()
    assert all(f"`{option}" in page for option in verbs.VERBS["expect"].options)


def example() -> str:
    """The scenario that the documentation offers to copy."""
    page = (ROOT / "docs" / "scenarios.md").read_text()
    return page.partition("```toml\n")[2].partition("```")[0]


def test_the_example_in_the_documentation_is_a_scenario() -> None:
    """It is played among the acceptance tests."""
    assert read_scenario(example()).name == "two-restarts"
