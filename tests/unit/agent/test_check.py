"""Rules of a configuration that no event falls under."""

from pathlib import Path

import pytest

from duenotice.agent.check import SHORTEST_NOTICE, cut_short, findings, never_matches
from duenotice.agent.config import read_config
from duenotice.domain.rules.timing import MINIMUM_SECONDS
from duenotice.wire.seen_documents import ADVICE

ALWAYS = "[[rules]]\nhandlers = []\n"


def never(rules: str) -> list[str]:
    return never_matches(read_config(rules))


@pytest.mark.parametrize(
    ("rules", "found"),
    [
        (ALWAYS + 'types = ["Reboot"]', ""),
        (ALWAYS + ALWAYS + 'types = ["SpotRebalanceRecommendation"]', ""),
        (ALWAYS + 'types = ["reboot"]', "rules[1].types: 'reboot' never matches. Did you mean 'Reboot'?"),
        (ALWAYS + 'types = ["REBOOT"]', "rules[1].types: 'REBOOT' never matches. Did you mean 'Reboot'?"),
        (ALWAYS + 'sources = ["user"]', "rules[1].sources: 'user' never matches. Did you mean 'User'?"),
        (ALWAYS + 'sources = ["Azure"]', "rules[1].sources: 'Azure' never matches. Known sources: Platform, User."),
        (ALWAYS + 'shorter_than = "9s"\nlonger_than = "9s"', "rules[1]: no event is shorter than 9 s and longer"),
        (ALWAYS + 'shorter_than = "9s"\nlonger_than = "1s"', ""),
        (ALWAYS + ALWAYS, "rules[2]: never matches, because the rules before it take every such event."),
        (ALWAYS + 'types = ["Freeze"]\n' + ALWAYS, ""),
        (ALWAYS + 'resources = ["a"]\n' + ALWAYS, ""),
        (ALWAYS + 'sources = ["User"]\n' + ALWAYS + 'types = ["Freeze"]\nsources = ["User"]', "rules[2]: never"),
    ],
)
def test_what_can_never_match_is_found(rules: str, found: str) -> None:
    """By its number, with the word that was probably meant."""
    problems = never(rules)
    assert [problem.startswith(found) for problem in problems] == ([True] if found else [])


def test_check_refuses_what_never_matches() -> None:
    """It is a finding like any other."""
    assert findings(read_config(ALWAYS + 'types = ["reboot"]'), {}) == never(ALWAYS + 'types = ["reboot"]')


HANDLERS = """
[handlers.first]
kind = "log"
timeout = "{first}"
[handlers.second]
kind = "log"
required = false
timeout = "{second}"
"""
BOTH = '[[rules]]\nhandlers = ["first", "second"]\n'


@pytest.mark.parametrize(
    ("rule", "first", "second", "found"),
    [
        ('types = ["Freeze", "Reboot"]', "14m", "58s", ""),
        ('types = ["Freeze", "Reboot"]', "14m", "59s", "rules[1]: Freeze may come 900 s before the impact"),
        ('types = ["Reboot", "Redeploy"]', "9m", "59s", "rules[1]: Redeploy may come 600 s before"),
        ('types = ["Reboot", "Preempt"]', "20s", "8s", ""),
        ('types = ["Reboot", "Preempt"]', "20s", "9s", "rules[1]: Preempt may come 30 s before"),
        ("", "4m", "58s", ""),
        ("", "4m", "59s", "rules[1]: Terminate may come 300 s before"),
        ('types = ["Reboot"]\nwithin = "2m"', "1m", "58s", ""),
        ('types = ["Reboot"]\nwithin = "2m"', "1m", "59s", "rules[1]: Reboot begins 120 s before"),
        ('types = ["NewType"]', "99m", "1s", ""),
    ],
)
def test_a_plan_that_cannot_fit_the_shortest_notice_is_found(rule: str, first: str, second: str, found: str) -> None:
    """Handlers run one after the other, best effort too; what is over before the approval is enough."""
    problems = cut_short(read_config(BOTH + rule + HANDLERS.format(first=first, second=second)))
    assert [problem.startswith(found) for problem in problems] == ([True] if found else [])


def test_the_shortest_notice_is_that_of_the_contract() -> None:
    """The agent has a table of its own: it carries nothing of the service."""
    told = {each.value.title(): seconds for each, seconds in MINIMUM_SECONDS.items()}
    assert {name: seconds for name, seconds in told.items() if name != ADVICE.title()} == SHORTEST_NOTICE


def test_check_finds_a_look_at_the_health_that_others_may_change(tmp_path: Path) -> None:
    """It runs as root, as hooks do; an address runs nothing."""
    program = tmp_path / "healthy"
    program.write_text("#!/bin/sh\n")
    drain = '[handlers.drain]\nkind = "command"\nprepare = ["/bin/true"]\nhealthy = '
    found = []
    for mode in (0o755, 0o777):
        program.chmod(mode)
        found.append([each.partition(": ")[0] for each in findings(read_config(f'{drain}["{program}"]'), {})])
    assert found == [[], ["handlers.drain.healthy"]]
    assert findings(read_config(f'{drain}"http://127.0.0.1/health"'), {}) == []
