"""docs/vms.md: its configuration is one that the agent takes as it stands."""

import re

from duenotice.agent.config import read_config
from tools.links import ROOT


def test_the_first_configuration_can_be_copied() -> None:
    """One rule, and a handler that it uses."""
    (text,) = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "vms.md").read_text(), re.DOTALL)
    config = read_config(text)
    assert [rule.handlers for rule in config.rules] == [("web",)]
    assert set(config.handlers) == {"web"}
