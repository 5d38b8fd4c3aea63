"""docs/records.md: each record, what gives it and what it changes, and each command; from their tables."""

import inspect
from collections.abc import Callable
from typing import Any, get_args

from duenotice.domain.apply import APPLIERS
from duenotice.domain.records import TOUCHES, Change, Transition
from duenotice.domain.rules.decide import RULES
from tools.references.words import cell, code, head, table

INTRO = """
Every change is a record in the journal, and the state is what they add up to ([architecture](../ARCHITECTURE.md)). A row
says what a record means and what happens to it, from left to right:

1. **given by**: the commands whose rule may give it (`RULES` in `domain/rules/decide.py`). `Tick` is time that passes.
2. The writer appends it to the journal (`journal/codec.py` has the format), and `fold` in `domain/apply.py` applies it.
3. **applied by**: the function in `domain/apply.py` that changes the state. An index that follows from it (timers,
   blockers, events of a VM) is changed in `domain/indexes.py`, which that function calls.
4. **looked at again**: whose documents are derived again (`TOUCHES` in `domain/records.py`). If VMs would read the same
   as before, the incarnation stays (S4).
5. Then listeners hear of every record (`Engine.on_commit`): the log, the feed and audit trail of operators, metrics,
   the dispatcher of impacts and push.
"""


def page() -> str:
    """The whole page."""
    changes: tuple[type[Change], ...] = get_args(Transition)
    rows = [
        (
            code(_tag(change)),
            f"{code(change.__name__)}: {_said(change)}",
            ", ".join(code(name) for name in _given_by(change)) or "the engine, with the answer to a request",
            _applied_by(change),
            _looked_at(change),
        )
        for change in sorted(changes, key=_tag)
    ]
    commands = [
        (
            f"{code(command.__name__)}: {_said(command)}",
            _where(rule.decides),
            ", ".join(code(_tag(change)) for change in dict.fromkeys(rule.may_give)),
        )
        for command, rule in sorted(RULES.items(), key=lambda row: row[0].__name__)
    ]
    return "\n".join(
        (
            head("Records and commands", "the tables of `domain/`") + INTRO,
            "## Records\n",
            table(("record", "what it means", "given by", "applied by", "looked at again"), rows),
            "## Commands\n",
            table(("command", "rule", "records that it may give"), commands),
        )
    )


def _tag(change: type[Change]) -> str:
    return str(change.__struct_config__.tag)


def _said(known: object) -> str:
    return cell(inspect.getdoc(known) or "")


def _given_by(change: type[Change]) -> list[str]:
    return [command.__name__ for command, rule in RULES.items() if change in rule.may_give]


def _applied_by(change: type[Change]) -> str:
    function = APPLIERS[change]
    return f"{code(function.__name__)}: {_said(function)}"


def _looked_at(change: type[Change]) -> str:
    touch = TOUCHES.get(change)
    if touch is None:
        return "nothing"
    parts = {"scopes": touch.scopes, "VMs": touch.vms, "scopes of groups": touch.groups, "all": touch.everything}
    return ", ".join(name for name, part in parts.items() if part)


def _where(function: Callable[..., Any]) -> str:
    return code(f"{function.__module__.removeprefix('duenotice.').replace('.', '/')}.py: {function.__name__}")
