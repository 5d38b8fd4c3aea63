"""docs/vms.md and docs/fleet-file.md: their first files are taken as they stand."""

import re

from duenotice.agent.config import read_config
from duenotice.wire.fleet_file import read_fleet
from tools.links import ROOT


def test_the_first_configuration_can_be_copied() -> None:
    """One rule, and a handler that it uses."""
    (text,) = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "vms.md").read_text(), re.DOTALL)
    config = read_config(text)
    assert [rule.handlers for rule in config.rules] == [("web",)]
    assert set(config.handlers) == {"web"}


def test_the_first_fleet_file_can_be_copied() -> None:
    """It has a group of each kind."""
    text, *_ = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "fleet-file.md").read_text(), re.DOTALL)
    fleet = read_fleet(text)
    assert len(fleet.vms) == 1 + 1 + 1 + 250
