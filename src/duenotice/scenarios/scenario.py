"""A scenario as a value, and how its TOML is read: every mistake is refused with its file, line and key.

At the end are those that come with duenotice.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from duenotice.errors import Malformed, NotFound
from duenotice.scenarios import kinds as k
from duenotice.scenarios.kinds import CAST, CastRole
from duenotice.scenarios.verbs import ALLOWED, VERBS, Verb, tell
from duenotice.toml import Table, TomlFile, near_miss

_SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_NAME = re.compile(r"[a-z][a-z0-9_-]*")


@dataclass(frozen=True, slots=True)
class ScenarioStep:
    """One thing to do or to expect; `name` is how later steps refer to its result."""

    verb: str
    value: Any
    options: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    note: str = ""

    def tell(self, cast: Mapping[str, str] | None = None) -> str:
        """The step as a sentence."""
        called = f" → {self.name}" if self.name else ""
        return tell(self.verb, self.value, self.options, cast) + called


@dataclass(frozen=True, slots=True)
class Scenario:
    """A whole story: who plays, and what happens step by step."""

    name: str
    title: str
    about: str
    trap: str
    cast: tuple[CastRole, ...]
    steps: tuple[ScenarioStep, ...]


def read_scenario(text: str, source: str = "scenario") -> Scenario:
    """The scenario a file tells, or `Misconfigured` naming file, line, key and what to do."""
    file = TomlFile(text, source, between=":")
    return _Reader().read(Table(file, file.read()))


class _Reader:
    """Reads tables in order, since a step may only refer to what came before it."""

    def __init__(self) -> None:
        self._known = k.KnownNames({})

    def read(self, top: Table) -> Scenario:
        name = top.take("name", str)
        if not _SLUG.fullmatch(name):
            raise top.wrong(f"name {name!r} is not a valid name", "Use small letters, digits and dashes.", "name")
        title, about, trap = top.take("title", str), top.take("about", str), top.take("trap", str, "")
        cast = tuple(
            self._role(role, Table(top.file, raw, ("cast", role))) for role, raw in top.take("cast", dict).items()
        )
        steps = tuple(self._step(table) for table in top.tables("steps"))
        top.done()
        if not steps:
            raise top.wrong("has no steps", "Add [[steps]].")
        if not any(role.is_vm for role in cast):
            raise top.wrong("cast has no VM", "At least one VM must read a document: add a role that is a VM.", "cast")
        return Scenario(name, title, " ".join(about.split()), trap, cast, steps)

    def _role(self, name: str, table: Table) -> CastRole:
        if not _NAME.fullmatch(name):
            raise table.wrong("is not a valid name for a role", "Use small letters, digits, dash and underscore.")
        kind = table.take("is", str)
        if kind not in CAST:
            raise table.wrong(f"is = {kind!r} is not a kind of role", near_miss(kind, CAST, "kinds"), "is")
        needs = self._options(table, CAST[kind].needs)
        table.done()
        if missing := [key for key in CAST[kind].required if key not in needs]:
            raise table.wrong(f"has no {missing[0]!r}", f"Add {missing[0]} = …")
        self._known.roles[name] = kind
        return CastRole(name, kind, needs)

    def _step(self, table: Table) -> ScenarioStep:
        verb = self._verb(table)
        row = VERBS[verb]
        value = self._value(table, verb, row.value)
        options = self._options(table, row.options)
        name = table.take("as", str, "") if row.names else ""
        note = table.take("note", str, "")
        table.done()
        self._check(table, verb, row, value, options, name)
        if name:
            self._known.named[row.names].add(name)
        return ScenarioStep(verb, value, options, name, note)

    def _verb(self, table: Table) -> str:
        verbs = [key for key in table.keys if key in VERBS]
        if len(verbs) == 1:
            return verbs[0]
        if verbs:
            raise table.wrong(f"has two verbs, {verbs[0]} and {verbs[1]}", "Make it two steps.", verbs[1])
        first = next(iter(table.keys), "")
        what = f"has no verb; {first!r} is not one" if first else "is empty"
        raise table.wrong(what, near_miss(first, VERBS, "verbs"), first)

    def _check(self, table: Table, verb: str, row: Verb, value: Any, options: Mapping[str, Any], name: str) -> None:
        if missing := [key for key in row.needs if key not in options]:
            raise table.wrong(f"{verb} needs {missing[0]!r}", f"Add {missing[0]} = …", verb)
        if verb != "expect" or value not in ALLOWED:
            return
        if odd := [key for key in (*options, *(["as"] if name else [])) if key not in ALLOWED[value]]:
            raise table.wrong(f"{odd[0]} cannot be used when {value} is expected", "Leave it out.", odd[0])

    def _options(self, table: Table, options: Mapping[str, k.Kind]) -> dict[str, Any]:
        return {key: self._value(table, key, kind) for key, kind in options.items() if table.has(key)}

    def _value(self, table: Table, key: str, kind: k.Kind) -> Any:
        try:
            return kind(table.take(key, object), self._known)
        except Malformed as error:
            raise table.wrong(f"{key}: {error.message.rstrip('.')}", error.hint, key) from None


_FOLDER = Path(__file__).parent / "shipped"
_FLEET = "fleet.toml"


def shipped_names() -> list[str]:
    """What the shipped scenarios are called."""
    return sorted(file.name.removesuffix(".toml") for file in _FOLDER.iterdir() if file.name != _FLEET)


def shipped_scenario(name: str) -> Scenario:
    """A shipped scenario."""
    if name not in (known := shipped_names()):
        raise NotFound(f"There is no scenario {name!r}.", hint=near_miss(name, known, "scenarios"))
    return read_scenario((_FOLDER / f"{name}.toml").read_text(), f"{name}.toml")


def shipped_fleet() -> Path:
    """The fleet file for a play on its own service."""
    return _FOLDER / _FLEET
