"""The help of every command, walked as a tree: what it is for, what each flag means, and an example that is true."""

import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from duenotice.cli.errors import EXIT_CODES
from duenotice.cli.main import COMMANDS, duenotice
from duenotice.cli.options import first_sentence

DOCUMENT = (Path(__file__).parents[3] / "docs" / "cli.md").read_text()


def leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command that does something, with its words."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from leaves(found, (*path, name))


LEAVES = list(leaves(duenotice))
EACH = pytest.mark.parametrize(("path", "command"), LEAVES, ids=[" ".join(path) for path, _ in LEAVES])


@EACH
def test_help_says_what_it_is_for_and_has_an_example(path: tuple[str, ...], command: click.Command) -> None:
    """Both are there for every command, and `--help` of the whole path prints them."""
    shown = CliRunner().invoke(duenotice, [*path, "--help"])
    assert shown.exit_code == 0
    assert command.get_short_help_str(200)
    assert f"duenotice {' '.join(path)}" in shown.output.split("Example: ")[1]


@EACH
def test_the_example_would_be_understood(path: tuple[str, ...], command: click.Command) -> None:
    """Its flags and arguments are those of the command."""
    words = shlex.split((command.epilog or "").removeprefix("Example: "))
    if words[0] == "eval":
        words = shlex.split(words[1].strip("$()"))
    assert tuple(words[1 : 1 + len(path)]) == path
    # With the settings of duenotice: click keeps the help option of a command as the first context has it.
    command.make_context(path[-1], words[1 + len(path) :], **duenotice.context_settings)


@EACH
def test_every_flag_says_what_it_does(path: tuple[str, ...], command: click.Command) -> None:
    """A flag without a word is a riddle."""
    silent = [
        parameter.name for parameter in command.params if isinstance(parameter, click.Option) and not parameter.help
    ]
    assert silent == []


@EACH
def test_the_document_names_it(path: tuple[str, ...], command: click.Command) -> None:
    """docs/cli.md has each noun in a row with its verbs."""
    if len(path) == 1:
        assert f"`{path[0]}" in DOCUMENT
    else:
        (row,) = [line for line in DOCUMENT.splitlines() if line.startswith(f"| `{path[0]}` |")]
        assert f"`{path[1]}`" in row


def test_the_document_has_every_exit_code() -> None:
    """Those of errors, success, and an interrupt."""
    for code in {0, *EXIT_CODES.values(), 130}:
        assert f"\n| {code} | " in DOCUMENT


def test_the_first_help_has_a_line_for_every_noun() -> None:
    """The table in `main` and the commands agree."""
    shown = CliRunner().invoke(duenotice, ["--help"]).output
    assert all(place.help in " ".join(shown.split()) for place in COMMANDS.values())


def groups(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every noun with verbs below it."""
    if isinstance(command, click.Group):
        yield path
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from groups(found, (*path, name))


@pytest.mark.parametrize("path", list(groups(duenotice)), ids=" ".join)
def test_the_help_of_a_noun_has_whole_sentences(path: tuple[str, ...]) -> None:
    """Over two lines where one is too short, but never cut."""
    shown = CliRunner().invoke(duenotice, [*path, "--help"], terminal_width=80).output
    listed = " ".join(shown.partition("Commands:")[2].split())
    verbs = [(leaf[-1], command) for leaf, command in LEAVES if leaf[:-1] == path]
    assert "..." not in listed
    if path:
        assert [name for name, verb in verbs if f"{name} {first_sentence(verb.help or '')}" not in listed] == []


@EACH
def test_a_flag_shows_what_it_takes(path: tuple[str, ...], command: click.Command) -> None:
    """Each word of a choice as it is written, and no name of a type."""
    shown = " ".join(CliRunner().invoke(duenotice, [*path, "--help"], terminal_width=200).output.split())
    for option in command.params:
        if isinstance(option, click.Option) and isinstance(option.type, click.Choice):
            assert f"[{'|'.join(option.type.choices)}]" in shown
    assert not [word for word in ("VALUE", "INTEGER", "RANGE", "FLOAT") if word in shown.replace("KEY=VALUE", "")]


def test_on_a_hypervisor_the_help_shows_the_defaults_of_a_hypervisor() -> None:
    """Three of them are not those of `serve`."""
    shown = " ".join(CliRunner().invoke(duenotice, ["host", "run", "--help"]).output.split())
    assert "VMs ask [default: 169.254.169.254:80]" in shown
    assert "who carries out impacts [default: libvirt]" in shown
    assert "run at once [default: 1000]" in shown


def test_settings_that_take_some_words_show_them() -> None:
    """As every other choice."""
    shown = CliRunner().invoke(duenotice, ["serve", "--help"]).output
    assert "--impact [simulated|command|webhook|libvirt]" in shown
    assert "--log-format [auto|console|json|none]" in shown
    assert "--impact-lost [fail|retry]" in shown
    assert "--first-answer-delay SECONDS" in shown
