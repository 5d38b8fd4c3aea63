"""Nouns of the command line: their help has whole sentences, and an unknown verb gives a hint at a known one."""

import inspect

import click

from duenotice.toml import nearest


class Noun(click.Group):
    """A group of verbs."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Each verb with the whole first sentence of its help, on two lines if needed."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, first_sentence(verb.help or "")) for name, verb in found if verb is not None])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the first word means; `vms` is `vm`, and `event` is `events`."""
        known, word = self.list_commands(ctx), args[0]
        if word not in known and (other := next((name for name in known if name in (f"{word}s", word[:-1])), "")):
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
