"""All that the command line prints, except tables, passes here, so that no text can act on the terminal (S28)."""

import sys
from typing import Any

import click

from duenotice.plain_text import lines, one_line


def say(text: str = "", *, err: bool = False, nl: bool = True, **style: Any) -> None:
    """Print a text of one or many lines; its style is never part of the text."""
    click.secho(lines(text), err=err, nl=nl, **style)  # noqa: TID251


def tell(message: str, **style: Any) -> None:
    """Say something to the person in one line; standard output is for data."""
    say(one_line(message), err=True, **style)


def put(line: str) -> None:
    """One line of many; it is buffered."""
    sys.stdout.write(f"{one_line(line)}\n")


def asked(question: str) -> bool:
    """Whether the person says yes."""
    return click.confirm(one_line(question), err=True)
