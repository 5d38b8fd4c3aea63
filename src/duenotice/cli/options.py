"""What is written on the command line: groups of commands, shared options, and values that are checked first."""

import importlib
import inspect
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

import click

from duenotice.toml import nearest

SYNONYMS = {"preempt": "evict", "reboot": "restart", "terminate": "delete"}
"""The words of VMs, and those of people for the same."""


class CommandPlace(NamedTuple):
    """Where a command is defined, as `module:name`, and the first sentence of its help."""

    where: str
    help: str


class Group(click.Group):
    """A group of commands; those in `lazy` are imported only when they are called, so that `--help` stays quick."""

    def __init__(self, *arguments: Any, lazy: Mapping[str, CommandPlace] | None = None, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.lazy = lazy or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """By name; a group that has only lazy ones keeps the order of their table."""
        return sorted([*self.commands, *self.lazy]) if self.commands else list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.lazy:
            return super().get_command(ctx, cmd_name)
        module, _, name = self.lazy[cmd_name].where.partition(":")
        found = getattr(importlib.import_module(f"duenotice.cli.{module}"), name)
        assert isinstance(found, click.Command)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Each command with the whole first sentence of its help, on two lines if needed."""
        told = {name: place.help for name, place in self.lazy.items()}
        told |= {name: first_sentence(command.help or "") for name, command in self.commands.items()}
        with formatter.section("Commands"):
            formatter.write_dl([(name, told[name]) for name in self.list_commands(ctx)])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the first word means; `vms` is `vm`, `event` is `events`, and `preempt` is `evict`."""
        known, word = self.list_commands(ctx), args[0]
        if word not in known and SYNONYMS.get(word) in known:
            args = [SYNONYMS[word], *args[1:]]
        elif word not in known and (other := next((name for name in known if name in (f"{word}s", word[:-1])), "")):
            args = [other, *args[1:]]
        if args[0] not in known and not word.startswith("-"):
            near = nearest(word, known)
            hint = f" Did you mean {near!r}?" if near else ""
            ctx.fail(f"There is no command {word!r}.{hint}")
        return super().resolve_command(ctx, args)


def first_sentence(text: str) -> str:
    """The text up to the first full stop, on one line."""
    words = " ".join(inspect.cleandoc(text).partition("\n\n")[0].split())
    return words.partition(". ")[0].rstrip(".") + "."


class _Choice(click.Choice[str]):
    """A choice in upper or lower case; help shows it as it is written here. What people say for `SAME` counts too."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The one that is meant."""
        meant = next((word for word, said in SYNONYMS.items() if said == str(value).lower()), value)
        return super().convert(meant if meant in map(str.lower, self.choices) else value, param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        """Each of them."""
        return f"[{'|'.join(self.choices)}]"

    def get_invalid_choice_message(self, value: object, ctx: click.Context | None) -> str:
        """An error that names the word that was probably meant."""
        near = nearest(str(value), self.choices)
        hint = f" Did you mean {near!r}?" if near else ""
        return f"{value!r} is not one of {', '.join(self.choices)}.{hint}"


def choice(*words: str) -> click.Choice[str]:
    """One of some words, in upper or lower case."""
    return _Choice(words, case_sensitive=False)


class _Count(click.IntRange):
    """How many of something."""

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        """The shortest form."""
        return "N"


COUNT, FROM_ONE = _Count(min=0), _Count(min=1)
EVENT_TYPE = choice("Freeze", "Reboot", "Redeploy", "Preempt", "Terminate", "SpotRebalanceRecommendation")
MAINTENANCE_TYPE = choice("Freeze", "Reboot", "Redeploy")
EVENT_STATE = choice("failed", "started", "approved", "scheduled", "completed", "cancelled", "resolved")
VM_STATE = choice("failed", "started", "approved", "scheduled", "degraded", "fine")


class _Span(click.ParamType[str]):
    """A span of time as people write it. It stays a text: messages show it and the service reads it."""

    name = "span"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuse what is not a span."""
        from duenotice.errors import Malformed
        from duenotice.wire.spans import parse_duration

        try:
            parse_duration(value)
        except Malformed as error:
            self.fail(f"{error.message} {error.hint}", param, ctx)
        return value


SPAN = _Span()


class _Name(click.ParamType[str]):
    """A name or an id. If it is empty, a script has usually not set a variable."""

    name = "name"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuse an empty text: it could mean all, or something else."""
        if not value.strip():
            self.fail("it is empty.", param, ctx)
        return value


NAME = _Name()


class _Moment(click.ParamType[datetime]):
    """A time as RFC 3339 writes it."""

    name = "time"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Refuse what is not a time, so that the error names the flag."""
        try:
            return datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"{value!r} is not a time; write it like 2026-01-01T12:00:00Z.", param, ctx)


MOMENT = _Moment()
NOTE = click.option("--note", default="", metavar="TEXT", help="What was done about it, for the audit trail.")
