"""What is printed: data on standard output as a table, JSON, JSON lines, YAML or names; words to people beside it.

All but tables passes through `print_text`, `print_note`, `print_row` and `confirm`, so that no text can act on the
terminal (S28).
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from types import ModuleType
from typing import NamedTuple, TypedDict, Unpack

import click

from duenotice.escape import lines, one_line

Fields = dict[str, object]
"""A thing as JSON has it."""
Now = Callable[[], datetime]
NEVER = datetime.min.replace(tzinfo=UTC)


class Style(TypedDict, total=False):
    """What click may do with a text."""

    fg: str
    bold: bool
    dim: bool


def print_text(text: str = "", *, err: bool = False, nl: bool = True, **style: Unpack[Style]) -> None:
    """Print a text of one or many lines; its style is never part of the text."""
    click.secho(lines(text), err=err, nl=nl, **style)  # noqa: TID251


def print_note(message: str, **style: Unpack[Style]) -> None:
    """Say something to the person in one line; standard output is for data."""
    print_text(one_line(message), err=True, **style)


def print_row(line: str) -> None:
    """One line of many; it is buffered."""
    sys.stdout.write(f"{one_line(line)}\n")


def confirm(question: str) -> bool:
    """Whether the person says yes."""
    return click.confirm(one_line(question), err=True)


class TableColumn(NamedTuple):
    """A column of a table: its title, the key of its value, and how it looks (see views.LOOKS).

    The key "" is the whole thing. An optional column is left out when the terminal is too narrow for all columns.
    """

    title: str
    key: str
    look: str = "text"
    optional: bool = False


class TableView(NamedTuple):
    """How a kind of thing is shown: the key of its name, and its columns."""

    name: str
    columns: tuple[TableColumn, ...]
    none: str
    more: tuple[TableColumn, ...]  # columns that are shown only for one thing


def columns(text: str) -> tuple[TableColumn, ...]:
    """Columns from short text: `TITLE=key:look?` for each.

    `_` in the title is a space, without `:look` the value is text, and `?` makes the column optional.
    """
    made = []
    for word in text.split():
        title, _, rest = word.partition("=")
        key, _, look = rest.removesuffix("?").partition(":")
        made.append(TableColumn(title.replace("_", " "), key, look or "text", rest.endswith("?")))
    return tuple(made)


def view(name: str, text: str, none: str = "Nothing.", more: str = "") -> TableView:
    """A view with its columns as short text; `none` is said when there are no things."""
    return TableView(name, columns(text), none, columns(more))


def fields_of(thing: object) -> Fields:
    """A thing as JSON has it: values of the service are turned into plain ones."""
    if isinstance(thing, dict):
        return thing
    import msgspec  # costs milliseconds that --help should not pay

    found: Fields = msgspec.json.decode(msgspec.json.encode(thing), type=dict)  # tuples become lists
    return found


def _write_table(items: Iterable[object], view: TableView, now: Now) -> None:
    from duenotice.cli.views import has_times

    terminal = _terminal()
    rows = [fields_of(item) for item in (terminal.counted(items) if terminal else items)]
    if rows:
        write = terminal.write_table if terminal else write_plain_table
        write(rows, view, now() if has_times(view) else NEVER)
    else:
        print_note(view.none)


def _write_detail(item: object, view: TableView, now: Now) -> None:
    from duenotice.cli.views import has_times

    terminal = _terminal()
    write = terminal.write_detail if terminal else write_plain_detail
    write(fields_of(item), view, now() if has_times(view) else NEVER)


def _terminal() -> ModuleType | None:
    """Tables for a terminal, where rich is installed: it comes with an extra. It is slow to import."""
    try:
        from duenotice.cli import terminal
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "rich":
            return None
        raise
    return terminal


def write_plain_table(items: list[Fields], view: TableView, now: datetime) -> None:
    """Print things as plain lines of any length, in a pipe or without rich."""
    from duenotice.cli.views import cell

    rows = ([str(cell(item, column, now)) for column in view.columns] for item in items)
    sys.stdout.writelines(aligned([[column.title for column in view.columns], *rows]))


def write_plain_detail(item: Fields, view: TableView, now: datetime) -> None:
    """Print one thing as plain lines."""
    from duenotice.cli.views import cell

    rows = [[column.title, str(cell(item, column, now))] for column in view.columns + view.more]
    sys.stdout.writelines(aligned(rows))


def aligned(rows: list[list[str]]) -> Iterator[str]:
    """Lines with aligned cells; rich would take a minute for 100,000 of them."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(map(str.ljust, row, widths)).rstrip() + "\n"


def _write_json(items: Iterable[object], _: TableView, __: Now) -> None:
    print_text(_json([fields_of(item) for item in items], 2))


def _write_jsonl(items: Iterable[object], _: TableView, __: Now) -> None:
    for item in items:
        print_row(_json(fields_of(item)))  # as they arrive: a fleet may be too large for memory


def _write_yaml(items: Iterable[object], _: TableView, __: Now) -> None:
    print_text("\n".join(yaml_lines([fields_of(item) for item in items])))


def _write_names(items: Iterable[object], view: TableView, _: Now) -> None:
    for item in items:
        print_row(str(fields_of(item)[view.name]))


WRITERS: dict[str, Callable[[Iterable[object], TableView, Now], None]] = {
    "table": _write_table,
    "json": _write_json,
    "jsonl": _write_jsonl,
    "yaml": _write_yaml,
    "name": _write_names,
}


SINGLE: dict[str, Callable[[object, TableView, Now], None]] = {
    "table": _write_detail,
    "json": lambda item, _, __: print_text(_json(fields_of(item), 2)),
    "yaml": lambda item, _, __: print_text("\n".join(yaml_lines(fields_of(item)))),
}


def write_one(output: str, item: object, view: TableView, now: Now) -> None:
    """One thing: an object, and not an array."""
    if output in SINGLE:
        SINGLE[output](item, view, now)
    else:
        WRITERS[output]([item], view, now)


def yaml_lines(value: object) -> list[str]:
    """A value in block style; scalars as in JSON, which YAML reads too."""
    if isinstance(value, dict) and value:
        return [line for key, inner in value.items() for line in _under(f"{_key(key)}:", inner)]
    if isinstance(value, list) and value:
        return [line for inner in value for line in _item(yaml_lines(inner))]
    return [_json(value)]


def _under(head: str, value: object) -> list[str]:
    lines = yaml_lines(value)
    if isinstance(value, dict | list) and value:
        return [head, *(f"  {line}" for line in lines)]
    return [f"{head} {lines[0]}"]


def _item(lines: list[str]) -> list[str]:
    return [f"- {lines[0]}", *(f"  {line}" for line in lines[1:])]


def _key(key: str) -> str:
    return key if key.replace("_", "a").isidentifier() else _json(key)


def _json(value: object, indent: int | None = None) -> str:
    return json.dumps(value, indent=indent, ensure_ascii=False)
