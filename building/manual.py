"""Manual pages, made from the commands themselves: one for each noun, with all its verbs."""

import re
from collections.abc import Iterator

import click

from duenotice import __version__
from duenotice.escape import one_line


def pages(root: click.Command, name: str, date: str) -> Iterator[tuple[str, str]]:
    """Each page: its file name and its text."""
    context = click.Context(root, info_name=name, **root.context_settings)
    subcommands = _subcommands(root, context)
    nouns = {noun: command for noun, command in subcommands.items() if name == "duenotice"}
    yield f"{name}.1", page(root, context, name, date, {} if nouns else subcommands, nouns)
    for noun, command in nouns.items():
        inner = click.Context(command, info_name=noun, parent=context)
        yield f"{name}-{noun}.1", page(command, inner, f"{name}-{noun}", date, _subcommands(command, inner), {})


def page(
    command: click.Command,
    context: click.Context,
    name: str,
    date: str,
    verbs: dict[str, click.Command],
    nouns: dict[str, click.Command],
) -> str:
    """One page in the language of man."""
    lines = [f'.TH "{name.upper()}" 1 "{date}" "duenotice {__version__}" "duenotice"', ".SH NAME"]
    lines += [f"{escaped(name)} \\- {escaped(command.get_short_help_str(200).rstrip('.'))}", ".SH SYNOPSIS"]
    lines += [f"\\fB{escaped(context.command_path)}\\fR {escaped(' '.join(command.collect_usage_pieces(context)))}"]
    lines += [".SH DESCRIPTION", *_prose(command.help or ""), *_options(command, context, ".SH OPTIONS")]
    if verbs:
        lines.append(".SH COMMANDS")
    for verb, inner in verbs.items():
        below = click.Context(inner, info_name=verb, parent=context)
        usage = f"{below.command_path} {' '.join(inner.collect_usage_pieces(below))}"
        lines += [
            f".SS {escaped(usage)}",
            *_prose(inner.help or ""),
            *_options(inner, below, ""),
            *_prose(inner.epilog),
        ]
    if nouns:
        lines.append(".SH COMMANDS")
    for noun, inner in nouns.items():
        lines += [".TP", f"\\fB{escaped(name)}\\-{escaped(noun)}\\fR(1)", escaped(inner.get_short_help_str(200))]
    lines += _prose(command.epilog)
    return "\n".join(lines) + "\n"


def _subcommands(command: click.Command, context: click.Context) -> dict[str, click.Command]:
    if not isinstance(command, click.Group):
        return {}
    found = {name: command.get_command(context, name) for name in command.list_commands(context)}
    return {name: inner for name, inner in found.items() if inner is not None}


def _prose(text: str | None) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", (text or "").strip()):
        if paragraph:
            yield from (".PP", escaped(one_line(" ".join(paragraph.split()))))


def _options(command: click.Command, context: click.Context, title: str) -> Iterator[str]:
    rows = [row for row in (option.get_help_record(context) for option in command.params) if row is not None]
    if rows and title:
        yield title
    for flags, text in rows:
        yield from (".TP", f"\\fB{escaped(flags)}\\fR", escaped(text))


def escaped(text: str) -> str:
    """What roff would take for its own is taken for text."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text.startswith((".", "'")) else text
