"""`--help` of `duenotice` and of each noun. docs/commands.md has what each verb says, and is compared with the code."""

from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from duenotice.cli.main import duenotice
from tests.golden.compare import assert_golden

FILE = "cli_help.txt"
WIDTH = 80
VERBS = (Path(__file__).parents[2] / "docs" / "commands.md").read_text().splitlines()


def commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command with its words, in the order in which help lists them."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from commands(found, (*path, name))


def shown(*path: str) -> str:
    """What `--help` prints on a terminal of a fixed width."""
    done = CliRunner().invoke(duenotice, [*path, "--help"], terminal_width=WIDTH, prog_name="duenotice")
    assert done.exit_code == 0, done.output
    return f"$ {' '.join(['duenotice', *path, '--help'])}\n{done.output}"


def test_the_help_of_each_noun_is_what_it_was() -> None:
    """And of `duenotice` itself, with its exit codes."""
    told = [shown(*path) for path, command in commands(duenotice) if isinstance(command, click.Group)]
    # One verb, so that the layout is there too: the order of its parts, and how it wraps.
    assert_golden(FILE, "\n".join([*told, shown("events", "schedule")]))


@pytest.mark.parametrize("path", [path for path, command in commands(duenotice) if not command.hidden], ids=" ".join)
def test_the_page_of_all_commands_has_it(path: tuple[str, ...]) -> None:
    """tests/unit/docs compares that page with the code, so a change of any help is a diff there."""
    assert not path or f"{'#' * (len(path) + 1)} duenotice {' '.join(path)}" in VERBS


def test_no_command_is_hidden() -> None:
    """The page leaves out what is hidden: then it would have to be here."""
    assert [path for path, command in commands(duenotice) if command.hidden] == []
    options = [option for _, command in commands(duenotice) for option in command.params]
    assert [option.name for option in options if isinstance(option, click.Option) and option.hidden] == []
