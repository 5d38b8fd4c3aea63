"""Data on standard output in the form asked for: a table for people, JSON, JSON lines, YAML or names for programs."""

import json
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from duenotice.cli.saying import put, say, tell

Now = Callable[[], str]


class Column(NamedTuple):
    """A column of a table: its title, the key of its value, and how it looks (see tables.LOOKS).

    The key "" is the whole thing. A spare column is left out when the terminal is too narrow for all columns.
    """

    title: str
    key: str
    look: str = "text"
    spare: bool = False


class View(NamedTuple):
    """How a kind of thing is shown: the key of its name, and its columns."""

    name: str
    columns: tuple[Column, ...]
    none: str = "Nothing."
    more: tuple[Column, ...] = ()  # columns that are shown only for one thing


def _write_table(items: Iterable[Any], view: View, now: Now) -> None:
    from duenotice.cli import tables  # rich is slow to import

    rows = list(tables.counted(items))
    if rows:
        tables.write_table(rows, view, now() if tables.has_times(view) else "")
    else:
        tell(view.none)


def _write_card(item: Any, view: View, now: Now) -> None:
    from duenotice.cli import tables

    tables.write_card(item, view, now() if tables.has_times(view) else "")


def _write_json(items: Iterable[Any], _: View, __: Now) -> None:
    say(_json(list(items), 2))


def _write_jsonl(items: Iterable[Any], _: View, __: Now) -> None:
    for item in items:
        put(_json(item))  # as they arrive: a fleet may be too large for memory


def _write_yaml(items: Iterable[Any], _: View, __: Now) -> None:
    say("\n".join(yaml_lines(list(items))))


def _write_names(items: Iterable[Any], view: View, _: Now) -> None:
    for item in items:
        put(str(item[view.name]))


WRITERS: dict[str, Callable[[Iterable[Any], View, Now], None]] = {
    "table": _write_table,
    "json": _write_json,
    "jsonl": _write_jsonl,
    "yaml": _write_yaml,
    "name": _write_names,
}


SINGLE: dict[str, Callable[[Any, View, Now], None]] = {
    "table": _write_card,
    "json": lambda item, _, __: say(_json(item, 2)),
    "yaml": lambda item, _, __: say("\n".join(yaml_lines(item))),
}


def write_one(output: str, item: Any, view: View, now: Now) -> None:
    """One thing: an object, and not an array."""
    if output in SINGLE:
        SINGLE[output](item, view, now)
    else:
        WRITERS[output]([item], view, now)


def yaml_lines(value: Any) -> list[str]:
    """A value in block style; scalars as in JSON, which YAML reads too."""
    if isinstance(value, dict) and value:
        return [line for key, inner in value.items() for line in _under(f"{_key(key)}:", inner)]
    if isinstance(value, list) and value:
        return [line for inner in value for line in _item(yaml_lines(inner))]
    return [_json(value)]


def _under(head: str, value: Any) -> list[str]:
    lines = yaml_lines(value)
    if isinstance(value, dict | list) and value:
        return [head, *(f"  {line}" for line in lines)]
    return [f"{head} {lines[0]}"]


def _item(lines: list[str]) -> list[str]:
    return [f"- {lines[0]}", *(f"  {line}" for line in lines[1:])]


def _key(key: str) -> str:
    return key if key.replace("_", "a").isidentifier() else _json(key)


def _json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, indent=indent, ensure_ascii=False)
