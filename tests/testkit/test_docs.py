"""docs/testing.md is true: its examples pass, and it knows every rule, trial, fault and word."""

import re
from pathlib import Path

import pytest

from duenotice.metadata_api.faults import FAULTS
from duenotice.testkit.trials import TRIALS
from duenotice.testkit.verdicts.rules import RULES
from tests.testkit.test_plugin import PLUGIN

pytest_plugins = ["pytester"]
PAGE = (Path(__file__).parents[2] / "docs" / "testing.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_every_example_in_python_passes(pytester: pytest.Pytester) -> None:
    """Copied as it stands, without any configuration."""
    pytester.makepyfile(**{f"test_{number}": text for number, text in enumerate(EXAMPLES)})
    result = pytester.runpytest_subprocess(*PLUGIN, "-W", "error")
    result.assert_outcomes(passed=len(EXAMPLES))


def test_every_rule_trial_and_fault_is_on_the_page() -> None:
    """As the code has it, word for word."""
    rules = [f"| `{rule.id}` | {rule.severity} | {rule.sentence} | {rule.fix} |" for rule in RULES]
    trials = [f"| `{step.name}` | {step.about} |" for step in TRIALS]
    assert [row for row in (*rules, *trials) if row not in PAGE] == []
    assert [name for name in FAULTS if f"`{name}`" not in PAGE] == []
