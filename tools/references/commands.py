"""docs/commands.md: every command with its arguments and options, as `--help` shows them."""

import inspect
import re
from collections.abc import Iterator

import click

from duenotice.cli.main import duenotice
from tools.references.words import cell, code, head, table

INTRO = """
What `duenotice NOUN VERB --help` prints, for all commands. [The command line](cli.md) explains how they work together,
what they print, and their exit codes.

Each option can also be an environment variable: `DUENOTICE_`, the command and the option, in upper case, with `_` for
spaces and dashes. `vm restart --wait` is `DUENOTICE_VM_RESTART_WAIT`. Some have another variable, which is named below.
The options of `serve` are [settings](settings.md).
"""
HIDDEN = {"--help", "--version"}


def page() -> str:
    """The whole page."""
    context = click.Context(duenotice, info_name="duenotice", **duenotice.context_settings)
    sections = [
        _section(command, click.Context(command, info_name=name, parent=context))
        for name, command in verbs(duenotice, context)
    ]
    return head("All commands", "the commands") + INTRO + "\n" + "\n".join(sections)


def verbs(command: click.Group, context: click.Context) -> Iterator[tuple[str, click.Command]]:
    """What is below a noun, by name, without what is hidden."""
    for name in sorted(command.list_commands(context)):
        found = command.get_command(context, name)
        if found is not None and not found.hidden:
            yield name, found


def _section(command: click.Command, context: click.Context, level: int = 2) -> str:
    parts = [f"{'#' * level} {context.command_path}", _prose(command.help)]
    if isinstance(command, click.Group):
        for name, verb in verbs(command, context):
            parts.append(_section(verb, click.Context(verb, info_name=name, parent=context), level + 1).rstrip("\n"))
    else:
        usage = f"{context.command_path} {' '.join(command.collect_usage_pieces(context))}"
        parts += [f"```text\n{usage}\n```", _options(command, context), _example(command)]
    return "\n\n".join(part.rstrip("\n") for part in parts if part) + "\n"


def _prose(text: str | None) -> str:
    paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(text or "").replace("\b", ""))
    return "\n\n".join(cell(paragraph).replace("\\|", "|") for paragraph in paragraphs if paragraph.strip())


def _options(command: click.Command, context: click.Context) -> str:
    rows = []
    for option in command.params:
        record = option.get_help_record(context)
        if record is None or HIDDEN & set(option.opts):
            continue
        named = f" ({code(str(option.envvar))})" if isinstance(option.envvar, str) else ""
        rows.append((code(record[0]), cell(record[1]) + named))
    return table(("option", "what it does"), rows) if rows else ""


def _example(command: click.Command) -> str:
    example = (command.epilog or "").partition("Example: ")[2]
    return f"```sh\n{example}\n```" if example else ""
