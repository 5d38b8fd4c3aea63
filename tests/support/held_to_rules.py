"""Holds every rule that a test runs to its row of `RULES`: it gives only the records that the row names."""

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

import pytest

from duenotice.domain.commands import Tick
from duenotice.domain.rules import decide, due


def _held(command: type, rule: decide.Rule) -> decide.Rule:
    @wraps(rule.decides)
    def decides(*arguments: Any) -> Any:
        changes = rule.decides(*arguments)
        _check(command, rule, changes)
        return changes

    return rule._replace(decides=decides)


def _check(command: type, rule: decide.Rule, changes: list[Any]) -> None:
    others = {type(change).__name__ for change in changes} - {kind.__name__ for kind in rule.may_give}
    assert not others, f"{command.__name__} gives {others}, which its row of RULES does not name"


@pytest.fixture(scope="session", autouse=True)
def every_rule_keeps_to_its_row() -> Iterator[None]:
    """Commands by their row, and what time brings by the row of `Tick`."""
    tick, action = decide.RULES[Tick], due.DueAction

    def checked(of: str, changes: list[Any]) -> due.DueAction:
        _check(Tick, tick, changes)
        return action(of, changes)

    made: Callable[..., Any] = checked
    with pytest.MonkeyPatch.context() as patch:
        for command, rule in list(decide.RULES.items()):
            patch.setitem(decide.RULES, command, _held(command, rule))
        patch.setattr(due, "DueAction", made)
        yield
