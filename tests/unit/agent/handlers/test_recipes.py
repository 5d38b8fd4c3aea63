"""docs/recipes.md: every recipe is a configuration that the agent takes as it stands."""

import re
import tomllib
from pathlib import Path

import pytest

from duenotice.agent.check import cut_short, never_matches
from duenotice.agent.check_unit import DROP_INS
from duenotice.agent.config import read_config
from duenotice.agent.handlers.loading import KINDS

ROOT = Path(__file__).parents[4]
TEXT = (ROOT / "docs" / "recipes.md").read_text()
RECIPES = [
    pytest.param(recipe, id=f"{title}-{number}")
    for title, section in re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", TEXT, re.M | re.S)
    for number, recipe in enumerate(re.findall(r"^```toml\n(.*?)^```", section, re.M | re.S), start=1)
]
TASKS = [
    "Checkpoint and restore",
    "Drain connections",
    "Fail over the primary",
    "Leave the load-balancer pool",
    "Log the event",
    "Shut down gracefully",
]


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_can_be_copied(recipe):
    """It loads, also with its commented keys turned on, and every handler in it is used by a rule."""
    config = read_config(recipe)
    assert never_matches(config) == cut_short(config) == []
    assert {name for rule in config.rules for name in rule.handlers} == set(config.handlers)
    read_config(re.sub(r"^# (?=\w+ = )", "", recipe, flags=re.M))


def test_every_task_of_the_documents_has_a_recipe():
    """The six tasks of H02, in their order; then programs of others."""
    titles = [str(recipe.id).rpartition("-")[0] for recipe in RECIPES]
    assert list(dict.fromkeys(titles)) == [*TASKS, "Programs of others, by a hook"]


def test_every_kind_is_shown_or_named():
    """No handler is left for people to find out."""
    shown = {table["kind"] for each in RECIPES for table in tomllib.loads(str(each.values[0]))["handlers"].values()}
    named = set(re.findall(r'kind = "(\w+)"', TEXT))
    assert shown | named == set(KINDS)


def test_the_documents_show_the_drop_ins_that_are_shipped():
    """And `agent check --unit` names no other."""
    shown = dict(re.findall(r"^\| .+ \| `([\w-]+\.conf)`.* \| `(.+)` \|$", TEXT, re.M))
    shipped = {path.name: path.read_text() for path in (ROOT / "packaging/systemd/drop-ins").iterdir()}
    assert {name: text.partition("[Service]\n")[2].strip() for name, text in shipped.items()} == shown
    assert set(DROP_INS.values()) == set(shown)
