"""docs/records.md: each record, what gives it and what it changes, and each command; from their tables."""

import inspect
from collections.abc import Callable, Collection
from typing import Any, get_args

from duenotice.bootstrap.host_watch import OVER
from duenotice.domain.apply import APPLIERS
from duenotice.domain.records import QUIET, TOUCHES, Change, Transition
from duenotice.domain.rules.decide import RULES
from duenotice.impact.dispatcher import ACTIONS
from duenotice.push.worker import TOLD
from tools.references.words import cell, code, head, table

INTRO = """
Every change is a record in the journal, and the state is what they add up to ([architecture](../ARCHITECTURE.md)). A
row says what a record means and what happens to it, from left to right:

1. **given by**: the commands whose rule may give it (`RULES` in `domain/rules/decide.py`). `Tick` is time that passes.
2. The writer folds it into its own state (`fold` in `domain/apply.py`) and appends it to the journal with the rest of
   its batch (`store/codec.py` has the format). When it is durable, the state that VMs read is changed by the same
   `fold`.
3. **applied by**: the function in `domain/apply.py` that changes the state. An index that follows from it (timers,
   blockers, events of a VM) is changed in `domain/indexes.py`, which that function calls.
4. **looked at again**: whose documents are derived again (`TOUCHES` in `domain/records.py`): those of its own scope, of
   VMs that it names, of scopes of groups that are gone, or all. If VMs would read the same as before, the incarnation
   stays (S4).
5. **acted on by**: who does something about it (`Engine.on_commit`). Metrics count every record, and the audit trail
   reads every one from the journal. `engine/event_traces.py` keeps the moments of events. Other nodes and followers
   read all records that concern a VM of theirs; a connection of a follower, and of a
   reader of the feed, ends with its token. `azure_api/operations.py` answers who waits for the end of an event or plan.
"""


_LISTENERS: dict[str, Collection[type]] = {
    "log, feed": [change for change in get_args(Transition) if change not in QUIET],
    "impact": ACTIONS,
    "push": TOLD,
    "host watch": OVER,
}
"""Who does something about which records, as their own tables say."""


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
            ", ".join(name for name, kinds in _LISTENERS.items() if change in kinds),
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
            table(("record", "what it means", "given by", "applied by", "looked at again", "acted on by"), rows),
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
    parts = {
        "its scope" if touch.vms is None else "scopes of its VMs": touch.scopes,
        "its VMs": touch.vms,
        "scopes of its groups": touch.groups,
        "all": touch.everything,
    }
    return ", ".join(name for name, part in parts.items() if part)


def _where(function: Callable[..., Any]) -> str:
    return code(f"{function.__module__.removeprefix('duenotice.').replace('.', '/')}.py: {function.__name__}")
