"""docs/testing.md is true: its examples pass, and it knows every rule, trial, fault and word; README quotes it.

So is docs/tutorial.md: its test fails as the page says, and passes with the fix.
"""

import re
from pathlib import Path

import pytest

from duenotice.metadata_api.faults import FAULTS
from duenotice.testing import ScheduledEvents
from duenotice.testkit.fixture import DEFAULT_VM
from duenotice.testkit.judging import Plan, vm_of
from duenotice.testkit.suite import TRIALS
from duenotice.testkit.verdicts.rules import RULES
from duenotice.wire.fleet_file import read_fleet
from tests.testkit.test_plugin import PLUGIN

pytest_plugins = ["pytester"]
ROOT = Path(__file__).parents[2]
PAGE, README = (ROOT / "docs" / "testing.md").read_text(), (ROOT / "README.md").read_text()
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text()
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


@pytest.mark.parametrize("page", [PAGE, README], ids=["testing.md", "README.md"])
def test_what_run_prints_is_quoted_word_for_word(page: str) -> None:
    """The trials of a tour without --peers-ready, and the rules behind their signs."""
    tour = [step for step in TRIALS if step.name != "peers"]
    trials = [f"{number:2}/{len(tour)} {step.name}: {step.about}" for number, step in enumerate(tour, start=1)]
    quoted = re.findall(r"^ ?[0-9]+/[0-9]+ [a-z-]+: .*", page, re.MULTILINE)
    assert quoted and [line for line in quoted if line not in trials] == []
    rules = {(rule.id, str(rule.severity), rule.sentence) for rule in RULES}
    rows = re.findall(r"^[✓✗·!]  (\S+) +(\S+)  +(?:passed|warned|failed|not tried) +(.*)", page, re.MULTILINE)
    assert rows and [row for row in rows if row not in rules] == []


def test_a_vm_that_nobody_named_is_called_me_everywhere(scheduled_events: ScheduledEvents) -> None:
    """In the fixture, in `run` and `check`, in the demo, and wherever the documents start `serve`."""
    demo = read_fleet((ROOT / "src/duenotice/cli/demo-fleet.toml").read_text())
    told = {name for page in (PAGE, README) for name in re.findall(r"--default-vm (\S+?)[\s`]", page)}
    assert (scheduled_events.vm().name, vm_of(Plan()), told) == (DEFAULT_VM, DEFAULT_VM, {DEFAULT_VM})
    assert DEFAULT_VM in [vm.name for vm in demo.vms]
    assert f"called `{DEFAULT_VM}` unless `--vm` says otherwise" in PAGE


def test_the_readme_knows_how_many_rules_there_are() -> None:
    """Wherever it counts them."""
    assert set(re.findall(r"by ([0-9]+) rules", README)) == {str(len(RULES))}


def test_the_tutorial_fails_as_it_says_and_passes_with_its_fix(pytester: pytest.Pytester) -> None:
    """Copied file by file, in the order of the page."""
    files = re.findall(r"```python\n# (\w+)\.py\n(.*?)```", TUTORIAL, re.DOTALL)
    failing, passing = re.findall(r"```console\n\$ pytest\n(.*?)```", TUTORIAL, re.DOTALL)
    (worker, before), (test, wanted), (fixed, after) = files
    assert worker == fixed
    pytester.makepyfile(**{worker: before, test: wanted})
    result = pytester.runpytest_inprocess(*PLUGIN)
    result.stdout.fnmatch_lines(['*E*ValueError: Invalid date value or format ""', "*1 failed in*"])
    assert 'ValueError: Invalid date value or format ""' in failing and "1 failed" in failing
    pytester.makepyfile(**{worker: after})
    pytester.runpytest_inprocess(*PLUGIN).assert_outcomes(passed=1)
    assert "1 passed" in passing
